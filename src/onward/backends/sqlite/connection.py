"""The two connections of a process to its file: one that writes, one that reads, each used by one thread at a time.

A write takes the lock as it begins, by BEGIN IMMEDIATE or as a single statement: a transaction that has begun does not fail
for want of a lock later.  SQLite's own busy handler sleeps up to 100 ms and is unfair, so waiting is done here, in steps of
a fraction of a millisecond with jitter.

SQLite keeps its locks per process and file, and a fork copies that bookkeeping but not the locks.  So `Connections` closes
both before every fork and opens them again, on either side, when needed.  It refuses a connection that was copied by a fork
all the same (some servers fork without telling Python) before it runs a statement.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from onward.backends.sql.text import escaped
from onward.backends.sqlite import errors, filesystem
from onward.base import forks
from onward.base.clock import time_left
from onward.base.interruption import uninterrupted
from onward.errors import BackendError, BackendMisconfigured, BackendUnreachable

__all__ = ["WAL_LIMIT", "Connections", "LockedConnection", "connect", "with_retries"]

WAL_LIMIT = 64 * 1024 * 1024
_FIRST_PAUSE = 0.0002
_LONGEST_PAUSE = 0.002  # the thread that has just written gets the lock sooner: a longer pause would starve the others

P = ParamSpec("P")
Result = TypeVar("Result")
Kind = TypeVar("Kind", bound=sqlite3.Connection)


class Connections:
    """The writing and the reading connection to one file."""

    def __init__(
        self, path: Path, *, durable: bool, busy_timeout: float, prepare: Callable[[sqlite3.Connection], None]
    ) -> None:
        self.path = path
        self.busy_timeout = busy_timeout
        self.durable = durable
        self._prepare = prepare
        self._prepared = False  # whether the file is there, with its tables
        self._closed = False
        self.writer = LockedConnection(self._open_writer, path, busy_timeout)
        self._reader = LockedConnection(self._open_reader, path, busy_timeout)
        forks.watch(self)

    def connect(self) -> None:
        """Open the file, and create it and its tables if they are not there."""
        with self.writer.borrowed():
            pass

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Hold the write lock.  Commits at the end of the block, durably, or rolls back if it raises."""
        return self.writer.transaction(_begin_writing)

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Read one snapshot of the file, whatever is written meanwhile."""
        self._connect_once()
        return self._reader.transaction(_begin_reading)

    def tidying(self) -> AbstractContextManager[sqlite3.Connection]:
        """Hold the writing connection without a transaction, for checkpoints and vacuuming."""
        return self.writer.borrowed()

    def for_handler(self, kind: type[Kind]) -> Kind:
        """Open a connection in a transaction that has the write lock; the caller closes it."""
        self._connect_once()
        with uninterrupted(), self.translated():
            connection = self._open(kind=kind)
            try:
                with_retries(_begin_writing, self.busy_timeout, connection)
            except BaseException:
                sqlite3.Connection.close(connection)
                raise
            return connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn errors of the driver into errors of Onward."""
        try:
            yield
        except errors.DRIVERS as error:
            raise errors.translation(error, self.path) from error

    def version(self) -> int:
        """Return a number that changes whenever another connection has changed the file."""
        self._connect_once()
        with self._reader.borrowed() as connection:
            (version,) = with_retries(lambda: connection.execute("PRAGMA data_version").fetchone(), self.busy_timeout)
            return int(version)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        for each in (self.writer, self._reader):
            each.close()

    def before_fork(self) -> None:
        self.writer.before_fork()
        self._reader.before_fork()

    def after_fork(self, *, in_child: bool) -> None:
        self._reader.after_fork()
        self.writer.after_fork()

    def _connect_once(self) -> None:
        """Create and prepare the file.  Not under the reader's lock: a fork takes the two in the other order."""
        if not self._prepared:
            self.connect()

    def _open_writer(self) -> sqlite3.Connection:
        if not self._prepared and not self._closed:
            filesystem.check_local(self.path)
            filesystem.create(self.path)
        connection: sqlite3.Connection = self._open(self._keep_a_log, self._prepare)
        self._prepared = True
        return connection

    def _open_reader(self) -> sqlite3.Connection:
        return self._open(_only_read)

    def _keep_a_log(self, connection: sqlite3.Connection) -> None:
        """Turn on write-ahead logging, a property of the file: the first process sets it."""
        if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # can be chosen only while the file is empty
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise BackendMisconfigured(
                f"{self.path}: its file system allows no write-ahead log ({mode}): use a local disk"
            )

    def _open(
        self,
        *steps: Callable[[sqlite3.Connection], object],
        kind: type[Kind] = sqlite3.Connection,  # type: ignore[assignment]
    ) -> Kind:
        if self._closed:
            raise BackendError(f"{self.path}: this backend is closed")
        connection = connect(self.path, kind)
        try:
            connection.execute(f"PRAGMA synchronous = {'FULL' if self.durable else 'NORMAL'}")
            connection.execute(f"PRAGMA fullfsync = {int(self.durable)}")  # macOS: its fsync stops at the drive's cache
            for step in steps:
                step(connection)
        except BaseException:
            connection.close()
            raise
        return connection


