"""What a broker's companion must be able to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onward.backend import (
    Capabilities,
    Enqueued,
    Envelope,
    Held,
    Lease,
    Reaped,
    Renewal,
    Session,
    Turn,
    TurnResult,
)
from onward.contract.companion import Companion

__all__ = ["CompanionStore"]


class CompanionStore(Companion, Protocol):
    """A backend that can be asked for jobs by their ids."""

    @property
    def capabilities(self) -> Capabilities: ...

    def connect(self) -> None: ...

    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]: ...

    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None: ...

    def turn(self, turn: Turn) -> TurnResult: ...

    def extend(self, owner: str) -> Renewal: ...

    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]: ...

    def close(self) -> None: ...
