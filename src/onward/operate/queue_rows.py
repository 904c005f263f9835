"""Queues of a store that is watched: how long each lets jobs wait, how fast it is, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.job.states import State
from onward.operate.watching import COUNTED

if TYPE_CHECKING:
    from onward.backend import QueueCounts
    from onward.operate.queue_pace import QueuePace
    from onward.operate.watching import WatchedStore

__all__ = ["QueueRow", "is_cut", "rows"]

_TROUBLES = {"served": "no worker", "late": "late", "paused": "paused"}


class QueueRow(NamedTuple):
    """A queue, and what is known of it besides its counts."""

    queue: QueueCounts
    pace: QueuePace
    oldest: float | None  # seconds for which its oldest due job has waited
    trouble: str  # the check that it fails, in a word

    @property
    def name(self) -> str:
        return self.queue.name


def rows(look: WatchedStore) -> list[QueueRow]:
    """Return the queues, those in trouble first, by how long jobs wait in them."""
    troubled = {
        about: _TROUBLES[check.name]
        for check in reversed(look.checks or ())
        if check.name in _TROUBLES and check.status != "ok"
        for about in check.about
    }
    found = [
        QueueRow(queue, look.pace(queue.name), look.age(queue.oldest_due), troubled.get(queue.name, ""))
        for queue in look.overview.queues
    ]
    return sorted(found, key=lambda row: (not row.trouble, -(row.oldest or 0) if row.trouble else 0, row.name))


def is_cut(counts: dict[State, int], state: State) -> bool:
    """Return whether counting stopped at this number."""
    later = state in (State.SCHEDULED, State.RETRYABLE)
    reached = counts[State.SCHEDULED] + counts[State.RETRYABLE] if later else counts[state]
    return reached >= COUNTED
