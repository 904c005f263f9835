"""Waking workers of other processes and machines: LISTEN and NOTIFY, and a look now and then.

Who sleeps leaves word in a table.  Whoever makes a job due sends one notification for all that its transaction did, naming
the queues, if anybody has left word: after the commit, for one that is sent within keeps every other commit of the database
waiting for the disk.

Everybody who sleeps hears it, and one job needs only one of them.  So each lets a moment pass, at random, and looks whether
there still is work.  Who came in vain waits longer the next time, who found work shorter.  Alone, a worker does not wait at
all; of fifty, two or three come for one job.

A notification is only a hint and can be lost, with a process that died before it could send it or with our connection.  So
every sleeper looks about once a second, and at first more often, for the word that it left may have come too late.  Where
there are no notifications to be had, as behind a pooler that lends a session for one transaction, it looks five times a
second.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Collection, Iterator, Sequence

import msgspec

from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.queries import Statement
from onward.base import backoff, forks
from onward.errors import BackendError

__all__ = ["OVERLAP", "Ear", "Patience", "named", "pauses"]

_ANY = ""  # a notification that names no queue may be for any
_PAYLOAD_LIMIT = 7_000  # the server's is 8,000 bytes
_FIRST, _LISTENING = 0.03, 1.0  # seconds between two looks where there are notifications
_LOOKING = 0.2  # and where there are none
OVERLAP = 0.5  # seconds that the word left by a sleeper counts beyond its next look
_SLICE = 0.5  # so soon a sleeper notices that its backend was closed
_TURN = 0.004  # seconds that it takes to come, look and claim: who comes later sees it
_MOMENT, _LONGEST_REST = 0.001, 0.25
_EMPTY_EVERY = 1.0
_TRY_AGAIN = 5.0  # seconds until it is tried again to listen

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode


def named(queues: Collection[str]) -> str:
    """A notification for these queues.

    >>> named({"mail"}), named([f"queue-{number}" for number in range(1000)])
    ('["mail"]', '')
    """
    payload = _encode(sorted(queues)).decode()
    return payload if len(payload.encode()) < _PAYLOAD_LIMIT else _ANY


def is_for(payload: str, queues: Collection[str]) -> bool:
    """
    >>> is_for('["mail","video"]', ["video"]), is_for('["mail"]', ["video"]), is_for("", ["video"])
    (True, False, True)
    """
    try:
        return payload == _ANY or not set(queues).isdisjoint(_decode(payload))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True  # not one of ours, but who knows


class Patience:
    """How long to wait before coming for a job that others may come for as well."""

    def __init__(self) -> None:
        self.rivals = 0  # so many others could come
        self._share = 1.0  # of the time that it would take if all of them came
        self._sent_in_vain = 0

    def moment(self) -> float:
        """Before it comes."""
        return random.uniform(0, self._share * _TURN * self.rivals)

    def came_in_vain(self) -> None:
        self._share = min(max(2 * self._share, 0.25), 2.0)

    def found_work(self) -> None:
        self._share = self._share / 2 if self._share > 0.1 else 0.0
        self._sent_in_vain = 0

    def rest(self) -> float:
        """After it was sent for work and could claim none: perhaps somebody has locked it, and takes his time."""
        self.came_in_vain()
        self._sent_in_vain += 1
        return backoff.jittered(backoff.doubling(2 * _MOMENT, self._sent_in_vain, _LONGEST_REST))


class Ear:
    """A connection that listens, for one sleeper at a time; another one looks now and then."""

    def __init__(self, connections: Connections, listen: Statement) -> None:
        self._connections = connections
        self._listen = listen
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._deaf_until = 0.0
        self._emptied = 0.0
        forks.watch(self)

    @property
    def listens(self) -> bool:
        """Listen from now on, if that is possible here."""
        with self._lock:
            return self._opened() is not None

    @property
    def deaf(self) -> bool:
        """Whether what woke the sleeper was the end of its connection."""
        return self._connection is None

    def sleep(self, queues: Sequence[str], seconds: float) -> bool:
        """Until somebody says that there is work, at most so long.  Whether somebody said so."""
        if not self._lock.acquire(blocking=False):
            time.sleep(min(seconds, _SLICE))
            return False
        try:
            connection = self._opened()
            if connection is None:
                time.sleep(min(seconds, _SLICE))
                return False
            return self._hear(connection, queues, min(seconds, _SLICE))
        finally:
            self._lock.release()

    def empty(self) -> None:
        """Who works does not listen; but a server that cannot get rid of its notifications keeps them for everybody."""
        now = time.monotonic()
        if self._connection is not None and now - self._emptied > _EMPTY_EVERY and self._lock.acquire(blocking=False):
            self._emptied = now
            try:
                if self._connection is not None:
                    self._hear(self._connection, (), 0)
            finally:
                self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def before_fork(self) -> None:
        """Nothing to do: the connection is muted by its owner."""

    def after_fork(self, *, in_child: bool) -> None:
        if in_child:
            self._lock = threading.Lock()
            self._connection = None

    def _opened(self) -> Connection | None:
        if self._connections.pooled:
            self._drop()
        elif self._connection is None and time.monotonic() >= self._deaf_until:
            # Whether the server is there, and what is wrong with it, is said by whoever looks.
            self._deaf_until = time.monotonic() + jittered(_TRY_AGAIN)
            with contextlib.suppress(psycopg.Error, BackendError):
                connection = self._connections.connect()
                try:
                    connection.execute(self._listen.sql, prepare=False)
                except BaseException:
                    self._connections.discard(connection)
                    raise
                self._connection = connection
                self._deaf_until = 0.0
        return self._connection

    def _hear(self, connection: Connection, queues: Sequence[str], seconds: float) -> bool:
        try:
            heard = [note.payload for note in connection.notifies(timeout=seconds, stop_after=1)]
        except psycopg.Error:
            self._drop()
            return True  # something may have been said, and to look is never wrong
        return any(is_for(payload, queues) for payload in heard)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.discard(connection)


def pauses(ear: Ear) -> Iterator[float]:
    """Seconds between looks; no two sleepers keep step."""
    pause = _FIRST
    while True:
        yield jittered(pause if ear.listens else _LOOKING)
        pause = min(4 * pause, _LISTENING)


def jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.25)
