"""The part of the contract for stores that can stand beside a broker.

The broker decides which job comes next, and the store has the job's record.  So the companion backend claims jobs in the
store by their ids; for sessions, tokens, keys, counters and history the store works as it does alone.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from onward.contract.backend import Backend
from onward.contract.inspection import Inspection
from onward.contract.values import TurnResult
from onward.job.envelope import Envelope

__all__ = ["Companion", "CompanionStore", "RefusesMessages"]


@runtime_checkable
class Companion(Inspection, Protocol):
    """A store from which jobs can be claimed by their ids."""

    def take(self, owner: str, ids: Sequence[str]) -> TurnResult:
        """Claim those of these jobs that wait, are due, have not expired and whose queue is not paused.

        A claim like any other: it locks the session's row, takes the next token and the keys, and hands a suspect out alone.
        The leases come in the order of the ids.  Every other job is left out, and the caller decides about it.
        """
        ...

    def paused(self) -> Sequence[str]:
        """Return the queues that are paused."""
        ...


@runtime_checkable
class RefusesMessages(Protocol):
    """A broker that says beforehand which messages it would not take."""

    def refuse_unfit(self, envelopes: Sequence[Envelope]) -> None:
        """Raise what `enqueue` would raise for the first of these that it would never take; store nothing."""
        ...


class CompanionStore(Backend, Companion, ABC):
    """A backend from which jobs can be claimed by their ids.  Only a type: stores do not derive from it."""
