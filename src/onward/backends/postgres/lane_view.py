"""What a walk over the lanes of a queue asks PostgreSQL: answered from one statement, which has looked at all of it.

That statement (`lane_source`) brings what a walk usually asks for.  A question that goes beyond is a statement of its own:
correct, and rare.
Lanes are known as steps: behind this place comes that lane.
"""

from __future__ import annotations

import random
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import msgspec

from onward.backends.postgres.lane_marks import BEGINNING, Seen
from onward.backends.postgres.lane_source import DRAWN_FROM, LaneLook, LaneSource
from onward.backends.postgres.single_line import SingleLine
from onward.backends.postgres.transaction import Reply, Row, Transaction
from onward.backends.sql.limits import gate_of, limit_of
from onward.flow.lanes import behind, group_of
from onward.flow.limits import Bounds, Kind
from onward.flow.room import FOREVER, Gate, LimitRoom, Scope
from onward.flow.tokens import Bucket
from onward.flow.walk import PLAIN

__all__ = ["Head", "Place", "PostgresView", "gates_of", "limit_named", "line_heads", "running_in"]

_LAST = chr(0x10FFFF)
_OPEN = Gate()
_LEFT = Gate(shut_until=FOREVER)  # to the turn that has its lock: no instant is known at which it opens
_NO_BOUNDS = Bounds()
_OF_JOBS: tuple[Kind, ...] = ("job", "key")

Place = tuple[str, int, str]  # a queue, a rank and a lane: a line of jobs


class Head(msgspec.Struct, frozen=True, gc=False):
    """An available job among the first of its lane."""

    queue: str
    rank: int
    lane: str
    due: int
    id: str
    crashes: int
    cost: int | None


class _Line(msgspec.Struct):
    """The first jobs of a lane in one rank of a queue."""

    heads: list[Head]
    is_whole: bool  # there are no others


class _Steps:
    """The lanes of one rank of a queue, as far as they are known."""

    def __init__(self) -> None:
        self._places: list[
            tuple[str, str, bool]
        ] = []  # behind the first comes the second: a lane, or where none is before

    def add(self, after: str, upto: str, *, is_lane: bool) -> None:
        insort(self._places, (after, upto, is_lane))

    def following(self, after: str, before: str) -> str | None:
        """Return the first lane behind ``after``; None if there is none below ``before``.

        Raises `LookupError` where that is not known.
        """
        at = bisect_right(self._places, (after, _LAST, True)) - 1
        if at < 0:
            raise LookupError
        _, upto, is_lane = self._places[at]
        if after >= upto:
            raise LookupError
        if is_lane:
            return upto if upto < before else None
        return None if before <= upto else self.following(upto, before)


