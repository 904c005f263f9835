"""The base of the brokers' backends: it finds the session, takes its lock, settles what it holds, and ends it.

A broker gives back by itself what a dead process held.  So a backend ends only sessions of its own process.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from onward.backend import Backend, Capabilities, Claim, Held, Lease, Reaped, Renewal, Sample, Turn, TurnResult
from onward.backends.broker.evidence import Evidence, key_of
from onward.backends.broker.header import Header
from onward.base import forks
from onward.base.clock import Clock, SystemClock
from onward.base.interruption import uninterrupted
from onward.errors import BackendError
from onward.job.settlement import UNKNOWN_CAUSE, Settled, Settlement

__all__ = ["BROKER", "BrokerBackend", "in_order"]

# What no broker does.
BROKER = Capabilities(
    deduplicates=False,
    remote_extend=False,
    sessions=False,
    holds=False,
    prefetches=False,
    knows_ids=False,
    promotes=False,
    remembers=False,
    lists_queues=False,
)


class _HeldJob(Protocol):
    @property
    def header(self) -> Header: ...

    def lease(self, owner: str) -> Lease: ...


class _Session(Protocol):
    """The leases of one owner.  Every method but `has_ended` is called under its lock."""

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    @property
    def held(self) -> Mapping[Held, _HeldJob]: ...

    def renew(self) -> list[Held]: ...

    def has_ended(self) -> bool: ...

    def close(self) -> None: ...


S = TypeVar("S", bound=_Session)


class BrokerBackend(Backend, Generic[S]):
    """Sessions of this process, by their owners."""

    def __init__(self, clock: Clock | None) -> None:
        self.clock = clock or SystemClock()
        self._closed = threading.Event()
        self._begin_anew()
        forks.call_in_child(self._leave_to_parent)

    @abstractmethod
    def _take_turn(self, session: S, turn: Turn) -> TurnResult:
        """Settle and claim.  Called under the session's lock."""

    @abstractmethod
    def _apply(self, session: S, settlement: Settlement) -> Settled:
        """Apply a settlement to a job that the session holds."""

    @abstractmethod
    def _stored(self, lease: Lease) -> bool:
        """Return whether the broker still has the job that was leased."""

    @abstractmethod
    def _make_contact(self) -> None:
        """Call the broker: raises `BackendError` if it does not answer."""

    @abstractmethod
    def _forget_connections(self) -> None:
        """Leave the connections to the parent process."""

    def turn(self, turn: Turn) -> TurnResult:
        with uninterrupted():
            session = self._living(turn.owner)
            if session is None:
                settled = [self._classify(settlement) for settlement in turn.settlements]
                return TurnResult(settled=settled, leases=[], alive=False)
            with session.lock:
                return self._take_turn(session, turn)

    def _settle(self, session: S, settlement: Settlement, owner: str) -> Settled:
        if not self._holds(session, settlement, owner):
            return self._classify(settlement)
        answer = self._apply(session, settlement)
        self._evidence.note(settlement, answer)
        return answer

    def _holds(self, session: S, settlement: Settlement, owner: str) -> bool:
        return settlement.lease.owner == owner and key_of(settlement) in session.held

    def _classify(self, settlement: Settlement) -> Settled:
        return self._evidence.classify(settlement, self._stored)

    def extend(self, owner: str, *, sample: Sample | None = None) -> Renewal:
        with uninterrupted():
            session = self._living(owner)
            if session is None:
                self._make_contact()  # the caller must learn whether the broker answers, too
                return Renewal(alive=False)
            return Renewal(alive=True, lost=tuple(self._renew(session)))

    def _renew(self, session: S) -> list[Held]:
        with session.lock:
            return session.renew()

    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        """End a session of this process, and give back what it holds.  The broker ends those of other processes."""
        with uninterrupted():
            with self._guard:
                session = self._sessions.pop(owner or "", None)
            if session is None or session.has_ended():
                return []
            with session.lock:
                try:
                    begun = set(session.held) if started is None else set(started)
                    found = [
                        self._give_back(session, key, cause or UNKNOWN_CAUSE, started=key in begun)
                        for key in sorted(session.held)
                    ]
                finally:
                    session.close()
            self._after_reaping()
            return [reaped for reaped in found if reaped is not None]

    def _give_back(self, session: S, key: Held, cause: str, *, started: bool) -> Reaped | None:
        """Give back a lease of a session that ends; None if it was lost before.  A job that had started has crashed."""
        held = session.held[key]
        lease, header = held.lease(""), held.header
        move = Settlement.given_back(lease, cause, started=started)
        answer = self._apply(session, move)
        self._evidence.note(move, answer)
        if answer.state is None:
            return None
        return Reaped(
            id=header.id,
            queue=lease.envelope.queue,
            job=header.job,
            token=lease.token,
            to=answer.state,
            cause=cause,
            crashed=started,
            crashes=header.crashes + started,
        )

    def _after_reaping(self) -> None:
        """Act on the end of a session; by default, do nothing."""

    def _leave_to_parent(self) -> None:
        self._forget_connections()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._guard = threading.RLock()
        self._sessions: dict[str, S] = {}
        self._evidence = Evidence()

    def _living(self, owner: str | None) -> S | None:
        with self._guard:
            session = self._sessions.get(owner or "")
            if session is not None and session.has_ended():
                del self._sessions[owner or ""]
                return None
            return session

    def _refuse_if_closed(self) -> None:
        if self._closed.is_set():
            raise BackendError("this backend is closed")


def in_order(turn: Turn, settle: Callable[[Settlement], Settled], claim: Callable[[Claim], list[Lease]]) -> TurnResult:
    """Return the moves with releases last: what was released must not be claimed by the same turn."""
    settled: list[Settled | None] = [None] * len(turn.settlements)
    order = sorted(range(len(settled)), key=lambda at: turn.settlements[at].move == "release")
    first_release = sum(settlement.move != "release" for settlement in turn.settlements)
    for at in order[:first_release]:
        settled[at] = settle(turn.settlements[at])
    leases = claim(turn.claim) if turn.claim is not None else []
    for at in order[first_release:]:
        settled[at] = settle(turn.settlements[at])
    return TurnResult(settled=[each for each in settled if each is not None], leases=leases)
