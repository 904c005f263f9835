"""Claims by lanes, limits and gates, in one file.

A claim holds the write lock, so what its walk counts is exact.  `LanesInFile` answers the walk from few large statements: a
statement costs some microseconds, whatever it finds, and a walk asks several times for each lane.  So lanes come with their
first jobs, many at a time, and the gates and leases of all of them are asked for at once.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from onward.backend import Audit, Claim, Kind, LimitRow
from onward.backends.sql.limits import GATE_COLUMNS, SqlLimits, drop_idle_gates, gate_of, limits_of
from onward.backends.sqlite.transaction import Transaction, as_json
from onward.flow.lanes import behind, group_of
from onward.flow.limits import LARGEST_COST, Bounds
from onward.flow.room import Gate, Scope
from onward.flow.walk import MOST_BOOKED, PLAIN, Cursors, Walk, Walked

__all__ = ["LanesSeen", "LineJob", "SqliteLimits", "opens_at", "promote_booked", "walk_lanes", "would_claim"]

_NO_BOUNDS = Bounds()
_OPEN = Gate()
_ALL = Scope("", "")
_ABOVE_ALL = -(1 << 62)  # ranks rise from the highest priority
_FEW = 8  # lanes: often all there are
_MOST = 128


class LineJob(msgspec.Struct, array_like=True, gc=False):
    """A job that a walk may choose: a row of `lane_heads`, `lane_jobs` or `plain_jobs`."""

    rowid: int
    id: str
    crashes: int
    cost: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_COST)] | None
    lane: str = PLAIN
    queue: str = ""


_decode = msgspec.json.Decoder(list[LineJob]).decode
_decode_counts = msgspec.json.Decoder(list[int]).decode


class LanesSeen:
    """What a process remembers from one claim to the next."""

    def __init__(self) -> None:
        self.cursors = Cursors()
        self.queues: set[str] = set()  # those in which lanes or a limit decided, when this process last looked


class _Lanes:
    """Consecutive lanes of one priority of a queue: all that there are behind ``start``, up to the last of them."""

    def __init__(self, start: str, lanes: list[str], *, to_the_end: bool) -> None:
        self._start = start
        self._to_the_end = to_the_end
        self.lanes = lanes

    def knows(self, after: str) -> bool:
        return self._start <= after and (self._to_the_end or (bool(self.lanes) and after < self.lanes[-1]))

    def behind(self, after: str) -> str | None:
        place = bisect_right(self.lanes, after)
        return self.lanes[place] if place < len(self.lanes) else None


class _Line:
    """The first jobs of a lane, as far as they were read."""

    __slots__ = ("ended", "jobs")

    def __init__(self, jobs: list[LineJob] | None = None) -> None:
        self.jobs = jobs or []
        self.ended = False


class LanesInFile:
    """What a walk asks of the file."""

    def __init__(self, tx: Transaction, wanted: int = 1) -> None:
        """``wanted``: how many jobs the walk looks for."""
        self.now = tx.now
        self._tx = tx
        self._wanted = wanted
        self._limits: Mapping[tuple[Kind, str], LimitRow] | None = None
        self.any_gates = True
        self._ranks: dict[str, tuple[int | None, int | None]] = {}  # of plain jobs and of lanes, as last asked for
        self._lanes: dict[tuple[str, int], list[_Lanes]] = {}
        self._lines: dict[tuple[str, int, str], _Line] = {}
        self._near: dict[str, list[str]] = {}  # the lanes that were read together: they are asked for together
        self._gates: dict[Scope, Gate] = {}
        self._running: dict[Scope, int] = {}

    def rank_after(self, queue: str, rank: int | None) -> int | None:
        found = self._tx.row("next_rank", (queue, _ABOVE_ALL if rank is None else rank))
        assert found is not None
        plain, laned, any_limits, any_gates = found
        self._ranks[queue] = plain, laned
        if not any_limits:
            self._limits = {}
        self.any_gates = bool(any_gates)
        return min((each for each in (plain, laned) if each is not None), default=None)

    def lane_after(self, queue: str, rank: int, after: str, before: str) -> str | None:
        if self._ranks[queue][1] != rank:
            return None
        parts = self._lanes.setdefault((queue, rank), [])
        for part in parts:
            if part.knows(after):
                break
        else:
            part = self._read_lanes(queue, rank, after, _FEW if not parts else max(_FEW, self._wanted))
            parts.insert(0, part)
        lane = part.behind(after)
        return lane if lane is not None and lane < before else None

    def heads(self, queue: str, rank: int, lane: str, skip: int, count: int) -> Sequence[LineJob]:
        if lane == PLAIN and self._ranks[queue][0] != rank:
            return []
        line = self._lines.get((queue, rank, lane))
        if line is None:
            line = self._lines[queue, rank, lane] = _Line()
        missing = skip + count - len(line.jobs)
        if missing > 0 and not line.ended:
            self._read_jobs(line, queue, rank, lane, missing)
        return line.jobs[skip : skip + count]

    def bounds(self, kind: Kind, name: str) -> Bounds:
        row = self._all_limits().get((kind, name))
        return _NO_BOUNDS if row is None else row.bounds

    def gate(self, scope: Scope) -> Gate:
        if not self.any_gates:
            return _OPEN
        if scope not in self._gates:
            wanted = self._with_those_near(scope)
            self._gates |= dict.fromkeys(wanted, _OPEN)
            self._gates |= dict(map(gate_of, self._tx.rows("gates_among", (as_json(wanted),))))
        return self._gates[scope]

    def running(self, scope: Scope, since: int = 0) -> int:
        if scope.lane == PLAIN:
            return int(self._tx.value("running_of_queue", (scope.queue, since)))
        if since:
            return self._count([scope], since)[0]
        if scope not in self._running:
            wanted = self._with_those_near(scope)
            self._running |= zip(wanted, self._count(wanted, 0), strict=True)
        return self._running[scope]

    def is_limited(self, queue: str) -> bool:
        """Return whether a queue has a limit: then the runs of its plain jobs are counted."""
        return ("queue", queue) in self._all_limits()

    def decides(self, queue: str) -> bool:
        """Return whether lanes or a limit decide in this queue; True if the walk did not come to it."""
        return self._ranks.get(queue, (0, 0))[1] is not None or self.is_limited(queue)

    def _all_limits(self) -> Mapping[tuple[Kind, str], LimitRow]:
        if self._limits is None:
            self._limits = limits_of(self._tx)
        return self._limits

    def _with_those_near(self, scope: Scope) -> list[Scope]:
        return [Scope.of_lane(lane) for lane in self._near.get(scope.lane, [scope.lane])] if scope.lane else [scope]

    def _read_lanes(self, queue: str, rank: int, after: str, count: int) -> _Lanes:
        count = min(count, _MOST)
        heads = _decode(self._tx.value("lane_heads", (queue, rank, after, self.now, count)))
        for head in heads:
            head.queue = queue
            if (queue, rank, head.lane) not in self._lines:
                self._lines[queue, rank, head.lane] = _Line([head])
        lanes = [head.lane for head in heads]
        self._near |= dict.fromkeys(lanes, lanes)
        return _Lanes(after, lanes, to_the_end=len(heads) < count)

    def _read_jobs(self, line: _Line, queue: str, rank: int, lane: str, missing: int) -> None:
        place = (queue, rank) if lane == PLAIN else (queue, rank, lane)
        count = max(missing, self._wanted) if lane == PLAIN else missing
        name = "plain_jobs" if lane == PLAIN else "lane_jobs"
        found = _decode(self._tx.value(name, (*place, self.now, len(line.jobs), count)))
        for job in found:
            job.queue = queue
        line.jobs += found
        line.ended = len(found) < count

    def _count(self, scopes: Sequence[Scope], since: int) -> list[int]:
        # No lane has a character below the blank in it: what begins with the lane and goes on is another one.
        ends = [(lane, behind(lane) if lane == group_of(lane) else f"{lane}\x01") for _, lane in scopes]
        return _decode_counts(self._tx.value("running_of_lanes", (as_json(ends), since)))


def walk_lanes(
    tx: Transaction, seen: LanesSeen, claim: Claim, queues: Sequence[str], released: Collection[str]
) -> tuple[Walked[LineJob], list[str]]:
    """Choose what to claim, charge its tokens, and book what has none.  Return that, and which of the queues are limited."""
    view = LanesInFile(tx, claim.limit)
    found = _walked(view, seen.cursors, claim, queues, released)
    if found.charges:
        tx.run_many("charge_gate", [_charge(scope, bucket) for scope, bucket in found.charges.items()])
    if found.booked:
        tx.run_many("book", [(job.rowid, due) for job, due in found.booked])
    seen.queues.difference_update(queue for queue in queues if not view.decides(queue))
    return found, [queue for queue in queues if view.is_limited(queue)]


def would_claim(tx: Transaction, seen: LanesSeen, claim: Claim, queues: Sequence[str]) -> tuple[bool, bool]:
    """Return whether a claim has anything to write, and whether jobs wait for slots of this process; writes nothing."""
    cursors = Cursors()
    cursors.groups, cursors.lanes = dict(seen.cursors.groups), dict(seen.cursors.lanes)
    cursors.circles = dict(seen.cursors.circles)
    found = _walked(LanesInFile(tx, claim.limit), cursors, claim, queues, ())
    return bool(found.picks or found.booked or found.charges or found.more), found.awaits_slots


def opens_at(tx: Transaction, queue: str) -> int | None:
    """Return when a claim of this queue finds a job that is available: 0 if it would now, None if no instant is known."""
    walk = Walk(LanesInFile(tx), Cursors(), limit=1, bounded=False)
    walk.queue(queue, 1)
    found = walk.result()
    return 0 if found.picks else found.opens_at


def promote_booked(tx: Transaction, queue: str) -> int:
    """Make available what was booked and is due."""
    return tx.run("promote_booked", (queue, tx.now, MOST_BOOKED))


def _walked(
    view: LanesInFile, cursors: Cursors, claim: Claim, queues: Sequence[str], released: Collection[str]
) -> Walked[LineJob]:
    walk = Walk(view, cursors, limit=claim.limit, begins=claim.begins, released=released)
    for queue in queues:
        walk.queue(queue, claim.at_most.get(queue, claim.limit))
    return walk.result()


def _charge(scope: Scope, bucket: Any) -> dict[str, object]:
    return dict(zip(GATE_COLUMNS, (*scope, bucket.full_at, bucket.at), strict=False))


class SqliteLimits(SqlLimits):
    """The `KeepsLimits` half of the backend."""

    _gates_after = _ALL  # where the next look for idle gates goes on

    def _lane_view(self, tx: Transaction) -> LanesInFile:
        return LanesInFile(tx)

    def set_limit(self, kind: Kind, name: str, chosen: Bounds | None, *, new: bool = False, audit: Audit = ()) -> bool:
        is_set = super().set_limit(kind, name, chosen, new=new, audit=audit)
        if is_set:
            self._wake()
        return is_set

    def shut(self, lane: str, *, opened: bool = False, audit: Audit = ()) -> bool:
        changed = super().shut(lane, opened=opened, audit=audit)
        self._wake()
        return changed

    @abstractmethod
    def _wake(self) -> None:
        """Wake a worker."""

    def _drop_idle_gates(self, tx: Transaction, limit: int) -> None:
        self._gates_after = drop_idle_gates(tx, self._gates_after, tx.now, limit=limit) or _ALL
