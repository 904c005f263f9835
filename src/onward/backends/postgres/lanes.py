"""Claims by lanes, limits and gates.

Every claim first keeps limits as they are until its commit: what changes one waits for it, and claims take nothing then.
Then it looks, without a lock: `walk_lanes` brings what the walk (`onward.flow.walk`) asks for.  Where the jobs it
chooses have a limit, it locks what counts them, a queue, a job or a lane, by advisory locks that the commit ends; then it
reads leases, gates and first jobs again, by statements that are younger than the locks, and walks once more over what was
locked.  A commit is visible before its locks are gone, so the count has every lease that an earlier holder has handed out,
and no job that it has taken is chosen again.  A lock that another turn keeps is left to it, with the jobs behind it.

Lanes without a limit take no lock.  Neither does a turn that starts no more of a limit than it has ended: its commit leaves
as many leases as there were, whatever others do meanwhile.  It takes so many of a lane, not the jobs that it has seen.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from onward.backend import Claim, Lease
from onward.backends.postgres.lane_marks import LaneMarks
from onward.backends.postgres.lane_source import LaneSource
from onward.backends.postgres.lane_view import Head, Place, PostgresView, gates_of, line_heads, running_in
from onward.backends.postgres.single_line import LineTaken, SingleLine
from onward.backends.postgres.transaction import Row, Transaction
from onward.backends.sql.limits import charge, gate_of
from onward.flow.lanes import group_of
from onward.flow.limits import Bounds, Kind
from onward.flow.room import Gate, LimitRoom, Scope
from onward.flow.walk import PLAIN, Cursors, Pick, Walk, Walked
from onward.job.settlement import Settled, Settlement

__all__ = ["LaneClaims", "LaneWalk", "ScopeReader", "Taken", "freed", "opens_in"]

_MOST_LOCKS = 31  # and the one that keeps limits: they come out of the server's one table of locks
_TRIES = 20  # to get the one lock that a claim needs
_REMEMBERED = 50  # claims for which a queue is walked that had lanes or a limit
_ALIKE = 3  # walks that found the same single line, until a claim expects it
_OPEN = Gate()
_decode_special = msgspec.json.Decoder(list[Any]).decode
_RANK, _DUE, _ID, _QUEUE = range(4)  # columns of a row of `take`
_KEYS = (5, 7)  # of the columns that only few jobs have: an idempotency key, a single instance


class Taken(NamedTuple):
    """What a claim by lanes has got."""

    rows: list[Row]  # of `take`, in the order of their turns
    probes: dict[str, int]  # microseconds for which their jobs were shut, by the ids of leases that probe
    more: bool
    awaits_slots: bool
    contended: bool  # jobs were left to another turn that has the lock


class LaneClaims:
    """What the claims of one process remember: their cursors, and which queues had lanes or a limit."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lock = threading.Lock()
        self._cursors = Cursors()
        self._walked: dict[str, int] = {}  # a queue, and how many claims still expect it to have lanes or a limit
        self._slots: set[tuple[Kind, str]] = set()  # limits of how many run
        self._line: SingleLine | None = None  # that the latest walk found
        self._alike = 0  # how many walks found it, one after the other
        self._line_has_room = False  # for more than a turn has ended: a walk takes it

    def expects(self, queues: Iterable[str]) -> bool:
        """Return whether one of these queues had lanes or a limit lately: then its claim walks at once."""
        return not self._walked.keys().isdisjoint(queues)

    def expected_line(self, claim: Claim, ended: Sequence[Settlement]) -> tuple[SingleLine, int] | None:
        """Return the single line from which this claim takes, and how many at most; None: walk."""
        line = self._line
        if line is None or self._alike < _ALIKE or tuple(claim.queues) != (line.queue,):
            return None
        freed = sum(each.lease.lane == line.lane for each in ended)
        most = line.most(claim)
        if min(freed, most) <= 0 or (freed < most and self._line_has_room):
            return None
        return line, min(freed, most)

    def line_taken(self, taken: LineTaken) -> None:
        """Keep what a claim of a single line has told."""
        with self._lock:
            self._line_has_room = taken.free > 0
            if not taken.is_single:
                self._line, self._alike = None, 0

    @property
    def counts(self) -> bool:
        """Return whether any limit is known of how many run."""
        return bool(self._slots)

    def has_slot(self, lease: Lease) -> bool:
        """Return whether this lease may have kept others from starting: by a limit of its queue, its job or its key."""
        job = "" if lease.lane is None else group_of(lease.lane)[:-1]
        return not self._slots.isdisjoint((("queue", lease.envelope.queue), ("job", job), ("key", job)))

    def begin(self, tx: Transaction, claim: Claim, ended: Sequence[Settlement], marks: LaneMarks) -> LaneWalk:
        """Ask for what a claim needs to know.  ``ended``: what its turn has ended for certain."""
        freed = _scopes(each.lease for each in ended if self.has_slot(each.lease))
        with self._lock:
            cursors = _copied(self._cursors)
        return LaneWalk(tx, claim, cursors, self._prefix, freed=freed, marks=marks)

    def learn(self, walk: LaneWalk) -> None:
        """Keep where a walk has ended."""
        with self._lock:
            self._cursors = walk.cursors
            for queue in walk.queues:
                left = _REMEMBERED if queue in walk.walked else self._walked.pop(queue, 0) - 1
                if left > 0:
                    self._walked[queue] = left
            self._alike = self._alike + 1 if walk.line == self._line else 1
            self._line, self._line_has_room = walk.line, False
            slots = {limit for limit, bounds in walk.limits.items() if bounds.running is not None}
            self._slots = (self._slots - walk.limits.keys()) | slots


