"""A few connections that the threads of a process share, each used by one at a time; and how a fork treats them.

The pool closes a connection that was broken, or left in the middle of an exchange, so that no thread ever reads another's
answer.  A subclass for each driver opens, closes and checks connections.

A fork copies the sockets.  Two processes that send over one would mix their statements, and a child that merely keeps it
open would keep it open for the server after its parent has died.  So the child puts /dev/null in the place of every
inherited socket: its copies of these connections then send nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

from onward.base import forks
from onward.base.clock import time_left
from onward.base.interruption import uninterrupted
from onward.errors import BackendError, BackendUnreachable

__all__ = ["Pool"]

Connection = TypeVar("Connection")

# The connections that another thread was using at a fork: their state is unknown, so they are kept and never touched.
_left_to_parent: list[object] = []


class Pool(Generic[Connection]):
    """The connections of one process to one database."""

    place: str  # where it is, without its password
    _slow = "a statement that waits for a lock"  # the usual reason why connections stay in use

    def __init__(self, size: int, *, borrow_timeout: float = 30.0) -> None:
        """Make an empty pool.  ``borrow_timeout``: how many seconds a thread waits for a connection that another uses."""
        self._size = size
        self.borrow_timeout = borrow_timeout
        self._pid = os.getpid()
        self._closed = False
        # Reentrant, because a signal handler may call this while its own thread is in here.
        self._changed = threading.Condition()
        self._idle: list[Connection] = []
        self._open: dict[int, Connection] = {}  # the idle ones, the borrowed ones and those beside them
        self._borrowed = 0
        forks.watch(self)

    @abstractmethod
    def _opened(self) -> Connection:
        """Open a new connection, ready for use."""

    @abstractmethod
    def _close_connection(self, connection: Connection) -> None:
        """Close a connection, and ignore errors."""

    @abstractmethod
    def _socket(self, connection: Connection) -> int | None:
        """Return the number of a connection's socket; None if it is closed."""

    @abstractmethod
    def _is_quiet(self, connection: Connection) -> bool:
        """Return whether an idle connection is still open: a server that sends without a question is about to close it."""

    @abstractmethod
    def _is_reusable(self, connection: Connection) -> bool:
        """Return whether a connection is clean: no transaction, no unread answer."""

    @property
    def closed(self) -> bool:
        return self._closed

    def borrowed(self) -> Borrowing[Connection]:
        """Borrow a connection: ``with pool.borrowed() as connection:`` no other thread uses it meanwhile."""
        return Borrowing(self._take, self._give_back)

    def connect(self) -> Connection:
        """Open a connection beside the shared ones; the caller discards it."""
        self._refuse_if_closed()
        connection = self._opened()
        self._beside(connection)
        return connection

    def _beside(self, connection: Connection) -> None:
        """Register a connection beside the shared ones, so that a fork drops it."""
        with self._changed:
            self._open[id(connection)] = connection

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise BackendError(f"{self.place}: this backend is closed")

    def discard(self, connection: Connection) -> None:
        with self._changed:
            self._open.pop(id(connection), None)
        self._close_connection(connection)

    def discard_idle(self) -> None:
        """Close the idle connections.  Those in use are checked when they are given back."""
        with self._changed:
            idle, self._idle = self._idle, []
        for connection in idle:
            self.discard(connection)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self.discard_idle()

    # Forks

    def before_fork(self) -> None:
        self._changed.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        changed = self._changed
        if in_child:
            self._drop_inherited()
            self._changed = threading.Condition()  # threads that waited for the old one are not here
        changed.release()

    def _drop_inherited(self) -> None:
        """Forget the parent's connections, and send nothing over their sockets."""
        idle = {id(connection) for connection in self._idle}
        for key, connection in self._open.items():
            if (number := self._socket(connection)) is not None:
                _put_dev_null(number)
            if key in idle:
                self._close_connection(connection)
            else:
                _left_to_parent.append(connection)
        self._open, self._idle, self._borrowed = {}, [], 0
        self._pid = os.getpid()

    # Borrowing

    def _take(self) -> Connection:
        timeout = time_left(self.borrow_timeout)
        deadline = time.monotonic() + timeout
        with self._changed:
            if self._pid != os.getpid():  # some servers fork without telling Python
                self._drop_inherited()
            while True:
                self._refuse_if_closed()
                while self._idle:
                    connection = self._idle.pop()
                    if self._is_quiet(connection):
                        self._borrowed += 1
                        return connection
                    self.discard(connection)
                if self._borrowed < self._size:
                    self._borrowed += 1
                    break
                if not self._changed.wait(deadline - time.monotonic()):
                    raise BackendUnreachable(
                        f"{self.place}: all {self._size} connections of this process were in use for {timeout:.3g} s: "
                        f"raise pool_size, or look for {self._slow}"
                    )
        try:
            return self.connect()
        except BaseException:
            with self._changed:
                self._borrowed -= 1
                self._changed.notify()
            raise

    def _give_back(self, connection: Connection) -> None:
        with self._changed:
            if self._open.get(id(connection)) is not connection:
                return  # this process was forked meanwhile: the connection is its parent's
            self._borrowed -= 1
            reusable = not self._closed and self._is_reusable(connection)
            if reusable:
                self._idle.append(connection)
            self._changed.notify()
        if not reusable:
            self.discard(connection)


class Borrowing(Generic[Connection]):
    """A connection for one block, which no interruption leaves half used.  A class, for speed: every verb uses it."""

    __slots__ = ("_connection", "_give_back", "_take", "_uninterrupted")

    def __init__(self, take: Callable[[], Connection], give_back: Callable[[Connection], None]) -> None:
        self._take = take
        self._give_back = give_back
        self._uninterrupted = uninterrupted()

    def __enter__(self) -> Connection:
        self._uninterrupted.__enter__()
        try:
            self._connection = self._take()
        except BaseException:
            self._uninterrupted.__exit__(*sys.exc_info())
            raise
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._give_back(self._connection)
        finally:
            self._uninterrupted.__exit__(kind, error, traceback)


def _put_dev_null(fileno: int) -> None:
    """Put /dev/null in the place of an inherited socket."""
    nothing = os.open(os.devnull, os.O_RDWR)
    with contextlib.suppress(OSError):
        os.dup2(nothing, fileno, inheritable=False)
    os.close(nothing)