class PostgresView:
    """What a walk asks, answered from what was looked at."""

    def __init__(self, source: LaneSource, look: LaneLook) -> None:
        self.walked: set[str] = set()  # the queues that have lanes or a limit
        self.keyless: set[str] = set()  # jobs that are known to have no key to take
        self._source = source
        self._ranks: defaultdict[str, set[int]] = defaultdict(set)
        self._plain: set[tuple[str, int]] = set()  # queues and ranks that have plain jobs
        self._firsts: list[Place] = []  # the first lane of each group
        self._steps: defaultdict[tuple[str, int], _Steps] = defaultdict(_Steps)
        self._lines: dict[tuple[str, int, str], _Line] = {}
        self._bounds: dict[tuple[Kind, str], Bounds] = {}
        self._gates: dict[Scope, Gate] = {}
        self._running: dict[tuple[Scope, int], int] = {}
        self._locked: Collection[Scope] | None = None
        self._circles: set[Place] = set()  # groups of which all lanes were looked at
        self._unread: set[Place] = set()  # lanes that are full: their jobs were not looked at
        self._is_crowded = look.crowded
        self.now = look.now
        self._read_queues(look.queues)
        self._read_groups(look.groups)
        self._read_lanes(look.lanes, look.share)

    # What a walk asks

    @property
    def any_gates(self) -> bool:
        return bool(self._gates)

    def rank_after(self, queue: str, rank: int | None) -> int | None:
        return min((each for each in self._ranks[queue] if rank is None or each > rank), default=None)

    def lane_after(self, queue: str, rank: int, after: str, before: str) -> str | None:
        steps = self._steps.get((queue, rank))
        if steps is None:
            return None
        try:
            return steps.following(after, before)
        except LookupError:
            group = group_of(before[:-1])
            look = self._source.look_from(queue, rank, group, after)
            self._read_lanes(look.lanes, look.share)
        try:
            return steps.following(after, before)
        except LookupError:
            return None  # the group is gone by now

    def heads(self, queue: str, rank: int, lane: str, skip: int, count: int) -> Sequence[Head]:
        if lane == PLAIN and (queue, rank) not in self._plain:
            return []
        line, limit = self._lines.get((queue, rank, lane)), self._source.limit
        # Some are enough for a claim, which asks on where they end; to book is to want all of them.
        enough = skip + (1 if count <= limit else count)
        if line is None or not (line.is_whole or len(line.heads) >= enough):
            self._read_on((queue, rank, lane), skip + (limit if line is None else count))
            line = self._lines[queue, rank, lane]
        return line.heads[skip : skip + count]

    def _read_on(self, place: Place, count: int) -> None:
        """Read so many of a line, and twice as many as before of the lines beside it: a walk takes about as many of each."""
        queue, rank, lane = place
        lines = {place: count}
        for (of_queue, of_rank, beside), line in self._lines.items():
            is_beside = (of_queue, of_rank) == (queue, rank) and lane != PLAIN and group_of(beside) == group_of(lane)
            if is_beside and not line.is_whole:
                known = (of_queue, of_rank, beside)
                lines[known] = max(lines.get(known, 0), min(2 * len(line.heads), self._source.limit))
        if self._source.ranges is None or lane == PLAIN:
            reply = line_heads(self._source.tx, lines)
        else:
            reply = self._source.heads_from(lines, [_first(self._lines.get(each)) for each in lines])
        self.read_again(lines, reply.rows())

    def bounds(self, kind: Kind, name: str) -> Bounds:
        return self._bounds.get((kind, name), _NO_BOUNDS)

    def gate(self, scope: Scope) -> Gate:
        gate = self._gates.get(scope, _OPEN)
        return _LEFT if self._is_left(scope, gate) else gate

    def running(self, scope: Scope, since: int = 0) -> int:
        found = self._running.get((scope, since))
        if found is None:
            ((found,),) = running_in(self._source.tx, [(scope, since)]).rows()
            self._running[scope, since] = found
        return found

    @property
    def seen(self) -> Seen:
        """What was looked at, for the marks of the next walk."""
        heads: dict[Place, list[tuple[int, str]]] = {line: [] for line in self._unread}
        for line, found in self._lines.items():
            if line[2] != PLAIN:
                heads[line] = [(head.due, head.id) for head in found.heads]
        groups = {(queue, rank, group_of(lane)) for queue, rank, lane in self._firsts}
        return Seen(heads, groups - self._circles, crowded=self._is_crowded, marked=self._source.ranges is not None)

    # What is locked

    @property
    def limits(self) -> Mapping[tuple[Kind, str], Bounds]:
        """The limits of what was looked at."""
        return self._bounds

    def single_line(self, queues: Sequence[str]) -> SingleLine | None:
        """Return the one line of jobs that wait in these queues, if that of a job whose limit is how many run.

        Keys of the job may wait behind it: `take_line` looks.
        """
        if len(queues) != 1 or len(self._ranks[queues[0]]) != 1 or len(self._firsts) != 1:
            return None
        ((queue, rank, lane),) = self._firsts
        bounds, gate = self.bounds("job", lane[:-1]), self._gates.get(Scope.of_lane(lane), _OPEN)
        is_single = lane == group_of(lane) and (queue, rank) not in self._plain and gate == _OPEN
        if not is_single or bounds.running is None or bounds.rate is not None or self.bounds("queue", queue):
            return None
        return SingleLine(queue, rank, lane, bounds.running)

    def recount(self, now: int, gates: Mapping[Scope, Gate], counts: Mapping[tuple[Scope, int], int]) -> None:
        """Keep what was read again of the scopes that this turn has locked.  It leaves all others with a limit alone.

        A bucket that an earlier holder of the lock has charged was charged before ``now``.
        """
        self.now = now
        self._gates |= gates
        self._running = {**{key: each for key, each in self._running.items() if key[0] not in gates}, **counts}
        self._locked = gates.keys()

    def read_again(self, lines: Mapping[Place, int], rows: Sequence[Row]) -> None:
        """Keep the first jobs of lines that earlier holders of a lock have taken from."""
        found: defaultdict[int, list[Row]] = defaultdict(list)
        for number, *head, is_keyless in rows:
            found[number].append(tuple(head))
            if is_keyless:
                self.keyless.add(head[1])
        for number, (place, count) in enumerate(lines.items(), start=1):
            self._keep(*place, found[number], count)

    def _is_left(self, scope: Scope, gate: Gate) -> bool:
        """Return whether a job of this scope could start, if this turn had its lock."""
        if self._locked is None or scope in self._locked:
            return False
        bounds, probes = self.bounds(*limit_named(scope)), gate.probes(self.now)
        if not bounds and not probes:
            return False
        running = self.running(scope) if bounds.running is not None else 0
        probing = self.running(scope, gate.shut_until) if probes else 0
        return LimitRoom(bounds, gate, self.now, running=running, probing=probing).is_open

    # Reading what was looked at

    def _read_queues(self, rows: list[list[Any]]) -> None:
        limit = self._source.limit
        for queue, ranks, heads, bound, gate, running in rows:
            self._ranks[queue].update(ranks or ())
            self._plain.update((queue, rank) for rank in ranks or ())
            found = heads or []
            for rank, rows_of_rank in groupby(found, key=itemgetter(0)):
                self._keep(queue, rank, PLAIN, [head[1:] for head in rows_of_rank], limit)
            for rank in ranks or ():
                # All ranks but the last that was come to are whole; the others were not come to, unless all were.
                line = self._lines.get((queue, rank, PLAIN))
                if len(found) < limit or (line is not None and rank < found[-1][0]):
                    self._lines[queue, rank, PLAIN] = _Line(line.heads if line else [], is_whole=True)
            if bound is not None:
                self.walked.add(queue)
            self._keep_scope(Scope.of_queue(queue), bound, gate, running)

    def _read_groups(self, rows: list[list[Any]]) -> None:
        """Read the first lane of each group, in their order."""
        after: dict[tuple[str, int], str] = {}
        for queue, rank, lane, job_limit, key_limit, gate, running in rows:
            self.walked.add(queue)
            self._ranks[queue].add(rank)
            self._firsts.append((queue, rank, lane))
            group = group_of(lane)
            self._steps[queue, rank].add(after.get((queue, rank), ""), lane, is_lane=True)
            after[queue, rank] = behind(group)
            self._keep_scope(Scope.of_lane(group), job_limit, gate, running)
            if key_limit is not None:
                self._keep_limit(key_limit)
        for place, last in after.items():
            self._steps[place].add(last, _LAST, is_lane=False)

    def _read_lanes(self, rows: list[list[Any]], share: int) -> None:
        """Read the lanes of each group from its start around to it."""
        last: dict[tuple[str, int, str], tuple[str, bool]] = {}
        drawn: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for queue, rank, group, start, is_lane, lane, has_wrapped, gate, running, heads in rows:
            place, steps = (queue, rank, group), self._steps[queue, rank]
            if not is_lane:
                last[place] = (start, False)
                continue
            at, had_wrapped = last[place]
            if lane is None:
                self._circles.add(place)
                steps.add(at, start + "\0" if had_wrapped else behind(group), is_lane=False)
                if not had_wrapped:
                    steps.add(group[:-1], start + "\0", is_lane=False)
                continue
            if has_wrapped and not had_wrapped:
                steps.add(at, behind(group), is_lane=False)
                at = group[:-1]
            steps.add(at, lane, is_lane=True)
            last[place] = (lane, has_wrapped)
            drawn[queue, group].append(lane)
            scope = Scope.of_lane(lane)
            if lane != group:  # the lane of a job without a key has the gate of its job
                self._keep_scope(scope, None, gate, running)
            bound = self.bounds("key", group[:-1]).running
            if bound is None or running < bound:
                self._keep(queue, rank, lane, heads or [], share)
            else:
                self._unread.add((queue, rank, lane))
        self._draw(drawn)

    def _draw(self, found: dict[tuple[str, str], list[str]]) -> None:
        """Draw the places where this process begins: one of the next lanes of each group, and one of the groups."""
        cursors = self._source.cursors
        for place, lanes in found.items():
            if not cursors.lanes.get(place):
                cursors.lanes[place] = random.choice(list(islice(lanes, DRAWN_FROM)))
        for queue in self.walked - cursors.groups.keys():
            groups = [group for name, group in found if name == queue]
            if any(name == queue and lane == PLAIN for name, _, lane in self._lines):
                groups.append(PLAIN)
            cursors.groups[queue] = random.choice(groups or [PLAIN])

    def _keep_scope(self, scope: Scope, bound: list[Any] | None, gate: list[Any] | None, running: int) -> None:
        if bound is not None:
            self._keep_limit(bound)
        if gate is not None:
            full_at, charged_at, shut_until, shut_for = gate
            self._gates[scope] = Gate(Bucket(full_at, charged_at), shut_until, shut_for)
        self._running[scope, 0] = running

    def _keep_limit(self, columns: list[Any]) -> None:
        row = limit_of(columns)
        self._bounds[row.kind, row.name] = row.bounds

    def _keep(self, queue: str, rank: int, lane: str, rows: Sequence[Sequence[Any]], most: int) -> _Line:
        heads = [Head(queue, rank, lane, *row) for row in rows]
        line = self._lines[queue, rank, lane] = _Line(heads, is_whole=len(heads) < most)
        return line


