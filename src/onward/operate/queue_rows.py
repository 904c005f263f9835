"""Queues of a store that is watched: how long each lets jobs wait, how fast it is, and what is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.job.states import State
from onward.operate.counting import COUNTED, is_cut

if TYPE_CHECKING:
    from onward.backend import QueueCounts
    from onward.operate.queue_pace import QueuePace
    from onward.operate.watching import WatchedStore

__all__ = ["QueueRow", "rows"]

_TROUBLES = {"served": "no worker", "late": "late", "paused": "paused"}


class QueueRow(NamedTuple):
    """A queue, and what is known of it besides its counts."""

    queue: QueueCounts
    pace: QueuePace
    oldest: float | None  # seconds for which its oldest due job has waited
    trouble: str  # the check that it fails, in a word
    at_most: int = COUNTED  # no state was counted further

    @property
    def name(self) -> str:
        return self.queue.name

    @property
    def due(self) -> tuple[int, bool]:
        """Return how many jobs are due, and whether there may be more.

        A job whose time has come counts as scheduled until a claim makes it available: where one is the oldest that is due,
        at least one is.
        """
        number, or_more = self.in_state(State.AVAILABLE)
        return (number, or_more) if number or self.queue.oldest_due is None else (1, True)

    def in_state(self, state: State) -> tuple[int, bool]:
        """Return how many jobs are in a state, and whether there may be more."""
        return self.queue.counts.get(state, 0), is_cut(self.queue.counts, state, self.at_most)


def rows(look: WatchedStore) -> list[QueueRow]:
    """Return the queues, those in trouble first, by how long jobs wait in them."""
    troubled = {
        about: _TROUBLES[check.name]
        for check in reversed(look.checks or ())
        if check.name in _TROUBLES and check.status != "ok"
        for about in check.about
    }
    found = [
        QueueRow(queue, look.pace(queue.name), look.age(queue.oldest_due), troubled.get(queue.name, ""), look.at_most)
        for queue in look.overview.queues
    ]
    return sorted(found, key=lambda row: (not row.trouble, -(row.oldest or 0) if row.trouble else 0, row.name))
