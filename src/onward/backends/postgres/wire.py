"""Onward's own statements, sent by libpq: the driver's cursors cost more than the statements.

A statement is prepared the first time that it is sent over a connection, for the types that its values have.  Outside a
pipeline `send` waits for the answer.  In a pipeline it only sends; reading an answer waits for it, and the end of the
pipeline for all others.  It raises the first failure: the server has skipped all statements after it.

`poll` waits, and a signal interrupts it.  A thread that leaves in the middle leaves a busy connection: the pool closes it.
"""

from __future__ import annotations

import hashlib
import select
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import NoneType
from typing import Any

from onward.backends.postgres.arrays import Blobs, as_array
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.transaction import Reply, Row
from onward.base.clock import milliseconds_left

__all__ = ["Wire"]

_TEXT, _BINARY = psycopg.pq.Format.TEXT, psycopg.pq.Format.BINARY
_Status = psycopg.pq.ExecStatus
_FINE = (_Status.TUPLES_OK, _Status.COMMAND_OK, _Status.EMPTY_QUERY)


class _Answer(Reply):
    """A reply that comes over the wire."""

    __slots__ = ("_result", "_rows", "_wire")

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._result: psycopg.pq.abc.PGresult | None = None
        self._rows: list[Row] | None = None

    def rows(self) -> list[Row]:
        if self._rows is None:
            if self._result is None:
                self._wire.read(self)
            assert self._result is not None
            self._rows = self._wire.loaded(self._result)
        return self._rows

    @property
    def status(self) -> str | None:
        said = self._result and self._result.command_status
        return said.decode() if said else None

    def arrived(self, result: psycopg.pq.abc.PGresult) -> None:
        self._result = result

    def failed(self) -> None:
        """Note that the statement was not executed."""


class _Preparation(_Answer):
    """The reply to preparing a statement that is executed next."""

    __slots__ = ("_key", "_names")

    def __init__(self, wire: Wire, names: dict[_Key, bytes], key: _Key) -> None:
        super().__init__(wire)
        self._names = names
        self._key = key

    def failed(self) -> None:
        self._names.pop(self._key, None)


_Key = tuple[bytes, tuple[int, ...]]  # a statement, and the types of its values