def _first(line: _Line | None) -> tuple[int, str]:
    """Return where the jobs of a line begin, as far as that is known."""
    return (line.heads[0].due, line.heads[0].id) if line is not None and line.heads else BEGINNING


def limit_named(scope: Scope) -> tuple[Kind, str]:
    """Return the kind and the name of the limit that counts a scope."""
    if scope.lane == "":
        return "queue", scope.queue
    group = group_of(scope.lane)
    return ("job" if scope.lane == group else "key"), group[:-1]


def running_in(tx: Transaction, scopes: Sequence[tuple[Scope, int]]) -> Reply:
    """Count the leases of each scope; those that began since an instant."""
    return tx.ask(
        "running_in",
        queues=[scope.queue for scope, _ in scopes],
        lows=[scope.lane for scope, _ in scopes],
        highs=[behind(lane) if lane == group_of(lane) else lane + "\1" for (_, lane), _ in scopes],
        since=[since for _, since in scopes],
    )


def line_heads(tx: Transaction, lines: Mapping[Place, int]) -> Reply:
    """Ask for the first jobs of each line, so many of it."""
    queues, ranks, lanes = map(list, zip(*lines, strict=True))
    return tx.ask("line_heads", queues=queues, ranks=ranks, lanes=lanes, counts=list(lines.values()))


def gates_of(tx: Transaction, scopes: Sequence[Scope]) -> dict[Scope, Gate]:
    """Return the gates of these scopes that there are."""
    rows = tx.ask("gates_of", queues=[each.queue for each in scopes], lanes=[each.lane for each in scopes]).rows()
    return dict(map(gate_of, rows))
