"""The walk over the lanes of a queue that a claim makes: priority first, then turns between jobs, then turns between keys.

    priority    as without lanes: none of a lower one while a higher one has a job that may start
    groups      in one priority: every job with lanes of its own is one, all keys of ``fair_by`` are one, all plain jobs are
                one; they take turns
    lanes       in one group: its keys take turns; in one lane by due time and id

The order of turns is a place in a ring, the cursor: the last group served, and in each group the last lane.  Nothing is
written for it, and a process that starts draws its first places.  A walk jumps from lane to lane along an index, looks at no
more than `limit + 64` of them, and steps over a job that has no room with one jump, however many lanes and jobs wait there.
A walk that stopped at this bound says so (``more``); the next one goes on behind it, until a full circle has found nothing.

A lane that is closed by its own rate, or was shut, is left out of later walks: its first jobs are booked for their tokens.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Iterator
from typing import Generic, NamedTuple

from onward.flow.lane_view import PLAIN, J, LaneView
from onward.flow.lanes import ahead_of, behind, group_of, random_start
from onward.flow.limits import Kind
from onward.flow.room import HORIZON, LimitRoom, Scope
from onward.flow.tokens import Bucket

__all__ = ["MOST_BOOKED", "PLAIN", "Cursors", "LaneView", "Pick", "Walk", "Walked"]

MOST_BOOKED = 200
_MORE_LANES = 64  # than jobs that are wanted
_DRAWN_FROM = 32  # lanes, of which the first walk draws its first place
_LAST = chr(0x10FFFF)


class Pick(NamedTuple, Generic[J]):
    """A job to be leased."""

    job: J
    lane: str
    probe: int = 0  # microseconds for which its job was shut before: this run shows whether it may open


class Walked(NamedTuple, Generic[J]):
    """What a walk found."""

    picks: list[Pick[J]]
    more: bool  # it stopped at a bound: walk again
    opens_at: int | None  # when the first lane opens that is closed now, if that is known
    booked: list[tuple[J, int]]  # to be scheduled for these instants
    charges: dict[Scope, Bucket]
    awaits_slots: bool  # jobs wait that could start, if more could begin at once


class Cursors:
    """Where the next walk of this process begins."""

    def __init__(self) -> None:
        self.groups: dict[str, str] = {}  # queue: the last group served
        self.lanes: dict[tuple[str, str], str] = {}  # queue and group: the last lane served or passed
        self.circles: dict[tuple[str, int, str], str] = {}  # where a circle began that has found nothing yet


class Walk(Generic[J]):
    """One claim's walk."""

    def __init__(
        self,
        view: LaneView[J],
        cursors: Cursors,
        *,
        limit: int,
        begins: int | None = None,
        released: Collection[str] = (),
        bounded: bool = True,
    ) -> None:
        """``begins``: how many of the limit can begin at once.  ``bounded``: False for a look that claims nothing."""
        self.view = view
        self.cursors = cursors
        self.released = released
        self._limit = limit
        self._begins = limit if begins is None else min(limit, begins)
        self._bounded = bounded
        self._jumps = limit + _MORE_LANES
        self._rooms: dict[Scope, LimitRoom | None] = {}
        # The same by what asks for them, many times for each job that is taken.
        self._rooms_of: dict[tuple[str, str], list[LimitRoom]] = {}
        self._own_rooms: dict[str, LimitRoom | None] = {}
        self._picks: list[Pick[J]] = []
        self._booked: list[tuple[J, int]] = []
        self._opens_at: int | None = None
        self._more = False
        self._awaits_slots = False
        self.ended = False

    def queue(self, queue: str, at_most: int) -> None:
        """Take jobs of a queue, up to the limit and to ``at_most``."""
        until = min(self._limit, len(self._picks) + at_most)
        rank: int | None = None
        while not self.ended and len(self._picks) < until:
            rank = self.view.rank_after(queue, rank)
            if rank is None:
                return
            room = self.room(Scope.of_queue(queue), "queue", queue)
            if room is not None and not room.is_open:
                self.closed(room)
                return
            self._priority(queue, rank, until)

    def result(self) -> Walked[J]:
        charges = {scope: room.bucket for scope, room in self._rooms.items() if room is not None and room.charged}
        return Walked(self._picks, self._more, self._opens_at, self._booked, charges, self._awaits_slots)

    def _priority(self, queue: str, rank: int, until: int) -> None:
        groups = deque(_Group(self, queue, rank, name) for name in self._groups(queue, rank))
        while groups and not self.ended and len(self._picks) < until:
            group = groups.popleft()
            line = group.next()
            if line is None:
                continue
            job = line.jobs[0]
            if job.crashes and self._picks:
                self.stop()
                return
            self._take(group, line)
            groups.append(group)
            if job.crashes:
                self._more = self.ended = True  # alone

    def _take(self, group: _Group[J], line: _Line[J]) -> None:
        pick = Pick(line.jobs.popleft(), line.lane, group.probe)
        for room in line.rooms:
            room.take(pick.job.cost or 1)
        if group.is_limited:
            self._begins -= 1
        self._picks.append(pick)
        self.cursors.groups[group.queue] = group.name
        if group.name != PLAIN:
            self.cursors.lanes[group.cursor] = pick.lane

    def _groups(self, queue: str, rank: int) -> list[str]:
        """Return the groups that have jobs, in the order of their turns."""
        names = [PLAIN] if self.view.heads(queue, rank, PLAIN, 0, 1) else []
        lane = self.view.lane_after(queue, rank, PLAIN, _LAST)
        while lane is not None:
            names.append(group_of(lane))
            lane = self.view.lane_after(queue, rank, behind(names[-1]), _LAST)
        last = self.cursors.groups.get(queue)
        if last is None:
            first = random.randrange(len(names)) if names else 0
        else:
            first = next((place for place, name in enumerate(names) if name > last), 0)
        return names[first:] + names[:first]

    # What groups ask

    def jump(self) -> bool:
        """Count a look at a lane; False if the walk must stop."""
        self._jumps -= 1
        if self._jumps < 0 and self._bounded:
            self.stop()
        return not self.ended

    def stop(self) -> None:
        self._more = self.ended = True

    @property
    def wanted(self) -> int:
        return self._limit - len(self._picks)

    def wanted_of(self, group: _Group[J]) -> int:
        """Return how many jobs of a group may still be taken, as far as its rooms do not decide."""
        return min(self.wanted, self._begins) if group.is_limited else self.wanted

    def closed(self, room: LimitRoom) -> None:
        """Remember when a closed room opens."""
        if not room.waits_for_others and (self._opens_at is None or room.opens_at() < self._opens_at):
            self._opens_at = room.opens_at()

    def book(self, queue: str, rank: int, lane: str, room: LimitRoom) -> None:
        """Book the first jobs of a lane that its own rate or gate has closed, each for its own token."""
        left = MOST_BOOKED - len(self._booked)
        if room.waits_for_others or not self._bounded:
            return
        if left <= 0:
            self.stop()
            return
        tokens = 1
        for job in self.view.heads(queue, rank, lane, 0, left):
            due = room.opens_at(tokens)
            if due > self.view.now + HORIZON:
                return
            if job.id not in self.released:
                self._booked.append((job, due))
            tokens += job.cost or 1

    def is_open(self, group: _Group[J]) -> bool:
        """Return whether a job of this group may start, as far as its lane does not decide."""
        closed = [room for room in group.rooms if not room.is_open]
        for room in closed:
            self.closed(room)
        if closed or self._begins > 0 or not group.is_limited:
            return not closed
        self._awaits_slots = True
        return False

    def is_limited(self, queue: str, group: str) -> bool:
        """Return whether a start of this group takes what others could use: then no more are claimed than can begin."""
        return any(room.is_limited for room in self.rooms(queue, group)) or bool(self.view.bounds("key", group[:-1]))

    def probe(self, group: str) -> int:
        room = self.job_room(group)
        return 0 if room is None else room.probe

    def rooms(self, queue: str, lane: str) -> list[LimitRoom]:
        """Return the rooms that a job of this lane needs: its queue's, its job's and its own."""
        found = self._rooms_of.get((queue, lane))
        if found is None:
            rooms = [self.room(Scope.of_queue(queue), "queue", queue)]
            if lane != PLAIN:
                rooms += [self.job_room(group_of(lane)), self.lane_room(lane)]
            found = self._rooms_of[queue, lane] = [room for room in rooms if room is not None]
        return found

    def job_room(self, group: str) -> LimitRoom | None:
        return self.room(Scope.of_lane(group), "job", group[:-1]) if group not in (PLAIN, "/") else None

    def lane_room(self, lane: str) -> LimitRoom | None:
        if lane not in self._own_rooms:
            group = group_of(lane)
            is_one = lane not in (PLAIN, group)
            self._own_rooms[lane] = self.room(Scope.of_lane(lane), "key", group[:-1]) if is_one else None
        return self._own_rooms[lane]

    def room(self, scope: Scope, kind: Kind, name: str) -> LimitRoom | None:
        """Return what a scope has left; None if nothing bounds it."""
        if scope not in self._rooms:
            self._rooms[scope] = self._found_room(scope, kind, name)
        return self._rooms[scope]

    def _found_room(self, scope: Scope, kind: Kind, name: str) -> LimitRoom | None:
        view = self.view
        bounds, gate = view.bounds(kind, name), view.gate(scope)
        if not bounds and not gate.is_shut(view.now) and not gate.probes(view.now):
            return None
        running = view.running(scope) if bounds.running is not None else 0
        probing = view.running(scope, gate.shut_until) if gate.probes(view.now) else 0
        return LimitRoom(bounds, gate, view.now, running=running, probing=probing)