class LaneWalk:
    """One claim by lanes."""

    def __init__(
        self,
        tx: Transaction,
        claim: Claim,
        cursors: Cursors,
        prefix: str,
        *,
        freed: Counter[Scope],
        marks: LaneMarks,
    ) -> None:
        """``freed``: how many leases of each scope this turn has ended."""
        self.cursors = cursors
        self.queues = list(dict.fromkeys(claim.queues))
        self.walked: Collection[str] = ()  # those of the queues that have lanes or a limit
        self.limits: Mapping[tuple[Kind, str], Bounds] = {}
        self.line: SingleLine | None = None  # if there is no other one
        self._tx = tx
        self._claim = claim
        self._prefix = prefix
        self._freed = freed
        self._marks = marks
        self._source = LaneSource(tx, self.queues, cursors, claim.limit, marks.for_walk(self.queues))
        self._kept = tx.ask("keep_limits")
        self._looked = self._source.ask()

    def take(self, *, owner: str, released: Sequence[str]) -> Taken:
        """Choose and lease jobs, charge their tokens, and book those whose lanes have none."""
        view = PostgresView(self._source, self._source.answered(self._looked))
        self.walked, self.limits = view.walked, view.limits
        if not self._kept.value():  # limits are changing: what was looked at need not be what binds by now
            return Taken([], {}, more=True, awaits_slots=False, contended=True)
        cursors = self.cursors
        walk, found = self._walk(view, released)
        needed = {} if self._swaps(walk, found) else _needed(walk, found)
        is_left = False
        if needed:
            is_left = not self._lock(view, needed, _limited_lines(walk, found))
            self.cursors = cursors
            walk, found = self._walk(view, released)
        charge(self._tx, {scope: bucket for scope, bucket in found.charges.items() if scope in needed})
        if found.booked:
            ids, due = [job.id for job, _ in found.booked], [at for _, at in found.booked]
            self._tx.ask("book", ids=ids, due=due)
        named = {pick.job.id for pick in found.picks if pick.job.crashes or (needed and _is_limited(walk, pick.job))}
        rows = self._taken(view, named, found.picks, owner=owner, released=released) if found.picks else []
        if rows and not any(map(_has_key, rows)):
            self.line = view.single_line(self.queues)
        probes = {pick.job.id: pick.probe for pick in found.picks if pick.probe}
        if self._marks.is_pinned:
            self._marks.learn(self.queues, view.seen, {row[_ID] for row in rows})
        is_short = bool(needed) and len(rows) < len(found.picks)  # turns that need no lock have taken some meanwhile
        more = found.more or is_left or is_short
        return Taken(rows, probes, more, found.awaits_slots, is_left)

    def _walk(self, view: PostgresView, released: Sequence[str]) -> tuple[Walk[Head], Walked[Head]]:
        claim, self.cursors = self._claim, _copied(self.cursors)
        walk = Walk(view, self.cursors, limit=claim.limit, begins=claim.begins, released=set(released))
        for queue in self.queues:
            walk.queue(queue, max(0, claim.at_most.get(queue, claim.limit)))
        return walk, walk.result()

    def _lock(self, view: PostgresView, needed: dict[Scope, Scope], lines: Mapping[Place, int]) -> bool:
        """Lock scopes, and read again what they have left.  Returns whether it has all of them."""
        wanted = list(dict.fromkeys(needed.values()))
        numbers = {_number(self._prefix, scope): scope for scope in wanted[:_MOST_LOCKS]}
        scopes = list(needed)
        counted = [(scope, 0) for scope in scopes]
        counted += [(scope, gate.shut_until) for scope in scopes if (gate := view.gate(scope)).probes(view.now)]
        tries = _TRIES if len(numbers) == 1 else 1  # of several, those that are free are enough to go on with
        locking = self._tx.ask("lock_scopes", numbers=list(numbers), tries=tries)
        # After the locks, by statements of their own: see above.
        reading = self._tx.ask(
            "try_gates", queues=[scope.queue for scope in scopes], lanes=[scope.lane for scope in scopes]
        )
        counting = running_in(self._tx, counted)
        heads = line_heads(self._tx, lines) if lines else None
        locked = {numbers[number] for (number,) in locking.rows()}
        read = reading.rows()
        gates = dict(_readable_gates(scopes, read))
        counts = {key: number for key, (number,) in zip(counted, counting.rows(), strict=True)}
        ours = {scope: gate for scope, gate in gates.items() if needed[scope] in locked}
        view.recount(read[0][-1], ours, {key: number for key, number in counts.items() if key[0] in ours})
        if heads is not None:
            view.read_again(lines, heads.rows())
        return len(ours) == len(scopes)

    def _swaps(self, walk: Walk[Head], found: Walked[Head]) -> bool:
        """Return whether this turn starts no more jobs of any limit than it has ended: then it needs no lock."""
        if found.charges:
            return False
        started: Counter[Scope] = Counter()
        for pick in found.picks:
            started.update(list(_limited(walk, pick.job.queue, pick.job.lane)))
        return not any(pick.probe for pick in found.picks) and started <= self._freed

    def _taken(
        self, view: PostgresView, named: set[str], picks: Sequence[Pick[Head]], *, owner: str, released: Sequence[str]
    ) -> list[Row]:
        """Lease jobs: these by their ids, so many of a lane of the others."""
        jobs = [pick.job for pick in picks if pick.job.id not in named]
        firsts = {(job.queue, job.rank, job.lane): (job.due, job.id) for job in reversed(jobs)}
        counts = Counter((job.queue, job.rank, job.lane) for job in jobs)
        laned = [(*line, *firsts[line], count) for line, count in counts.items() if line[2] != PLAIN]
        plain = [(*line, *firsts[line], count) for line, count in counts.items() if line[2] == PLAIN]
        taking = self._tx.ask(
            "take",
            at=view.now,
            owner=owner,
            released=list(released),
            ids=sorted(named),
            counted=[queue for queue in self.queues if view.bounds("queue", queue)],
            **_columns(laned, ("lane_queues", "lane_ranks", "lanes", "lane_times", "lane_heads", "lane_counts")),
            **_columns(plain, ("plain_queues", "plain_ranks", "", "plain_times", "plain_heads", "plain_counts")),
        )
        # Of a lane of which so many are taken, one may have a key: its jobs need not be those that were seen.
        if not self._tx.touched and all(pick.job.id in named and pick.job.id in view.keyless for pick in picks):
            self._tx.commit()  # with it: other turns wait for the locks
        return list(_in_turns(taking.rows(), picks, named))


