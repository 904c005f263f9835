"""The place where a claim begins while a transaction keeps an old snapshot.

Vacuum cannot remove a row version that a snapshot may still see, nor its entry in an index.  Claims begin at the left edge
of their index, so while a transaction stays open every claim would walk past all jobs that were claimed since it began.

So, as long as there is such a transaction, this process remembers how far it has come, queue by queue and rank by rank, and
claims from there.  A job that appears before a mark, because its transaction committed late or because it was given back to
its old place, is found by a look at the whole index.  That is due about once a second; but it walks past dead entries:
where it takes long it comes less often, and takes no more than a twentieth of the time.  No other rank is left out.  When
the snapshot is gone there are no marks: the order is that of the contract again, and vacuum can remove the dead entries.

Walks over lanes have marks of their own (`lane_marks`).

The marks are hints of one process: nothing is stored, and a wrong one only delays.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from onward.backends.postgres.lane_marks import LOOK_EVERY, LaneMarks, pause_after

__all__ = ["PINNED", "QueueMarks"]

PINNED = 100  # transactions behind which a snapshot is an old one; a turn is one

_USUAL_RANK = 0  # of nearly all jobs: it has a mark though this process may have claimed none of them
_LEAST, _MOST = -(2**63), 2**63 - 1

Place = tuple[int, str]  # when it was due, and its id
_BEGINNING: Place = (_LEAST, "")
_Range = tuple[int, int, str, int]  # the lowest rank, from where in it, the highest rank
_WHOLE: _Range = (_LEAST, _LEAST, "", _MOST)


class QueueMarks:
    """How far the claims of this process have come."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self.lanes = LaneMarks(seconds)
        self._seconds = seconds
        self._lock = threading.Lock()  # one thread makes turns, another may look for work
        self._pinned = False
        self._asked_at = float("-inf")
        self._marks: dict[str, dict[int, Place]] = {}
        self._due: dict[str, int] = {}  # by queue: jobs that were due before this instant have been promoted
        self._next_look: dict[str, float] = {}
        self._looking: tuple[float, list[str]] | None = None  # since when, and at which queues

    def wants_to_know(self) -> bool:
        """Return whether it is time to ask for old snapshots."""
        now = self._seconds()
        if now - self._asked_at < LOOK_EVERY:
            return False
        self._asked_at = now
        return True

    def tell(self, *, pinned: bool, of_lanes: bool = True) -> None:
        """Note whether a transaction keeps an old snapshot.  ``of_lanes``: walks over lanes may begin at marks."""
        self.lanes.tell(pinned=pinned and of_lanes)
        with self._lock:
            self._pinned = pinned
            if not pinned:
                self._marks.clear()
                self._due.clear()
                self._next_look.clear()

    def for_claim(self, queues: Sequence[str]) -> dict[str, list[Any]]:
        """Return the parameters of a claim that say where it begins."""
        with self._lock:
            self._looking = None  # a turn that took of a single line has not told what it saw
            if self._pinned:
                now = self._seconds()
                if due := [queue for queue in queues if now >= self._next_look.get(queue, now)]:
                    self._looking = now, due
                for queue in due:
                    self._marks.pop(queue, None)
                    self._due.pop(queue, None)
            return self._parameters(queues)

    def for_look(self, queues: Sequence[str]) -> dict[str, list[Any]]:
        """Return the parameters of a look for work, which sees what a claim would."""
        with self._lock:
            now = self._seconds()
            fresh = all(now < self._next_look.get(queue, now) for queue in queues)
            return self._parameters(queues if fresh else (), queues)

    def claimed(self, queues: Sequence[str], rows: Sequence[Sequence[Any]], *, exhausted: bool, now: int) -> None:
        """Learn from the rows of `claim`, in their order; ``exhausted``: it found fewer than it was asked for."""
        if not self._pinned:
            return
        with self._lock:
            if self._looking is not None:
                (since, looked_at), self._looking = self._looking, None
                ended = self._seconds()
                self._next_look |= dict.fromkeys(looked_at, ended + pause_after(ended - since))
            for rank, available_at, job_id, queue, *_ in rows:
                self._marks.setdefault(queue, {})[rank] = (available_at, job_id)
            if exhausted:
                # All that was due by now is claimed or gone.
                for queue in queues:
                    ranks = self._marks.setdefault(queue, {_USUAL_RANK: _BEGINNING})
                    self._marks[queue] = {rank: max(place, (now, "")) for rank, place in ranks.items()}

    def promoted(self, queues: Sequence[str], *, exhausted: bool, now: int) -> None:
        self.lanes.promoted(queues, exhausted=exhausted)
        if self._pinned and exhausted:
            with self._lock:
                self._due |= dict.fromkeys(queues, now)

    def _parameters(self, marked: Sequence[str], queues: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """Return ranges that cover every rank, without the entries before a mark; and which of them are whose."""
        wanted = marked if queues is None else queues
        if not self._marks:  # all of them have the same
            return _parameters([_WHOLE], [(1, 1)] * len(wanted), self._due_since(wanted, marked))
        ranges: list[_Range] = []
        whose = []
        for queue in wanted:
            rank, first = _LEAST, len(ranges) + 1  # SQL counts from one
            for known, (available_at, job_id) in sorted(self._marks.get(queue, {}).items() if queue in marked else ()):
                if rank < known:
                    ranges.append((rank, _LEAST, "", known - 1))
                ranges.append((known, available_at, job_id, known))
                rank = known + 1
            ranges.append((rank, _LEAST, "", _MOST))
            whose.append((first, len(ranges)))
        return _parameters(ranges, whose, self._due_since(wanted, marked))

    def _due_since(self, queues: Sequence[str], marked: Sequence[str]) -> list[int]:
        if not self._due:
            return [_LEAST] * len(queues)
        return [self._due.get(queue, _LEAST) if queue in marked else _LEAST for queue in queues]


def _parameters(
    ranges: Sequence[_Range], whose: Sequence[tuple[int, int]], due_since: Sequence[int]
) -> dict[str, list[Any]]:
    low_ranks, low_times, low_ids, high_ranks = map(list, zip(*ranges, strict=True))
    return {
        "low_ranks": low_ranks,
        "low_times": low_times,
        "low_ids": low_ids,
        "high_ranks": high_ranks,
        "first_ranges": [first for first, _ in whose],
        "last_ranges": [last for _, last in whose],
        "due_since": list(due_since),
    }
