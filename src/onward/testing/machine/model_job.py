"""One job as the model of the contract sees it, and the state that each settlement leads to."""

from __future__ import annotations

from dataclasses import dataclass

from onward.backend import Kind
from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = ["GOES_TO", "HoldKey", "ModelJob", "Scope"]

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
Scope = tuple[
    str, str
]  # what a limit counts: "queue" and its name; or "lane" and one lane, or with "render/" all of a job


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
    died: str | None = None  # the fingerprint of a discarded job
    booked: bool = False  # scheduled by a claim, for a token of its lane

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

    @property
    def node(self) -> str:
        return self.envelope.node or ""

    @property
    def place_in_flow(self) -> tuple[str | None, str]:
        return (self.envelope.flow, self.node)

    @property
    def awaits_node(self) -> bool:
        return self.state is State.SCHEDULED and self.awaits == ""

    def expired(self, now: int) -> bool:
        return self.envelope.expires_at is not None and self.envelope.expires_at <= now

    @property
    def group(self) -> str:
        """What takes turns in a queue: all lanes of a job, all keys without one, all plain jobs."""
        lane = self.envelope.lane
        return "" if lane is None else lane[: lane.index("/") + 1]

    @property
    def kinds_and_scopes(self) -> list[tuple[Kind, Scope]]:
        """The limits it is under."""
        lane, found = self.envelope.lane, list[tuple[Kind, Scope]]()
        found.append(("queue", ("queue", self.envelope.queue)))
        if lane is not None and self.group != "/":
            found.append(("job", ("lane", self.group)))
        if lane is not None and lane != self.group:
            found.append(("key", ("lane", lane)))
        return found
