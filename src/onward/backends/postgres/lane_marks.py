"""The places where a walk over lanes begins while a transaction keeps an old snapshot.

It is with lanes as with plain jobs (`queue_marks`): a job that was claimed since the snapshot leaves a dead entry in the
index, and a walk that steps from lane to lane goes past those of every lane.  So this process remembers, lane by lane, up to
which place the entries are dead, and its walks leave these out.  All else of the index is looked at as ever, so a lane that
is new is found at once.  What appears before a mark is found by a walk without marks, which is due about once a second, and
less often where it takes long.

Such a walk looks at so many lanes and no more.  Of a lane that it did not come to, the mark is dropped: or a job before it
might wait for as long as the snapshot stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from onward.flow.lanes import group_of

__all__ = ["BEGINNING", "LOOK_EVERY", "LaneMarks", "Line", "Place", "Ranges", "Seen", "pause_after"]

LOOK_EVERY = 0.9  # seconds between two looks at everything, if it is quick
_SHARE = 20  # so many times as long as a look takes, until the next one
_LOOK_AT_LEAST_EVERY = 60.0
_WORTH = 8  # jobs claimed from a lane, from which on to begin at its mark costs less than to walk past them
_MOST_LINES = 4096  # that are remembered; to find where each begins takes a few microseconds
_BEHIND = " "  # with it at its end an id is the next one: so the entry that was claimed last is not looked at again
_LEAST, _MOST = -(2**63), 2**63 - 1

Line = tuple[str, int, str]  # a queue, a rank and a lane
Ranges = dict[str, list[Any]]  # the parameters of a walk that say where it looks
Place = tuple[int, str]  # when a job was due, and its id
BEGINNING: Place = (_LEAST, "")


class Seen(NamedTuple):
    """What a walk has seen of the lanes of its queues."""

    heads: Mapping[Line, Sequence[Place]]  # the first jobs of lines
    cut: Collection[Line]  # groups (a queue, a rank and a name) of which it need not have looked at all lanes
    crowded: bool  # there were too many lanes for a walk from marks: it looked at everything after all
    marked: bool  # it began at marks


class _Mark(msgspec.Struct):
    place: Place
    claimed: int  # jobs of this line, by this process


class LaneMarks:
    """How far the walks of this process have come."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()  # one thread makes turns, another may look for work
        self._pinned = False
        self._marks: dict[Line, _Mark] = {}  # the one that was learned last is the last
        self._next_look: dict[str, float] = {}
        self._began_at: float | None = None  # the walk that is under way
        self._lagging: set[str] = set()  # queues in which more was due than has been made available

    def tell(self, *, pinned: bool) -> None:
        """Note whether a transaction keeps an old snapshot."""
        with self._lock:
            self._pinned = pinned
            if not pinned:
                self._marks.clear()
                self._next_look.clear()
                self._lagging.clear()
                self._began_at = None

    def promoted(self, queues: Sequence[str], *, exhausted: bool) -> None:
        """Note whether all that is due has been made available.  If not, the rest may come before any mark."""
        if not self._pinned:
            return
        with self._lock:
            if exhausted:
                self._lagging.difference_update(queues)
                return
            self._lagging.update(queues)
            for line in [line for line in self._marks if line[0] in queues]:
                del self._marks[line]

    @property
    def is_pinned(self) -> bool:
        return self._pinned

    def for_walk(self, queues: Sequence[str]) -> Ranges | None:
        """Return the parameters that say where a walk begins; None: it looks at everything."""
        if not self._pinned:
            return None
        with self._lock:
            self._began_at = self._seconds()
        return self.for_look(queues)

    def for_look(self, queues: Sequence[str]) -> Ranges | None:
        """Return the same for a look for work, which sees what a claim would."""
        if not self._pinned:
            return None
        with self._lock:
            now = self._seconds()
            if any(now >= self._next_look.get(queue, now) for queue in queues):
                return None
            known = sorted(
                (*line, *mark.place)
                for line, mark in self._marks.items()
                if mark.claimed >= _WORTH and line[0] in queues
            )
        return _ranges(queues, known) if known else None

    def learn(self, queues: Sequence[str], seen: Seen, claimed: Collection[str]) -> None:
        """Keep how far a walk has come.  ``claimed``: the ids of the jobs that it led to."""
        if not self._pinned:
            return
        with self._lock:
            began_at, self._began_at = self._began_at, None
            if not seen.marked:
                now = self._seconds()
                self._next_look |= dict.fromkeys(queues, now + pause_after(0 if began_at is None else now - began_at))
                self._drop(queues, seen)
            for line, heads in seen.heads.items():
                if line[0] in self._lagging:
                    continue
                if heads:
                    self._keep(line, heads, claimed)
                elif not seen.marked:
                    self._marks.pop(line, None)  # jobs wait there, at which it has not looked
            if len(self._marks) > _MOST_LINES:
                for line in list(self._marks)[:-_MOST_LINES]:
                    del self._marks[line]

    def _drop(self, queues: Sequence[str], seen: Seen) -> None:
        """Drop what a look at everything has not confirmed, or what is not worth it."""
        if not (seen.crowded or seen.cut):
            return
        for line in list(self._marks):
            queue, rank, lane = line
            missed = (queue, rank, group_of(lane)) in seen.cut and line not in seen.heads
            if missed or (seen.crowded and queue in queues):
                del self._marks[line]

    def _keep(self, line: Line, heads: Sequence[Place], claimed: Collection[str]) -> None:
        count = sum(job_id in claimed for _, job_id in heads)
        before = self._marks.pop(line, None)
        # A job that was seen and not claimed is where the next walk begins; so a suspect is not left behind.
        due, last = heads[-1]
        place = next((head for head in heads if head[1] not in claimed), (due, last + _BEHIND))
        self._marks[line] = _Mark(place, count + (0 if before is None else before.claimed))


def pause_after(seconds: float) -> float:
    """Return how long after a look at everything the next one is due."""
    return min(max(LOOK_EVERY, _SHARE * seconds), _LOOK_AT_LEAST_EVERY)


def _ranges(queues: Sequence[str], known: Sequence[tuple[str, int, str, int, str]]) -> Ranges:
    """Return ranges that cover the lanes of these queues, without the entries before a mark."""
    of_queue: dict[str, list[tuple[int, str, int, str]]] = {queue: [(_LEAST, "", *BEGINNING)] for queue in queues}
    for queue, rank, lane, due, job_id in known:
        of_queue[queue].append((rank, lane, due, job_id))
    lows = [(queue, *low) for queue, found in of_queue.items() for low in found]
    highs = [high[:2] for found in of_queue.values() for high in (*found[1:], (_MOST, ""))]
    range_queues, low_ranks, low_lanes, low_times, low_ids = map(list, zip(*lows, strict=True))
    high_ranks, high_lanes = map(list, zip(*highs, strict=True))
    return {
        "range_queues": range_queues,
        "low_ranks": low_ranks,
        "low_lanes": low_lanes,
        "low_times": low_times,
        "low_ids": low_ids,
        "high_ranks": high_ranks,
        "high_lanes": high_lanes,
    }
