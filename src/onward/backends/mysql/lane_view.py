"""What a walk over lanes asks of a database, many lanes at a time.

The walk asks for one lane after the other, and every answer over a network takes its time.  So the view reads ahead: some
lanes by one packet of jumps, what runs in them and their gates by another, and the first jobs of as many lanes as are wanted
by a third.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from onward.backend import Kind, LimitRow
from onward.backends.mysql.literals import Literal
from onward.backends.mysql.transaction import Reply, Row, Transaction
from onward.backends.sql.limits import gate_of, limits_of
from onward.flow.lanes import behind, group_of
from onward.flow.limits import Bounds
from onward.flow.room import Gate, Scope
from onward.flow.walk import PLAIN, Walk

__all__ = ["BETWEEN", "OPEN", "Head", "MySQLView"]

OPEN = Gate()
_LANED = 1_000  # by which the places of jobs with lanes are higher than those of plain ones
_LOWEST, BETWEEN = -(1 << 40), _LANED // 2  # places: below all, and between those of plain jobs and the others
_FIRST_JUMPS, _MOST_JUMPS = 8, 128  # of one packet
_AHEAD = 64  # lanes whose limits are looked at together
_NO_BOUNDS = Bounds()


class Head(NamedTuple):
    """One of the first jobs of a lane."""

    id: str
    crashes: int
    cost: int | None
    row: Row  # in the shape of `candidates`


class _Jobs:
    """What is known of one line: the jobs that were read, and whether there may be more."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.ended = False


class _Lanes:
    """The lanes of one priority of a queue, as far as they were read: stretches without a gap."""

    def __init__(self) -> None:
        self._stretches: list[
            tuple[str, str | None, list[str]]
        ] = []  # behind which, up to which (None: the end), lanes

    def after(self, lane: str) -> tuple[bool, str | None]:
        """Return whether it is known which lane comes next, and that lane."""
        for begin, end, lanes in self._stretches:
            if begin <= lane and (end is None or lane < end):
                at = bisect_right(lanes, lane)
                return True, lanes[at] if at < len(lanes) else None
        return False, None

    def following(self, lane: str) -> list[str]:
        """Return the lanes of the same job that come next, around its end to its start, as far as there is no gap."""
        group, found = group_of(lane), [lane]
        while True:
            known, following = self.after(found[-1])
            if known and (following is None or group_of(following) != group):
                known, following = self.after(group[:-1])
            if not known or following is None or following in found or len(found) > _AHEAD:
                return found[1:]
            found.append(following)

    def add(self, after: str, lanes: list[str], *, ended: bool) -> None:
        self._stretches.append((after, None if ended else lanes[-1], lanes))

    @property
    def jumps(self) -> int:
        """How many to make next: more every time."""
        return min(_FIRST_JUMPS << 2 * len(self._stretches), _MOST_JUMPS)

    def known(self) -> list[str]:
        """Return all that were read, in their order."""
        return sorted({lane for _, _, lanes in self._stretches for lane in lanes})


