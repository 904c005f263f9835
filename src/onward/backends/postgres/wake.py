"""Waking idle workers of other processes and machines: LISTEN and NOTIFY, and polling besides.

An idle worker, a *sleeper*, writes a row into a table.  If there is such a row, a process that makes jobs due sends one
notification that names the queues.  It does so after the commit: a notification within a transaction makes every other
commit of the database wait for the disk.

Every sleeper gets the notification, and one job needs only one of them.  So each waits a moment, at random, and looks
whether there still is work.  A sleeper that finds none waits longer the next time, one that finds work shorter.  Alone, a
worker does not wait at all; of fifty, two or three claim for one job.

A notification is only a hint and can be lost, with a process that died before it could send it or with the sleeper's
connection.  So every sleeper also looks about once a second, and at first more often, because its row may have come too
late.  Where there are no notifications, as behind a pooler that gives out a session for one transaction, it looks five
times a second.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.queries import Section
from onward.backends.sql.waiting import Waiting
from onward.base import forks
from onward.errors import BackendError

__all__ = ["EVERY_QUEUE", "ClaimDelay", "Listener", "PostgresWaiting", "named"]

EVERY_QUEUE = ""  # a notification that names no queue may be for any
_PAYLOAD_LIMIT = 7_000  # the server's is 8,000 bytes
_FIRST, _LISTENING = 0.03, 1.0  # seconds between two looks where there are notifications
_LOOKING = 0.2  # and where there are none
_OVERLAP = 0.5  # seconds that the row of a sleeper counts beyond its next look
_SLICE = 0.5  # seconds until a sleeper notices that its backend was closed
_TURN = 0.004  # seconds that a wake, a look and a claim take: a later sleeper sees the claim
_EMPTY_EVERY = 1.0
_TRY_AGAIN = 5.0  # seconds until the next try to listen

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode

# Seconds until one of these queues has work, and how many others wait for it; told for how long this sleeper listens.
Look = Callable[[Sequence[str], float | None], tuple[float, int]]


def named(queues: Collection[str]) -> str:
    """Return the text of a notification for these queues.

    >>> named({"mail"}), named([f"queue-{number}" for number in range(1000)])
    ('["mail"]', '')
    """
    payload = _encode(sorted(queues)).decode()
    return payload if EVERY_QUEUE not in queues and len(payload.encode()) < _PAYLOAD_LIMIT else EVERY_QUEUE


def is_for(payload: str, queues: Collection[str]) -> bool:
    """Return whether a notification may be for one of these queues.

    >>> is_for('["mail","video"]', ["video"]), is_for('["mail"]', ["video"]), is_for("", ["video"])
    (True, False, True)
    """
    try:
        return payload == EVERY_QUEUE or not set(queues).isdisjoint(_decode(payload))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # not a notification of Onward; a look does no harm


class PostgresWaiting(Waiting):
    """Lets workers of this process sleep until there is work for them."""

    def __init__(self, connections: Connections, listen: Section, look: Look) -> None:
        super().__init__(connections)
        self._look = look
        self.listener = Listener(connections, listen)
        self._delay = ClaimDelay()

    def wait(self, queues: Sequence[str], deadline: float) -> None:
        if self._rest(deadline):
            self._delay.lost()
        heard = False
        for pause in _pauses(self.listener):
            due, self._delay.rivals = self._look(queues, pause + _OVERLAP if self.listener.listens else None)
            if due <= 0 or self._connections.closed:
                self._expects_work = due <= 0
                return
            if heard:
                self._delay.lost()
            heard = self._sleep(queues, min(deadline, time.monotonic() + min(pause, due)))
            if heard:
                moment = self._delay.seconds()
                if not moment and self.listener.connected:  # no rival is expected: claiming is quicker than looking
                    self._expects_work = True
                    return
                time.sleep(moment)
            elif time.monotonic() >= deadline or self._connections.closed:
                return

    def turn_begins(self) -> None:
        self.listener.empty()

    def claimed(self) -> None:
        super().claimed()
        self._delay.claimed()

    def close(self) -> None:
        self.listener.close()

    def _sleep(self, queues: Sequence[str], until: float) -> bool:
        while not self._connections.closed and (seconds := until - time.monotonic()) > 0:
            if self.listener.sleep(queues, seconds):
                return True
        return False


class ClaimDelay:
    """How long to wait before claiming a job of which other sleepers were notified as well."""

    def __init__(self) -> None:
        self.rivals = 0  # how many other sleepers could claim it
        self._share = 1.0  # part of the time that all of them would need one after the other

    def seconds(self) -> float:
        return random.uniform(0, self._share * _TURN * self.rivals)

    def lost(self) -> None:
        """Wait longer the next time: another sleeper was faster."""
        self._share = min(max(2 * self._share, 0.25), 2.0)

    def claimed(self) -> None:
        """Wait shorter the next time."""
        self._share = self._share / 2 if self._share > 0.1 else 0.0


class Listener:
    """A connection that listens, for one sleeper at a time; other threads poll."""

    def __init__(self, connections: Connections, listen: Section) -> None:
        self._connections = connections
        self._listen = listen
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._silent_until = 0.0
        self._emptied = 0.0
        forks.call_in_child(self._begin_anew)

    @property
    def listens(self) -> bool:
        """Whether the connection listens; it begins to, if it can."""
        with self._lock:
            return self._opened() is not None

    @property
    def connected(self) -> bool:
        """Whether the connection is open: its end wakes the sleeper, too."""
        return self._connection is not None

    def sleep(self, queues: Sequence[str], seconds: float) -> bool:
        """Sleep until notified of work, at most ``seconds``.  Returns whether it was."""
        if not self._lock.acquire(blocking=False):
            time.sleep(min(seconds, _SLICE))
            return False
        try:
            connection = self._opened()
            if connection is None:
                time.sleep(min(seconds, _SLICE))
                return False
            return self._notified(connection, queues, min(seconds, _SLICE))
        finally:
            self._lock.release()

    def empty(self) -> None:
        """Read the notifications that came while workers were busy: the server keeps those that no client reads."""
        now = time.monotonic()
        if self._connection is not None and now - self._emptied > _EMPTY_EVERY and self._lock.acquire(blocking=False):
            self._emptied = now
            try:
                if self._connection is not None:
                    self._notified(self._connection, (), 0)
            finally:
                self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._connection = None  # which the pool lets go of

    def _opened(self) -> Connection | None:
        if self._connections.pooled:
            self._drop()
        elif self._connection is None and time.monotonic() >= self._silent_until:
            # The next look raises if the server cannot be reached.
            self._silent_until = time.monotonic() + _jittered(_TRY_AGAIN)
            with contextlib.suppress(psycopg.Error, BackendError):
                connection = self._connections.connect()
                try:
                    connection.execute(self._listen.sql, prepare=False)
                except BaseException:
                    self._connections.discard(connection)
                    raise
                self._connection = connection
                self._silent_until = 0.0
        return self._connection

    def _notified(self, connection: Connection, queues: Sequence[str], seconds: float) -> bool:
        try:
            heard = [note.payload for note in connection.notifies(timeout=seconds, stop_after=1)]
        except psycopg.Error:
            self._drop()
            return True  # a notification may be lost, and a look does no harm
        return any(is_for(payload, queues) for payload in heard)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.discard(connection)


def _pauses(listener: Listener) -> Iterator[float]:
    """Yield the seconds between looks, at random: sleepers must not all look at the same moment."""
    pause = _FIRST
    while True:
        yield _jittered(pause if listener.listens else _LOOKING)
        pause = min(4 * pause, _LISTENING)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.25)