class LockedConnection:
    """One connection under a lock: opened when needed, and closed for good after an error of the disk."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: Path, busy_timeout: float) -> None:
        self._connect = connect
        self._path = path
        self._name = str(path)
        self._busy_timeout = busy_timeout
        # Reentrant, so that a signal handler that calls this again gets an error instead of waiting for itself.
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._file: tuple[int, int] | None = None

    @contextmanager
    def transaction(self, begin: Callable[[sqlite3.Connection], None]) -> Iterator[sqlite3.Connection]:
        # Without nested contexts: every enqueued job passes through here, and each context costs microseconds.
        with uninterrupted(), self._lock:
            try:
                connection = self._ready()
                try:
                    with_retries(begin, time_left(self._busy_timeout), connection)
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    self._roll_back(connection)
                    raise
            except errors.DRIVERS as error:
                raise self._translated(error) from error

    @contextmanager
    def borrowed(self) -> Iterator[sqlite3.Connection]:
        with uninterrupted(), self._lock:
            try:
                yield self._ready()
            except errors.DRIVERS as error:
                raise self._translated(error) from error

    def alone(self, write: Callable[[sqlite3.Connection], Result]) -> Result:
        """Let ``write`` run a single statement, which is a transaction by itself.  It may be called several times."""
        with uninterrupted(), self._lock:
            try:
                connection = self._ready()
                try:
                    return write(connection)
                except sqlite3.OperationalError as error:
                    if not errors.is_busy(error):
                        raise
                return with_retries(write, time_left(self._busy_timeout), connection)
            except errors.DRIVERS as error:
                raise self._translated(error) from error

    def close(self) -> None:
        with self._lock:
            self._drop()

    def before_fork(self) -> None:
        self._lock.acquire()
        # In a transaction only if this thread forks in the middle of it; the child's copy is refused then.
        if self._connection is not None and not self._connection.in_transaction:
            self._drop()

    def after_fork(self) -> None:
        self._lock.release()

    def _ready(self) -> sqlite3.Connection:
        if self._connection is not None:
            self._check(self._connection)
        if self._connection is None:
            # Read before opening: a file that is replaced while it is opened must not be taken for the one that was opened.
            file = _identity(self._name)
            # A process that is opening or closing the file blocks even a first look at it.
            self._connection = with_retries(self._connect, time_left(self._busy_timeout))
            self._pid = os.getpid()
            self._file = file or _identity(self._name)  # of the file that this process made
        return self._connection

    def _check(self, connection: sqlite3.Connection) -> None:
        if self._pid != os.getpid():
            raise BackendMisconfigured(
                f"{self._path}: this process is a fork with a copy of an open connection, which SQLite does not allow: "
                f"open the backend after forking (uWSGI: lazy-apps = true)"
            )
        if connection.in_transaction:
            again = BackendUnreachable(
                f"{self._path}: called again from within its own transaction, by a signal handler"
            )
            again.of_signal_handler = True
            raise again
        if self._file != _identity(self._name):
            # Deleted or replaced: writes to the old file would be lost.
            self._drop()

    def _translated(self, error: Exception) -> BackendError:
        if errors.is_broken(error):
            self._drop()
        return errors.translation(error, self._path)

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()  # this rolls back, too

    def _drop(self) -> None:
        # A copy made by a fork is kept open: closing it would release locks that belong to the parent.
        if self._connection is not None and self._pid == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None


def connect(path: Path, kind: type[Kind] = sqlite3.Connection) -> Kind:  # type: ignore[assignment]
    """Open a bare connection to an existing file: a deleted file must not come back as an empty one."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=kind,
    )
    try:
        connection.execute("PRAGMA mmap_size = 0")  # a mapped file turns stray writes and I/O errors into damage
        connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def with_retries(attempt: Callable[P, Result], busy_timeout: float, *args: P.args, **named: P.kwargs) -> Result:
    """Repeat a call until no lock is in its way, at most ``busy_timeout`` seconds."""
    deadline = time.monotonic() + busy_timeout
    pause = _FIRST_PAUSE
    while True:
        try:
            return attempt(*args, **named)
        except sqlite3.OperationalError as error:
            if not errors.is_busy(error) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a third of the price of Path.stat(), and asked before every transaction
    except OSError:  # there is no such file: opening it raises the reason
        return None
    return status.st_dev, status.st_ino


def _begin_writing(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")


def _begin_reading(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    try:
        # BEGIN alone takes no snapshot; if a lock is in the way, this statement fails and not a later one.
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error:
        connection.execute("ROLLBACK")
        raise


def _only_read(connection: sqlite3.Connection) -> None:
    connection.text_factory = escaped  # bytes that are no text are shown escaped
    connection.execute("PRAGMA query_only = ON")
