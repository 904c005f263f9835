"""The connection that a handler works with: one thread at a time uses it, and the handler cannot end its transaction.

SQLite holds the connection's mutex while it calls Python code: an authorizer, a function, a trace.  The driver waits for
that mutex while it holds the interpreter's lock, to read a column or an error.  So two threads in one connection can wait
for each other, and the whole interpreter waits with them.

Therefore every method of the driver's connection and cursors, of whichever version of Python, takes `lock` first.  A thread
waits for it without the interpreter's lock.  The only call from another thread is `interrupt`, which sets a flag.  Methods
that cannot be guarded are refused.  Decision 0028 has the whole argument.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from onward.errors import TransactionError

__all__ = ["HandlerConnection", "HandlerCursor"]

# The special methods that use the connection; other special methods do not.
_SPECIAL = frozenset({"__call__", "__enter__", "__exit__", "__next__"})


class HandlerCursor(sqlite3.Cursor):
    """A cursor of a `HandlerConnection`, under the same lock."""

    def close(self) -> None:
        # Allowed also when the time is over: a handler may clean up.
        with self.connection.lock:  # type: ignore[attr-defined]
            sqlite3.Cursor.close(self)


class HandlerConnection(sqlite3.Connection):
    """A connection that other threads can use, and end, only between two calls."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.lock = threading.RLock()
        self.check: Callable[[], None] = _no_objection  # raises if calls are refused
        self._cursors: weakref.WeakSet[HandlerCursor] = weakref.WeakSet()
        super().__init__(*args, **options)

    def cursor(self, factory: Any = sqlite3.Cursor) -> Any:
        if factory is not sqlite3.Cursor:
            raise TransactionError(
                "cursor(factory) is not available in a job's transaction, which has cursors of its own: set row_factory to "
                "change the type of rows"
            )
        with self.lock:
            self.check()
            cursor = super().cursor(HandlerCursor)
            self._cursors.add(cursor)
            return cursor

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        return self.cursor().execute(sql, parameters)  # the driver's would make a cursor of its own kind

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        return self.cursor().executemany(sql, parameters)

    def undo(self) -> None:
        """Roll back, whatever is open.  Only the owner of the transaction calls this, under the lock."""
        self.close_cursors()
        sqlite3.Connection.rollback(self)

    def end(self) -> None:
        """Close the connection.  Only the owner of the transaction calls this, under the lock."""
        self.close_cursors()
        sqlite3.Connection.close(self)

    def close_cursors(self) -> None:
        # While a cursor is open, an interruption affects every statement, ROLLBACK included, and the file stays open.
        for cursor in list(self._cursors):
            with contextlib.suppress(sqlite3.Error):
                sqlite3.Cursor.close(cursor)

    def commit(self) -> NoReturn:
        _refuse_to("commit")

    def rollback(self) -> NoReturn:
        _refuse_to("roll back")

    def close(self) -> NoReturn:
        _refuse_to("close")

    def executescript(self, sql_script: str, /) -> NoReturn:
        raise TransactionError("executescript() commits before it runs: use execute() or executemany() here")

    def set_authorizer(self, *_: object, **__: object) -> NoReturn:
        raise TransactionError(
            "set_authorizer() is not available in a job's transaction, which refuses COMMIT and ATTACH"
        )

    def create_window_function(self, *_: object, **__: object) -> NoReturn:
        # Its `finalize` is called when a cursor is collected as garbage, in any thread, past the lock.
        raise TransactionError(
            "create_window_function() is not available in a job's transaction: use create_aggregate(), or compute it "
            "before the block"
        )

    def blobopen(self, *_: object, **__: object) -> NoReturn:
        raise TransactionError(
            "blobopen() is not available in a job's transaction: read and write the value with execute()"
        )


def _guard(kind: type, connection_of: Callable[[Any], HandlerConnection]) -> None:
    """Put every way into the driver's class that ``kind`` does not define itself under the connection's lock."""
    driver = kind.__base__
    assert driver is not None
    for name, member in vars(driver).items():
        inside = not name.startswith("_") or name in _SPECIAL
        if name in vars(kind) or name == "interrupt" or not inside:
            continue
        if isinstance(member, types.GetSetDescriptorType):
            # Reading an attribute takes no mutex; setting one may run a statement.
            setattr(kind, name, property(member.__get__, _guarded(member.__set__, connection_of)))
        elif callable(member):
            setattr(kind, name, _guarded(member, connection_of))


def _guarded(method: Callable[..., Any], connection_of: Callable[[Any], HandlerConnection]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        connection = connection_of(self)
        with connection.lock:
            connection.check()
            return method(self, *args, **options)

    return call


def _no_objection() -> None:
    """Refuse nothing: the connection has no owner yet."""


def _refuse_to(verb: str) -> NoReturn:
    raise TransactionError(
        f"a handler does not {verb} its job's transaction: leaving the block commits it, an exception rolls it back"
    )


_guard(HandlerConnection, lambda connection: connection)
_guard(HandlerCursor, lambda cursor: cursor.connection)