class Wire:
    """Statements and answers over one connection, which no other thread uses meanwhile."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._libpq = connection.pgconn
        self._prepares = connection.prepare_threshold is not None
        self._loader = psycopg.adapt.Transformer(connection)
        self._names: dict[_Key, bytes] = {}
        self._unread: deque[_Answer] = deque()
        self._unasked = False  # whether statements were sent, and their answers not requested
        self._pipelined = False
        self._readable, self._ready = select.poll(), select.poll()
        self._readable.register(self._libpq.socket, select.POLLIN)
        self._ready.register(self._libpq.socket, select.POLLIN | select.POLLOUT)

    def send(self, sql: bytes, values: Sequence[object]) -> Reply:
        """Send a statement; outside a pipeline, wait for the answer, too."""
        data, formats, types = zip(*map(_dumped, values), strict=True) if values else ((), (), ())
        if self._prepares:
            name = self._prepared((sql, types))
            self._libpq.send_query_prepared(name, list(data), list(formats), _BINARY)
        else:
            self._libpq.send_query_params(sql, list(data), list(types), list(formats), _BINARY)
        return self._asked(_Answer(self))

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Send statements in the block without waiting; reading an answer waits for it."""
        self._libpq.enter_pipeline_mode()
        self._pipelined = True
        try:
            yield
        except Exception:
            with suppress(psycopg.Error):  # the first error counts
                self._end_pipeline()
            raise
        self._end_pipeline()

    def read(self, wanted: _Answer) -> None:
        """Read until this answer is there."""
        if self._unasked:  # once for all that was sent: every request wakes the server
            if self._pipelined:
                self._libpq.send_flush_request()
            self._flush()
            self._unasked = False
        while self._unread:
            answer = self._unread.popleft()
            self._read_next(answer)
            if answer is wanted:
                return

    def loaded(self, result: psycopg.pq.abc.PGresult) -> list[Row]:
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, result.ntuples, tuple)

    # Sending

    def _prepared(self, key: _Key) -> bytes:
        """Return the name of a prepared statement; prepare it if need be."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = _name_of(key)
            sql, types = key
            self._libpq.send_prepare(name, sql, types)
            self._asked(_Preparation(self, self._names, key))
        return name

    def _asked(self, answer: _Answer) -> _Answer:
        self._unread.append(answer)
        self._unasked = True
        if not self._pipelined:
            self.read(answer)
        return answer

    def _flush(self) -> None:
        """Send until all bytes are out.  The server may have to be read before it reads."""
        while self._libpq.flush():
            _answered(self._ready)
            self._libpq.consume_input()

    # Reading

    def _read_next(self, answer: _Answer) -> None:
        result = self._next_result()
        while (more := self._next_result()) is not None:
            result = more
        if result is not None and result.status in _FINE:
            answer.arrived(result)
            return
        answer.failed()
        raise _error(result)

    def _next_result(self) -> psycopg.pq.abc.PGresult | None:
        while self._libpq.is_busy():
            _answered(self._readable)
            self._libpq.consume_input()
        return self._libpq.get_result()

    def _end_pipeline(self) -> None:
        """Read all answers, and raise the first failure."""
        self._pipelined = self._unasked = False
        failure: psycopg.Error | None = None
        self._libpq.pipeline_sync()
        self._flush()
        while self._unread:
            try:
                self._read_next(self._unread.popleft())
            except psycopg.Error as error:
                failure = failure or error
                if self._libpq.status != psycopg.pq.ConnStatus.OK:
                    break
        self._unread.clear()
        if self._libpq.status == psycopg.pq.ConnStatus.OK:
            self._next_result()  # the end of the pipeline
            self._libpq.exit_pipeline_mode()
        if failure is not None:
            raise failure


def _name_of(key: _Key) -> bytes:
    """Return a name that is this statement's in every session.

    A pooler may lend a session to one client after the other.  A name that meant two statements there would make one of them
    execute the other's.
    """
    sql, types = key
    return b"onward_" + hashlib.blake2b(sql + repr(types).encode(), digest_size=12).hexdigest().encode()


def _answered(poll: select.poll) -> None:
    if not poll.poll(milliseconds_left()):
        raise psycopg.OperationalError("the server did not answer in time")


def _error(result: psycopg.pq.abc.PGresult | None) -> psycopg.Error:
    if result is None:
        return psycopg.OperationalError("the connection is lost")
    if result.status == _Status.PIPELINE_ABORTED:
        return psycopg.errors.PipelineAborted("a statement before it failed")
    error = psycopg.errors.error_from_result(result)
    return error if error.sqlstate else psycopg.OperationalError(str(error))


_Dumped = tuple[bytes | None, int, int]  # a value's bytes, their format and the number of its type: no class, for speed

_UNKNOWN, _BOOL, _BYTEA, _INT8, _BYTEA_ARRAY = 0, 16, 17, 20, 1001
_NULL: _Dumped = (None, _TEXT, _UNKNOWN)
_TRUTHS: dict[bool, _Dumped] = {truth: (bytes([truth]), _BINARY, _BOOL) for truth in (False, True)}


def _text(value: str) -> _Dumped:
    data = value.encode()
    if b"\0" in data:
        raise psycopg.DataError("text cannot contain NUL (0x00) bytes")  # and is not cut off there
    return data, _TEXT, _UNKNOWN


_DUMPERS: dict[type, Any] = {
    NoneType: lambda _: _NULL,
    str: _text,
    int: lambda value: (value.to_bytes(8, "big", signed=True), _BINARY, _INT8),
    bool: _TRUTHS.__getitem__,
    bytes: lambda value: (value, _BINARY, _BYTEA),
    Blobs: lambda value: (value.data, _BINARY, _BYTEA_ARRAY),
    list: lambda value: _dumped(as_array(value)),
}


def _dumped(value: object) -> _Dumped:
    dump = _DUMPERS.get(type(value))
    if dump is None:  # a subclass of str, as states are
        dump = next(dump for kind, dump in _DUMPERS.items() if isinstance(value, kind))
    dumped: _Dumped = dump(value)
    return dumped
