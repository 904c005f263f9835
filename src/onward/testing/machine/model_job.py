"""One job as the model of the contract sees it, and the state that each settlement leads to."""

from __future__ import annotations

from dataclasses import dataclass

from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = ["GOES_TO", "HoldKey", "ModelJob"]

GOES_TO = {
    "ack": State.COMPLETED,
    "skip": State.COMPLETED,
    "nack": State.RETRYABLE,
    "abandon": State.DISCARDED,
    "snooze": State.SCHEDULED,
    "park": State.SCHEDULED,
    "cancelled": State.CANCELLED,
    "release": State.AVAILABLE,
    "crashed": State.RETRYABLE,
}
HoldKey = tuple[str, str]  # kind and key of a hold


@dataclass
class ModelJob:
    """What the model knows of one job."""

    envelope: Envelope
    state: State
    available_at: int
    unique_key: str | None = None
    attempts: int = 0
    delivery: int = 0
    crashes: int = 0
    interruptions: int = 0
    owner: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    asked: str | None = None  # the reason given when it was asked to cancel
    waits: int = 0
    parked_since: int | None = None
    awaits: str | None = None
    spent: str | None = None
    result: bytes | None = None
    reason: str | None = None
    progress: bytes | None = None
    tombstone: bool = False

    @property
    def id(self) -> str:
        return self.envelope.id

    @property
    def place(self) -> tuple[int, int, str]:
        return (-self.envelope.priority, self.available_at, self.id)

    @property
    def waiting(self) -> bool:
        return self.state in {State.SCHEDULED, State.AVAILABLE, State.RETRYABLE}

    @property
    def keys(self) -> list[HoldKey]:
        pairs = [("idempotency", self.envelope.idempotency_key), ("single", self.envelope.single_instance)]
        return [(kind, key) for kind, key in pairs if key is not None]

    def expired(self, now: int) -> bool:
        return self.envelope.expires_at is not None and self.envelope.expires_at <= now
