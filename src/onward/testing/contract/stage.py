"""One job in any state, with a lease that matches it as closely as a stale one can.

stage = Stage(backend, clock, max_crashes=1)
stage.bring(State.RETRYABLE)
stage.lease        the last real lease, or an invented one: current token, an owner whose session is alive
stage.stored()     the job as the store shows it now
"""

from __future__ import annotations

from typing import Any

from onward.backend import Lease, Sealed
from onward.job.states import State
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import a_claim, a_session, an_envelope

__all__ = ["FAR", "Stage"]

FAR = 3600.0  # seconds: what is due then is not due by accident


class Stage:
    """A job, and the one worker that has claimed it."""

    owner = "worker"

    def __init__(self, backend: Any, clock: FakeClock, **envelope: Any) -> None:
        self.backend = backend
        self.clock = clock
        self.options = {"queue": "stage"} | envelope
        self.envelope = an_envelope(**self.options)
        self.id = self.envelope.id
        self._lease: Lease | None = None

    def bring(self, state: State | None) -> Stage:
        """Bring the job into a state, by the shortest way; ``None`` stores nothing."""
        self.backend.open_session(a_session(self.owner))
        if state is State.SCHEDULED:
            self.envelope = an_envelope(**(self.options | {"id": self.id, "delay": FAR}))
        if state is not None:
            self.backend.enqueue([self.envelope])
        if state not in (None, State.SCHEDULED, State.AVAILABLE):
            (self._lease,) = self.backend.claim(a_claim(owner=self.owner, queues=(self.envelope.queue,)))
        if state is State.RETRYABLE:
            self.backend.nack(self.lease, FAR)
        elif state is State.COMPLETED:
            self.backend.ack(self.lease)
        elif state is State.DISCARDED:
            self.backend.abandon(self.lease, "gave up")
        elif state is State.CANCELLED:
            self.backend.cancelled(self.lease, "stopped")
        return self

    @property
    def lease(self) -> Lease:
        if self._lease is not None:
            return self._lease
        stored = self.stored()
        return Lease(
            envelope=Sealed(self.id, self.envelope.queue, self.envelope.data),
            token=stored.delivery if stored else 1,
            owner=self.owner,
            expires_at=self.clock.micros(),
            claimed_at=self.clock.micros(),
        )

    @property
    def held(self) -> tuple[str, int]:
        return self.id, self.lease.token

    def stored(self) -> Any:
        return self.backend.get(self.id)

    def state(self) -> State | None:
        stored = self.stored()
        return stored.state if stored else None