class ScopeReader:
    """Gates and leases of any scope, for a list of limits."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.now: int = tx.ask("clock").value()

    def gate(self, scope: Scope) -> Gate:
        return gates_of(self._tx, [scope]).get(scope, _OPEN)

    def running(self, scope: Scope, since: int = 0) -> int:
        number: int = running_in(self._tx, [(scope, since)]).value()
        return number


def opens_in(tx: Transaction, queues: Sequence[str], marks: LaneMarks) -> int | None:
    """Return in how many microseconds a claim of these queues finds a job; None if no instant is known."""
    cursors = Cursors()
    source = LaneSource(tx, queues, cursors, 1, marks.for_look(queues))
    view = PostgresView(source, source.answered(source.ask()))
    walk = Walk(view, cursors, limit=1, bounded=False)
    for queue in queues:
        walk.queue(queue, 1)
    found = walk.result()
    if found.picks:
        return 0
    return None if found.opens_at is None else max(0, found.opens_at - view.now)


def freed(settlements: Sequence[Settlement], answers: Sequence[Settled], claims: LaneClaims) -> Counter[str]:
    """Return how many slots these settlements have freed that jobs may wait for, by queue."""
    pairs = zip(settlements, answers, strict=True)
    leases = (each.lease for each, answer in pairs if answer.applied)
    return Counter(lease.envelope.queue for lease in leases if claims.has_slot(lease))


def _scopes(leases: Iterable[Lease]) -> Counter[Scope]:
    """Return how many of these leases each scope counts."""
    found: Counter[Scope] = Counter()
    for lease in leases:
        found[Scope.of_queue(lease.envelope.queue)] += 1
        if lease.lane is not None:
            found.update({Scope.of_lane(lease.lane), Scope.of_lane(group_of(lease.lane))})
    return found


def _copied(cursors: Cursors) -> Cursors:
    copy = Cursors()
    copy.groups, copy.lanes, copy.circles = dict(cursors.groups), dict(cursors.lanes), dict(cursors.circles)
    return copy


def _needed(walk: Walk[Head], found: Walked[Head]) -> dict[Scope, Scope]:
    """Return the scopes whose count decides, each with the one whose lock protects it: no lane's under its job's."""
    needed: dict[Scope, Scope] = {}
    for pick in found.picks:
        needed |= _limited(walk, pick.job.queue, pick.job.lane)
    for scope in found.charges:
        if scope not in needed:
            needed |= {scope: scope} if scope.lane == "" else _limited(walk, "", scope.lane)
    return needed


def _limited_lines(walk: Walk[Head], found: Walked[Head]) -> Counter[Place]:
    """Return the lines with a limit that a walk takes jobs of, and of each how many."""
    jobs = (pick.job for pick in found.picks)
    return Counter((job.queue, job.rank, job.lane) for job in jobs if _is_limited(walk, job))


def _limited(walk: Walk[Head], queue: str, lane: str) -> dict[Scope, Scope]:
    """Return the scopes with a limit that count a job of this lane."""
    found: dict[Scope, Scope] = {}
    if queue and _bounds(walk.room(Scope.of_queue(queue), "queue", queue)):
        found[Scope.of_queue(queue)] = Scope.of_queue(queue)
    if lane == PLAIN:
        return found
    job, own = Scope.of_lane(group_of(lane)), Scope.of_lane(lane)
    if _bounds(walk.job_room(group_of(lane))):
        found[job] = job
    if _bounds(walk.lane_room(lane)):
        found[own] = found.get(job, own)
    return found


def _is_limited(walk: Walk[Head], job: Head) -> bool:
    return any(map(_bounds, walk.rooms(job.queue, job.lane)))


def _bounds(room: LimitRoom | None) -> bool:
    return room is not None and room.is_limited


def _readable_gates(scopes: Sequence[Scope], rows: Iterable[Row]) -> Iterator[tuple[Scope, Gate]]:
    """Yield the gates that this turn may change; those without a row are open."""
    for number, *columns, is_there, _ in rows:
        if columns[0] is not None:
            yield gate_of(columns)
        elif not is_there:
            yield scopes[number - 1], _OPEN


def _in_turns(rows: Sequence[Row], picks: Sequence[Pick[Head]], named: Collection[str]) -> Iterator[Row]:
    """Yield rows in the order of the picks.  A lane may have given other jobs than those that were seen."""
    places = {pick.job.id: (pick.job.queue, pick.job.rank, pick.job.lane) for pick in picks}
    by_id = {row[_ID]: row for row in rows if row[_ID] in named}
    others = sorted((row for row in rows if row[_ID] not in named), key=itemgetter(_DUE, _ID))
    lines: defaultdict[Any, deque[Row]] = defaultdict(deque)
    for row in others:
        lines[row[_QUEUE], row[_RANK], _lane(row)].append(row)
    for pick in picks:
        line = lines[places[pick.job.id]]
        if pick.job.id in by_id:
            yield by_id[pick.job.id]
        elif pick.job.id not in named and line:
            yield line.popleft()


def _lane(row: Row) -> str:
    special = row[-1]
    return PLAIN if special is None else (_decode_special(special)[-1] or PLAIN)


def _has_key(row: Row) -> bool:
    special = row[-1]
    return special is not None and any(_decode_special(special)[at] is not None for at in _KEYS)


def _columns(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [row[at] for row in rows] for at, name in enumerate(names) if name}


def _number(prefix: str, scope: Scope) -> int:
    """Return the number of a scope's lock: other namespaces of the database have other numbers."""
    text = f"{prefix}\0{scope.queue}\0{scope.lane}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8, person=b"onward lanes").digest(), signed=True)