class MySQLView:
    """What a walk asks, for a look that claims nothing."""

    _heads_statement = "seen_heads"

    def __init__(self, tx: Transaction, now: int) -> None:
        self.now = now
        self.walk: Walk[Head] | None = None
        self._tx = tx
        self._limits: Mapping[tuple[Kind, str], LimitRow] | None = None
        self._has_gates = True
        self._places: dict[tuple[str, int | None], Reply] = {}
        self._has_plain: set[tuple[str, int]] = set()
        self._has_lanes: set[tuple[str, int]] = set()
        self._lanes: dict[tuple[str, int], _Lanes] = {}
        self._lines: dict[tuple[str, int, str], _Jobs] = {}
        self._gates: dict[Scope, Gate] = {}
        self._running: dict[Scope, int] = {}

    @property
    def any_gates(self) -> bool:
        return self._has_gates

    def rank_after(self, queue: str, rank: int | None) -> int | None:
        reply = self._ask_places(queue, rank)
        self._read_limits()  # in the same packet
        plain, laned = reply.rows()[0]
        if plain is not None and plain < BETWEEN:
            self._has_plain.add((queue, plain))
        if laned is not None:
            self._has_lanes.add((queue, laned - _LANED))
        places = [each for each in (plain, None if laned is None else laned - _LANED) if each is not None]
        return min((each for each in places if each < BETWEEN), default=None)

    def lane_after(self, queue: str, rank: int, after: str, before: str) -> str | None:
        if (queue, rank) not in self._has_lanes:
            return None
        lanes = self._lanes.setdefault((queue, rank), _Lanes())
        known, lane = lanes.after(after)
        if not known:
            self._read_lanes(queue, rank, after, lanes)
            _, lane = lanes.after(after)
        return lane if lane is not None and lane < before else None

    def heads(self, queue: str, rank: int, lane: str, skip: int, count: int) -> Sequence[Head]:
        if lane == PLAIN and (queue, rank) not in self._has_plain:
            return ()
        line = self._lines.get((queue, rank, lane))
        if line is None or (len(line.heads) <= skip and not line.ended):
            self._read_heads(queue, rank, lane, count)
            line = self._lines[queue, rank, lane]
        return line.heads[skip : skip + count]

    def bounds(self, kind: Kind, name: str) -> Bounds:
        row = self._read_limits().get((kind, name))
        return _NO_BOUNDS if row is None else row.bounds

    def gate(self, scope: Scope) -> Gate:
        self._look_at(scope)
        return self._gates[scope]

    def running(self, scope: Scope, since: int = 0) -> int:
        self._look_at(scope)
        if since:
            return _count(self._tx, scope, since)
        if scope not in self._running:
            self._running[scope] = _count(self._tx, scope)
        return self._running[scope]

    # Reading ahead

    @property
    def _wanted(self) -> int:
        return 1 if self.walk is None else max(1, self.walk.wanted)

    def _read_limits(self) -> Mapping[tuple[Kind, str], LimitRow]:
        if self._limits is None:
            any_gate = self._tx.ask("any_gate")
            self._limits = limits_of(self._tx)
            self._has_gates = bool(any_gate.value())
        return self._limits

    def _ask_places(self, queue: str, rank: int | None) -> Reply:
        """Ask for the next priorities of plain jobs and of jobs with lanes."""
        if (queue, rank) not in self._places:
            plain, laned = (_LOWEST, BETWEEN) if rank is None else (rank, rank + _LANED)
            self._places[queue, rank] = self._tx.ask("next_places", queue=queue, plain=plain, laned=laned)
        return self._places[queue, rank]

    def _read_lanes(self, queue: str, rank: int, after: str, lanes: _Lanes) -> None:
        jumps = lanes.jumps
        self._ask_places(queue, rank)  # for later, in the same packet
        variables = [Literal(b"@lane%d" % number) for number in range(jumps)]
        for at, into in zip([after.encode(), *variables], variables, strict=False):
            self._tx.ask("walk_lanes", queue=queue, place=rank + _LANED, lane=at, into=into)
        text = self._tx.ask("walked_lanes", variables=Literal(b", ".join(variables))).value()
        found = bytes(text).decode().split("\n") if text else []
        lanes.add(after, found, ended=len(found) < jumps)

    def _read_heads(self, queue: str, rank: int, lane: str, count: int) -> None:
        """Read the first jobs of a line; and of those that will come next, as far as that is known."""
        line = self._lines.get((queue, rank, lane))
        if not self._is_ready(lane):
            wanted = {lane: count}  # to be booked
        elif line is not None:
            wanted = {lane: len(line.heads) + min(count, self._most(queue, lane))}
        elif lane == PLAIN:
            self._ask_places(queue, rank)
            wanted = {lane: -(-self._most(queue, lane) // (2 if (queue, rank) in self._has_lanes else 1))}
        else:
            most = self._most(queue, group_of(lane))
            others = (each for each in self._following(queue, rank, lane) if (queue, rank, each) not in self._lines)
            chosen = [lane, *islice(filter(self._is_ready, others), most - 1)]
            share = -(-most // len(chosen))
            # Along the index: two turns that want the same lanes lock them in one order.
            wanted = {each: min(share, self._most(queue, each)) for each in sorted(chosen)}
        self._ask_heads(queue, rank, wanted)

    def _most(self, queue: str, lane: str) -> int:
        """Return how many jobs of a lane can be taken at most, as far as is known."""
        scopes = [Scope.of_queue(queue)]
        if lane != PLAIN:
            scopes += [Scope.of_lane(group_of(lane)), Scope.of_lane(lane)]
        bounded = [(self._bounds_of(scope).running, self._running.get(scope, 0)) for scope in scopes]
        return max(1, min([self._wanted, *(most - number for most, number in bounded if most is not None)]))

    def _ask_heads(self, queue: str, rank: int, wanted: Mapping[str, int]) -> None:
        lines = [_line_of(queue, rank, lane) | {"limit": limit} for lane, limit in wanted.items()]
        found: dict[str, list[Head]] = {lane: [] for lane in wanted}
        for *row, _, line, crashes, cost in self._tx.ask_each(self._heads_statement, lines).rows():
            found[PLAIN if line is None else bytes(line).decode()].append(Head(row[0], crashes, cost, tuple(row)))
        for lane, heads in found.items():
            jobs = self._lines.setdefault((queue, rank, lane), _Jobs())
            known = {head.id for head in jobs.heads}
            jobs.heads += (head for head in heads if head.id not in known)
            jobs.ended = len(heads) < wanted[lane] or len(jobs.heads) == len(known)

    def _is_ready(self, lane: str) -> bool:
        """Return whether jobs of a lane may be taken, as far as that is known."""
        return True

    def _following(self, queue: str, rank: int, lane: str) -> list[str]:
        """Return the lanes of the same job that a walk meets after this one, as far as they were read."""
        lanes = self._lanes.get((queue, rank))
        return [] if lanes is None else lanes.following(lane)

    def _look_at(self, scope: Scope) -> None:
        """Read the gate of a scope, and those that a walk will ask for next."""
        if scope not in self._gates:
            self._read([each for each in self._asked_with(scope) if each not in self._gates])

    def _read(self, scopes: Sequence[Scope]) -> None:
        """Read gates, and count what runs where that is bounded, by one packet."""
        if not scopes:
            return
        counted = {scope for scope in scopes if self._bounds_of(scope).running is not None}
        gates = self._tx.ask("gates_of", scopes=scopes) if self._has_gates else None
        counts = _Counts(self._tx, counted)
        found = {} if gates is None else dict(gate_of(row) for row in gates.rows())
        self._gates |= {scope: found.get(scope, OPEN) for scope in scopes}
        self._running |= counts.read()

    def _asked_with(self, scope: Scope) -> list[Scope]:
        """Return a scope and those that will be asked for next: other lanes of the same job, other jobs."""
        if scope.lane == PLAIN:
            return [scope]
        if scope.lane == group_of(scope.lane):
            groups = {group_of(lane) for lanes in self._lanes.values() for lane in lanes.known()}
            others = [Scope.of_lane(group) for group in sorted(groups) if group != "/"]
        else:
            place = next((place for place, lanes in self._lanes.items() if scope.lane in lanes.known()), None)
            following = [] if place is None else self._following(*place, scope.lane)
            others = [Scope.of_lane(lane) for lane in following if lane != group_of(lane)]
        return [scope, *(each for each in others if each != scope)][:_AHEAD]

    def _bounds_of(self, scope: Scope) -> Bounds:
        if scope.lane == PLAIN:
            return self.bounds("queue", scope.queue)
        group = group_of(scope.lane)
        return self.bounds("job" if scope.lane == group else "key", group[:-1])


class _Counts:
    """Counts what runs in scopes: asked by one packet, and read later."""

    def __init__(self, tx: Transaction, scopes: Collection[Scope]) -> None:
        lanes = [scope.lane for scope in scopes if _is_lane(scope)]
        self._lanes = dict.fromkeys(lanes, 0)
        self._in_lanes = tx.ask("running_in_lanes", lanes=lanes) if lanes else None
        self._single = {scope: _ask_count(tx, scope) for scope in scopes if not _is_lane(scope)}

    def read(self) -> dict[Scope, int]:
        found = self._lanes | ({} if self._in_lanes is None else dict(self._in_lanes.rows()))
        counts = {Scope.of_lane(lane): number for lane, number in found.items()}
        return counts | {scope: reply.value() for scope, reply in self._single.items()}


def _line_of(queue: str, rank: int, lane: str) -> dict[str, object]:
    place, line = (rank, None) if lane == PLAIN else (rank + _LANED, lane.encode())
    return {"queue": queue, "place": place, "line": line}


def _is_lane(scope: Scope) -> bool:
    return scope.lane != PLAIN and scope.lane != group_of(scope.lane)


def _ask_count(tx: Transaction, scope: Scope, since: int = 0) -> Reply:
    if scope.lane == PLAIN:
        return tx.ask("running_in_queue", queue=scope.queue)
    end = f"{scope.lane}\0" if _is_lane(scope) else behind(scope.lane)
    return tx.ask("running_between", lane=scope.lane.encode(), behind=end.encode(), since=since)


def _count(tx: Transaction, scope: Scope, since: int = 0) -> int:
    number: int = _ask_count(tx, scope, since).value()
    return number
