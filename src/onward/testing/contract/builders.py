"""Builders of envelopes, claims, sessions and leases for contract tests: everything that is not named has a default.

    an_envelope(queue="mail", delay=60)         a real sealed job; any field of a Letter may be named
    some_envelopes(3, queue="mail")             three of them, their ids rising
    a_claim(owner="slow", lease_for=30)         seconds, not timedeltas
    a_session(owner="slow"), a_turn(...)        the same for sessions and turns
    a_lease(backend, priority=5)                enqueue a job and claim it
    a_failure("no route to host")               what a failed run leaves behind
    SETTLEMENTS                                 every settling move by name, as a function of a lease

Public, so that a backend's author can write more tests with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
import pytest

from onward.backend import LEASE, Backend, Claim, Envelope, Failure, Lease, Session, Settlement, Turn
from onward.base.clock import SECOND
from onward.base.ids import IdMaker
from onward.job.envelope import Letter, Sealed, Sign, seal
from onward.testing.clock import FakeClock

__all__ = [
    "SETTLEMENTS",
    "a_claim",
    "a_failure",
    "a_lease",
    "a_session",
    "a_turn",
    "an_envelope",
    "an_id",
    "at_once",
    "every_settlement",
    "every_settlement_but_a_crash",
    "ids",
    "micros",
    "some_envelopes",
]

PATIENCE = 30.0  # seconds a test waits for a thread: reached only when something is broken

T = TypeVar("T")

# All ids are of the fake clock's first millisecond: no job is younger than its id says.
an_id = IdMaker(FakeClock())

_BIRTH = FakeClock().micros()


def an_envelope(*, delay: float = 0, payload: object = None, sign: Sign | None = None, **letter: Any) -> Envelope:
    """Seal a job as a client does.  ``letter`` holds fields of `onward.job.envelope.Letter`; ``delay`` is in seconds.

    >>> an_envelope(queue="mail", delay=0.5).delay
    500000
    """
    fields: dict[str, Any] = {
        "id": an_id(),
        "namespace": "default",
        "queue": "default",
        "job": "work",
        "max_crashes": 3,
        "enqueued_at": _BIRTH,
        "payload": msgspec.Raw(msgspec.json.encode({} if payload is None else payload)),
    }
    return seal(Letter(**(fields | letter)), delay=micros(delay), sign=sign)


def some_envelopes(count: int, **options: Any) -> list[Envelope]:
    """Return equal envelopes with rising ids."""
    return [an_envelope(**options) for _ in range(count)]


def a_claim(
    *, owner: str = "worker", queues: Sequence[str] = ("default",), limit: int = 1, lease_for: float | None = None
) -> Claim:
    return Claim(queues=tuple(queues), limit=limit, owner=owner, lease_for=_span(lease_for))


def a_session(owner: str = "worker", *, lease_for: float | None = None) -> Session:
    return Session(owner=owner, lease_for=_span(lease_for), host="somewhere", pid=1)


def a_turn(*settlements: Settlement, owner: str = "worker", claim: Claim | None = None) -> Turn:
    return Turn(owner=owner, settlements=settlements, claim=claim)


def a_lease(backend: Backend, *, owner: str = "worker", lease_for: float | None = None, **envelope: Any) -> Lease:
    """Enqueue a job and claim it; nothing else may wait before it in its queue."""
    sealed = an_envelope(**envelope)
    backend.enqueue([sealed])
    (lease,) = backend.claim(a_claim(owner=owner, queues=(sealed.queue,), lease_for=lease_for))
    assert lease.envelope.id == sealed.id, "another job was first in the queue"
    return lease


def a_failure(message: str = "it broke") -> Failure:
    return Failure("RuntimeError", message, "Traceback: somewhere\n")


def micros(seconds: float) -> int:
    return round(seconds * SECOND)


def ids(leases: Sequence[Lease] | Sequence[Sealed]) -> list[str]:
    """Return the job ids of leases or envelopes, in their order."""
    return [item.envelope.id if isinstance(item, Lease) else item.id for item in leases]


# One plain settlement of every move.
SETTLEMENTS: Mapping[str, Callable[[Lease], Settlement]] = {
    "ack": lambda lease: Settlement.ack(lease, b'"result"'),
    "skip": lambda lease: Settlement.skip(lease, "done before"),
    "nack": lambda lease: Settlement.nack(lease, 60, failure=a_failure()),
    "abandon": lambda lease: Settlement.abandon(lease, "gave up", failure=a_failure()),
    "snooze": lambda lease: Settlement.snooze(lease, 60),
    "park": lambda lease: Settlement.park(lease, 60, "unknown here"),
    "cancelled": lambda lease: Settlement.cancelled(lease, "stopped"),
    "release": Settlement.release,
    "crashed": lambda lease: Settlement.crashed(lease, "killed by SIGKILL"),
}

every_settlement = pytest.mark.parametrize("settlement", SETTLEMENTS.values(), ids=SETTLEMENTS.keys())
# A crash is a crash, whether a worker settled it or a session was reaped.
_NO_CRASH = {name: settlement for name, settlement in SETTLEMENTS.items() if name != "crashed"}
every_settlement_but_a_crash = pytest.mark.parametrize("settlement", _NO_CRASH.values(), ids=_NO_CRASH.keys())


def at_once(count: int, act: Callable[[int], T]) -> list[T]:
    """Run ``act(0) … act(count - 1)`` in threads that start together; return the results, or raise the first error."""
    start = threading.Barrier(count)
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            start.wait(PATIENCE)
            results[number] = act(number)
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it again
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]
    assert len(results) == count, f"{count - len(results)} of {count} threads did not end in {PATIENCE:.0f} s"
    return [results[number] for number in range(count)]


def _span(seconds: float | None) -> timedelta:
    return LEASE if seconds is None else timedelta(seconds=seconds)