class _Group(Generic[J]):
    """The lanes of one job in one priority of a queue, in the order of their turns."""

    def __init__(self, walk: Walk[J], queue: str, rank: int, name: str) -> None:
        self.queue = queue
        self.name = name
        self.cursor = (queue, name)
        self.probe = walk.probe(name)
        self.rooms = walk.rooms(queue, name)  # those that all its lanes have
        self.is_limited = walk.is_limited(queue, name)
        self._walk = walk
        self._rank = rank
        self._lines: deque[_Line[J]] = deque()
        self._new = self._lanes()
        self._found = False
        self._always_open = not self.rooms and not self.is_limited

    def next(self) -> _Line[J] | None:
        """Return the line of the next job that may start, with that job; None if there is none."""
        while (self._always_open or self._walk.is_open(self)) and (line := self._next_line()) is not None:
            if (line.own is None or line.own.is_open) and (line.jobs or line.read(self._share())):
                self._lines.append(line)
                self._found = True
                return line
        return None

    def _next_line(self) -> _Line[J] | None:
        line = next(self._new, None)
        if line is None and self._lines and not self._walk.ended:
            line = self._lines.popleft()
        return line

    def _share(self) -> int:
        """Return how many jobs of a lane to look at: about as many as it will give."""
        return max(1, self._walk.wanted_of(self) // (len(self._lines) + 1))

    def _lanes(self) -> Iterator[_Line[J]]:
        """Yield the lanes once around, without those that are closed."""
        walk, queue, rank = self._walk, self.queue, self._rank
        if self.name == PLAIN:
            yield _Line(walk, (queue, rank, PLAIN), self.rooms, None)
            return
        keys_have_limits = bool(walk.view.bounds("key", self.name[:-1]))
        for lane in self._around():
            own = walk.lane_room(lane) if keys_have_limits or walk.view.any_gates else None
            if own is None or own.is_open:
                yield _Line(walk, (queue, rank, lane), self.rooms, own)
            else:
                walk.closed(own)
                walk.book(queue, rank, lane, own)

    def _around(self) -> Iterator[str]:
        """Yield the lanes from behind the cursor around to it; or around to where a circle without a find began."""
        cursors, place = self._walk.cursors, (self.queue, self._rank, self.name)
        cursor = cursors.lanes.get(self.cursor) or self._drawn()
        begun = cursors.circles.pop(place, cursor)
        # From the cursor up to the end, then from the start; a circle that began above the cursor ends there.
        parts = [(cursor, begun + "\0")] if begun > cursor else [(cursor, behind(self.name)), ("", begun + "\0")]
        for after, before in parts:
            at = max(after, ahead_of(self.name))
            while (lane := self._walk.view.lane_after(self.queue, self._rank, at, before)) is not None:
                if not self._walk.jump():
                    cursors.groups[self.queue], cursors.lanes[self.cursor] = self.name, at
                    if not self._found:
                        cursors.circles[place] = begun
                    return
                yield lane
                at = lane

    def _drawn(self) -> str:
        """Return a first place: every lane is as likely to be behind it, whatever the gaps between their digits."""
        view = self._walk.view
        found: list[str] = []
        at = random_start(self.name)
        while len(found) < _DRAWN_FROM:
            lane = view.lane_after(self.queue, self._rank, at, behind(self.name))
            lane = lane or view.lane_after(self.queue, self._rank, ahead_of(self.name), behind(self.name))
            if lane is None or (found and lane == found[0]):
                break
            found.append(lane)
            at = lane
        return random.choice(found) if found else at


class _Line(Generic[J]):
    """The jobs of one lane in one priority of a queue."""

    __slots__ = ("_ids", "_place", "_seen", "_walk", "jobs", "lane", "own", "rooms")

    def __init__(
        self, walk: Walk[J], place: tuple[str, int, str], rooms: list[LimitRoom], own: LimitRoom | None
    ) -> None:
        """``rooms``: those that all lanes of its job have; ``own``: its own, if anything bounds it."""
        self.lane = place[2]
        self.own = own
        self.rooms = rooms if own is None else [*rooms, own]
        self.jobs: deque[J] = deque()
        self._walk = walk
        self._place = place
        self._ids: set[str] = set()
        self._seen = 0

    def read(self, share: int) -> bool:
        """Look at the next jobs of the lane: at its head first, then at ``share`` at a time.  False at the end."""
        released = self._walk.released
        while not self.jobs:
            count = share if self._seen else 1  # how many lanes share what is wanted is not known yet
            found = self._walk.view.heads(*self._place, self._seen, count)
            if not found:
                return False
            self._seen += len(found)
            # A job that comes back between two looks moves those behind it, and one of them is found again.
            self.jobs.extend([job for job in found if job.id not in released and job.id not in self._ids])
            self._ids.update([job.id for job in found])
        return True
