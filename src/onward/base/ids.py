"""Job ids: UUIDv7 as 32 hex digits, made by the client, in order within a process.

The client makes the id, so an enqueue whose answer was lost can be repeated without a second job; ids of one process
rise strictly, so jobs that fall due in the same microsecond keep the order in which they were enqueued.
"""

from __future__ import annotations

import os
import struct
import threading
import uuid
from collections.abc import Callable
from itertools import accumulate, repeat
from operator import or_

from onward.base import forks
from onward.base.clock import Clock
from onward.base.lazy import hashlib

__all__ = [
    "MOST_CHILDREN",
    "IdMaker",
    "child_id",
    "derived_id",
    "earliest_id",
    "edited_id",
    "is_scheduled_flow",
    "occurrence_id",
    "random_owner",
    "scheduled_flow_id",
]

_RANDOM_BITS = 74
_RANDOM_MASK = (1 << _RANDOM_BITS) - 1
_TOP_BIT = 1 << (_RANDOM_BITS - 1)  # clear where ids are counted up
_LOW_MASK = (1 << 62) - 1
_VARIANT = 2 << 62
_FEW = 4  # ids that are made one by one
_ENTROPY = 10  # bytes that one id takes
_AT_A_TIME = 256
MOST_CHILDREN = 1 << 20  # that one job adds to one node by their places
_NAMESPACE = uuid.UUID("5f0c9f5e-6a36-5d0c-9f8e-0d8f7e1b2a4c")


