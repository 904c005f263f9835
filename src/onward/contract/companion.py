"""The part of the contract for stores that can stand beside a broker.

A broker hands jobs out; the store beside it says what they are.  The broker decides which job comes next, so the store
is asked for jobs by their ids, and everything else it does as it does for itself: sessions, tokens, keys, counters, history.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from onward.contract.backend import Backend
from onward.contract.inspection import Inspection
from onward.contract.values import TurnResult

__all__ = ["Companion", "CompanionStore"]


@runtime_checkable
class Companion(Inspection, Protocol):
    """A store that can be asked for jobs by their ids."""

    def take(self, owner: str, ids: Sequence[str]) -> TurnResult:
        """Claim those of them that wait, are due, have not expired and whose queue is not paused.

        A claim like any other: it locks the session's row, takes the next token and the keys, and hands a suspect out alone.
        The leases come in the order of the ids.  Every other job is left out: the caller decides
        about it.
        """
        ...

    def paused(self) -> Sequence[str]:
        """Return the queues that are paused."""
        ...


class CompanionStore(Backend, Companion, ABC):
    """A backend that can be asked for jobs by their ids.  A type: stores have these verbs and do not derive from it."""