class IdMaker:
    """Makes ids that rise strictly, even if the clock stops or goes back.

    Those of a signal handler that has interrupted its own thread in here stand beside the others of their millisecond.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin_anew()
        self._millis = 0
        self._tail = 0
        self._pool: list[int] = []
        self._pid = 0
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        # Another thread of the parent may have held the lock: the child would wait for it for ever.
        self._lock = threading.RLock()
        self._is_mine: Callable[[], bool] = self._lock._is_owned  # type: ignore[attr-defined]  # noqa: SLF001

    def __call__(self) -> str:
        if self._is_mine():
            return self._apart()
        with self._lock:
            return self._next(self._clock.micros() // 1000, self._drawn())

    def many(self, count: int) -> list[str]:
        if count < _FEW:
            return [self() for _ in range(count)]
        if self._is_mine():
            return sorted(self._apart() for _ in range(count))
        steps = struct.unpack(f">{count - 1}I", os.urandom(4 * (count - 1)))
        with self._lock:
            first = self._next(self._clock.micros() // 1000, self._drawn())
            # They differ in their lower halves, unless those would be too large in between.
            halves = list(accumulate(map(or_, steps, repeat(1)), initial=_VARIANT | (self._tail & _LOW_MASK)))
            if halves[-1] > _VARIANT | _LOW_MASK:
                return [first, *(self._next(self._millis, step) for step in steps)]
            self._tail += halves[-1] - halves[0]
        start, digits = first[:16], struct.pack(f">{count}Q", *halves).hex()
        return [start + digits[at : at + 16] for at in range(0, 16 * count, 16)]

    def _apart(self) -> str:
        """Return the id of a signal handler that has interrupted its own thread in here: no other id is made like it."""
        (entropy,) = _random_numbers(1)
        return _written(self._clock.micros() // 1000, entropy & _RANDOM_MASK | _TOP_BIT)

    def _drawn(self) -> int:
        """Return a random number.

        They are drawn for many ids at a time: the system call releases the interpreter's lock, and a thread among many waits
        long to get it back.  A fork that Python does not know of must not use its parent's numbers.
        """
        if not self._pool or self._pid != os.getpid():
            self._pool, self._pid = _random_numbers(_AT_A_TIME), os.getpid()
        return self._pool.pop()

    def _next(self, now: int, entropy: int) -> str:
        if now > self._millis:
            self._millis = now
            self._tail = entropy & (_RANDOM_MASK >> 1)  # a clear top bit leaves room to count up
        else:
            # Steps are random, so a forked child that shares this state makes other ids.
            self._tail += 1 + (entropy & 0xFFFF_FFFF)
            if self._tail > _RANDOM_MASK:
                self._millis += 1
                self._tail = entropy & (_RANDOM_MASK >> 1)
        return _written(self._millis, self._tail)


def _written(millis: int, tail: int) -> str:
    high, low = tail >> 62, tail & _LOW_MASK
    return f"{(millis << 16) | (7 << 12) | high:016x}{_VARIANT | low:016x}"  # halves: long numbers are slow


def _random_numbers(count: int) -> list[int]:
    entropy = os.urandom(_ENTROPY * count)
    return [int.from_bytes(entropy[at : at + _ENTROPY], "big") for at in range(0, len(entropy), _ENTROPY)]


def earliest_id(micros: int) -> str:
    """Return the smallest id of a millisecond, at which a walk over ids can start or stop."""
    return f"{max(0, micros) // 1000 << 80:032x}"


def derived_id(job_id: str, token: int, purpose: str) -> str:
    """Return an id that is the same whenever it is derived again, so repeating the enqueue is harmless."""
    return uuid.uuid5(_NAMESPACE, f"{purpose}:{job_id}:{token}").hex


def edited_id(job_id: str, token: int, payload: bytes, at: int) -> str:
    """Return the id of a dead job with other arguments: the same whenever that is asked again.  ``at``: when it died.

    >>> edited_id("019b76daa800", 3, b"{}", 1_767_225_600_000_000)[:13]
    '019b76daa8007'
    """
    digest = hashlib.sha256(f"onward/1 edited\0{job_id}\0{token}\0".encode() + payload).digest()
    high, low = int.from_bytes(digest[:2], "big") >> 4, int.from_bytes(digest[2:10], "big") & _LOW_MASK
    return f"{(max(0, at) // 1000 << 80) | (7 << 76) | (high << 64) | (2 << 62) | low:032x}"


def occurrence_id(namespace: str, schedule: str, tick: int) -> str:
    """Return the id of a schedule's job for one tick: the same on every machine, in the order of the ticks.

    >>> occurrence_id("default", "nightly", 1_767_225_600_000_000)[:13]
    '019b76daa8007'
    """
    digest = hashlib.sha256(f"onward/1 occurrence\0{namespace}\0{schedule}\0{tick}".encode()).digest()
    high, low = int.from_bytes(digest[:2], "big") >> 4, int.from_bytes(digest[2:10], "big") & _LOW_MASK
    return f"{(max(0, tick) // 1000 << 80) | (7 << 76) | (high << 64) | (2 << 62) | low:032x}"


def scheduled_flow_id(namespace: str, schedule: str, occurrence: str) -> str:
    """Return the id of the flow that a schedule's job starts, from the id of that job.

    All flows of a schedule have the same digits behind the time: `is_scheduled_flow` tells them from others.

    >>> flow = scheduled_flow_id("default", "nightly", occurrence_id("default", "nightly", 1_767_225_600_000_000))
    >>> flow[:13], is_scheduled_flow(flow, "default", "nightly"), is_scheduled_flow(flow, "default", "weekly")
    ('019b76daa8007', True, False)
    """
    digest = hashlib.sha256(f"onward/1 scheduled flow\0{namespace}\0{schedule}".encode()).digest()
    high, low = int.from_bytes(digest[:2], "big") >> 4, int.from_bytes(digest[2:10], "big") & _LOW_MASK
    return f"{(int(occurrence[:12], 16) << 80) | (7 << 76) | (high << 64) | (2 << 62) | low:032x}"


def is_scheduled_flow(flow: str, namespace: str, schedule: str) -> bool:
    """Return whether a tick of this schedule has started a flow."""
    return flow == scheduled_flow_id(namespace, schedule, flow)


def child_id(parent: str, flow: str, node: str, place: int | str) -> str:
    """Return the id of a job that another one adds to a flow: the same whenever that runs again.

    Ids of one parent and node rise with their place.  A text as the place is a key, and counts for all parents.

    >>> one, other = (child_id("019b76daa800", "019b76daa800", "resize", place) for place in (0, 1))
    >>> one < other, one[:13] == other[:13]
    (True, True)
    """
    whose = f"key\0{place}" if isinstance(place, str) else f"place\0{parent}"
    digest = hashlib.sha256(f"onward/1 member\0{flow}\0{node}\0{whose}".encode()).digest()
    high, low = int.from_bytes(digest[:2], "big") >> 4, int.from_bytes(digest[2:10], "big") & _LOW_MASK
    if isinstance(place, int):
        low = (low & ~(MOST_CHILDREN - 1)) | place
    millis = int((flow if isinstance(place, str) else parent)[:12], 16)
    return f"{(millis << 80) | (7 << 76) | (high << 64) | (2 << 62) | low:032x}"


def random_owner() -> str:
    """Make a session's name.  Random: host names and pids are the same after a restart, and would match dead leases."""
    return os.urandom(16).hex()
