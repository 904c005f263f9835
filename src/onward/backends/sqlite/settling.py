"""Ending leases by their settlements: the fate table of the contract, and evidence for those that match no lease.

`Moves` gathers the fenced writes by statement: a batch of five hundred is a handful of statements.  Every write matches (id,
token, owner, executing), and the caller compares how many rows were written with how many should have been.  If the numbers
differ, a lease was lost: the batch is rolled back and its items are tried one by one.

One statement moves all jobs that end in the same way to the finished.  Nearly all do, and a statement per job would cost
four times as much and release the interpreter's lock at each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from onward.backends.sql.flows import touch
from onward.backends.sql.limits import change_gate
from onward.backends.sql.settling import FenceMismatch
from onward.backends.sqlite import enqueueing, holds, notes
from onward.backends.sqlite.transaction import Parameters, Transaction, as_json
from onward.base.failure import Failure
from onward.job.lease import Lease
from onward.job.settlement import Leased, Settled, Settlement, applied, fate, is_due_at_once, judge
from onward.job.states import FINISHED, State

__all__ = ["Moves", "classify", "released", "settle"]

Asked = dict[tuple[str, int], str]  # the leases that were asked to cancel, and why
Fence = tuple[str, int, str]  # id, token, owner

_COMPLETED = applied(State.COMPLETED)
_ALIKE = attrgetter("reason", "keep")
# The driver takes 0.3 µs more for every value that is not exactly a str or an int, enums and booleans included.
_WORD = {state: str.__str__(state) for state in State}


def settle(
    tx: Transaction,
    owner: str,
    settlements: Sequence[Settlement],
    *,
    any_asked: bool,
    any_keyed: bool,
    one_by_one: bool,
) -> list[Settled]:
    """Apply the settlements whose fence holds, and answer the others by evidence.

    All together, raising `FenceMismatch` if not every fence holds; or ``one_by_one``.  ``any_asked``, ``any_keyed``: whether
    any lease of this session was asked to cancel, or carries keys.
    """
    asked: Asked = {}
    if any_asked:
        asked = {(row[0], row[1]): row[2] for row in tx.rows("asked_to_cancel", (owner,))}
    keyed = holds.of_settled(tx, settlements) if any_keyed else {}
    if one_by_one:
        answers = [_one(tx, owner, settlement, asked) for settlement in settlements]
    else:
        answers = _all_at_once(tx, owner, settlements, asked)
    for settlement, answer in zip(settlements, answers, strict=True):
        if settlement.dead_letter is not None and answer.applied and answer.state is State.DISCARDED:
            enqueueing.enqueue(tx, [settlement.dead_letter])
        if settlement.gate is not None and answer.applied:
            change_gate(tx, settlement.gate, tx.now)
    if keyed:
        holds.end(tx, _ended(settlements, answers, keyed))
    return answers


def classify(tx: Transaction, settlement: Settlement) -> Settled:
    """Answer a settlement whose fence matches nothing, by evidence."""
    lease = settlement.lease
    evidence = tx.row("evidence", (lease.envelope.id, lease.token))
    assert evidence is not None
    return judge(settlement, *evidence)


def released(settlements: Sequence[Settlement], answers: Sequence[Settled]) -> frozenset[str]:
    """Return the ids of the jobs that these settlements have given back."""
    pairs = zip(settlements, answers, strict=True)
    return frozenset(each.lease.envelope.id for each, answer in pairs if each.move == "release" and answer.applied)


def frees_room(settlements: Sequence[Settlement], queues: Collection[str]) -> bool:
    """Return whether another process may start a job now: of a limit that counts over all queues, or in these queues."""
    for each in settlements:  # a generator would cost more than all that most turns have to look at
        lane = each.lease.lane
        if (lane is not None and not lane.startswith("/")) or (queues and each.lease.envelope.queue in queues):
            return True
    return False


def _all_at_once(tx: Transaction, owner: str, settlements: Sequence[Settlement], asked: Asked) -> list[Settled]:
    if any(each.lease.owner != owner for each in settlements):
        raise FenceMismatch
    moves = Moves()
    answers = _gather(moves, tx, owner, settlements, asked)
    if not moves.apply(tx):
        raise FenceMismatch
    return answers


def _one(tx: Transaction, owner: str, settlement: Settlement, asked: Asked) -> Settled:
    if settlement.lease.owner != owner:
        return classify(tx, settlement)
    moves = Moves()
    (answer,) = _gather(moves, tx, owner, [settlement], asked)
    # A single fence matches in all of its statements or in none, so nothing is half-written.
    return answer if moves.apply(tx) else classify(tx, settlement)


def _gather(
    moves: Moves, tx: Transaction, owner: str, settlements: Sequence[Settlement], asked: Asked
) -> list[Settled]:
    """Gather the writes of these settlements; return the answers to them if every fence matches."""
    # Most are successes: these are gathered together, without `fate`, because a cancellation does not turn them.
    acks = [each for each in settlements if each.move == "ack"]
    members = [each for each in acks if each.lease.member]
    moves.complete(owner, [each for each in acks if not each.lease.member] if members else acks, at=tx.now)
    moves.complete(owner, members, at=tx.now, members=True)
    for each in acks:
        if each.failure is not None:
            moves.record_run(each, owner, State.COMPLETED, each.failure, at=tx.now)
    return [
        _COMPLETED if each.move == "ack" else applied(_planned(moves, tx, owner, each, asked)) for each in settlements
    ]


def _planned(moves: Moves, tx: Transaction, owner: str, settlement: Settlement, asked: Asked) -> State:
    lease = settlement.lease
    crashes, max_crashes = 0, 1
    if settlement.move == "crashed":
        # If there is no such lease, the planned writes match nothing.
        crashes, max_crashes = tx.row("crash_budget", (lease.envelope.id, lease.token, owner)) or (0, 1)
    to = moves.plan(settlement, Leased(asked.get(_held(lease)), crashes, max_crashes), now=tx.now)
    tx.wakes = tx.wakes or is_due_at_once(settlement, to)
    return to


def _ended(
    settlements: Sequence[Settlement], answers: Sequence[Settled], keyed: dict[tuple[str, int], holds.Keyed]
) -> list[holds.Ended]:
    return [
        holds.Ended(keyed[_held(settlement.lease)], confirmed=settlement.move == "ack")
        for settlement, answer in zip(settlements, answers, strict=True)
        if answer.applied and _held(settlement.lease) in keyed
    ]


def _held(lease: Lease) -> tuple[str, int]:
    return lease.envelope.id, lease.token


class _End(NamedTuple):
    """The values that leases which end in the same way have in common."""

    owner: str
    to: str
    at: int
    attempts: int
    crashes: int
    interruptions: int
    reason: str | None
    keep: int


class _Ended:
    """Leases that end in the same way, and the result of each."""

    __slots__ = ("_length", "_places", "_results", "_tokens", "count", "members")

    def __init__(self) -> None:
        self.members = False  # whether members of flows are among them
        self.count = 0  # more than there are leases if the batch names one twice: then not all can be applied
        self._tokens: dict[str, int] = {}
        self._places: dict[str, tuple[int, int, int]] = {}  # see the statement
        self._results: list[bytes] = []
        self._length = 0

    def add(self, job_id: str, token: int, result: bytes | None) -> None:
        self.count += 1
        self._tokens[job_id] = token
        if result is not None:
            self._places[job_id] = token, self._length + 1, len(result)  # SQL counts from one
            self._results.append(result)
            self._length += len(result)

    def finish(self, tx: Transaction, end: _End) -> bool:
        """Move the jobs to the finished.  False if a fence did not match."""
        tokens = as_json(self._tokens)
        leases = as_json({**self._tokens, **self._places}) if self._places else tokens
        moved = tx.run("finish", (leases, *end, b"".join(self._results)))
        if moved != self.count:
            return False
        if end.to == "discarded":
            tx.run("name_deaths", (tokens,))
        if self.members:
            touch(tx.touched, tx.rows("places_of", (tokens,)))
        return tx.run("leave", (tokens, end.owner)) == self.count


class Moves:
    """Gathers writes, until `apply` makes them."""

    __slots__ = ("_awaiting", "_crashed", "_finished", "_notes", "_put_back", "_released", "_runs")

    def __init__(self) -> None:
        self._runs: list[Parameters] = []
        self._finished: defaultdict[_End, _Ended] = defaultdict(_Ended)
        self._put_back: list[Parameters] = []
        self._released: list[Fence] = []
        self._crashed: list[Parameters] = []
        self._notes: list[Parameters] = []
        self._awaiting: list[str] = []  # the ids of jobs that wait for a signal

    def record_run(self, settlement: Settlement, owner: str, to: State, failure: Failure, *, at: int) -> None:
        lease, by = settlement.lease, settlement.by
        run = settlement.move, _WORD[to], at, settlement.duration_ms
        told = failure.kind, failure.message, failure.traceback, failure.fingerprint
        self._runs.append((lease.envelope.id, lease.token, owner, *run, *told, None if by is None else by.encoded()))

    def complete(self, owner: str, acks: Iterable[Settlement], *, at: int, members: bool = False) -> None:
        for (reason, keep), alike in groupby(acks, key=_ALIKE):
            # Those behind a member may want its result.
            ended = self._finished[
                _End(owner, "completed", at, 1, 0, 0, reason, 2 if members and not keep else int(keep))
            ]
            ended.members = ended.members or members
            for ack in alike:
                lease = ack.lease
                ended.add(lease.envelope.id, lease.token, ack.result if keep or members else None)

    def plan(self, settlement: Settlement, leased: Leased, *, now: int) -> State:
        """Gather the writes of one settlement; return the state that it leads to."""
        lease, what = settlement.lease, fate(settlement, leased, now)
        fence = job_id, token, owner = lease.envelope.id, lease.token, lease.owner
        if what.failure is not None:
            self.record_run(settlement, owner, what.to, what.failure, at=now)
        if what.to in FINISHED:
            counters = what.attempts, what.crashes, what.interruptions
            end = _End(owner, _WORD[what.to], now, *counters, what.reason, int(settlement.keep))
            ended = self._finished[end]
            ended.members = ended.members or lease.member
            ended.add(job_id, token, settlement.result if settlement.keep else None)
        elif what.due is None:
            self._released.append(fence)
        elif what.crashes:
            self._crashed.append((*fence, what.due))
        else:
            waiting = what.attempts, what.waits, what.spent, what.parked_since, what.awaits
            self._put_back.append((*fence, _WORD[what.to], what.due, *waiting))
            self._notes += [(*fence, name, now, value) for name, value in settlement.notes]
            if what.awaits is not None:
                self._awaiting.append(job_id)
        return what.to

    def apply(self, tx: Transaction) -> bool:
        """Make all writes.  False if a fence did not match: then the caller rolls back."""
        # The records first: they read what the moves change.
        matched = (
            _each(tx, "record_run", self._runs)
            and _each(tx, "note", self._notes)
            and all(ended.finish(tx, end) for end, ended in self._finished.items())
            and _each(tx, "put_back", self._put_back)
            and _each(tx, "release", self._released)
            and _each(tx, "crash", self._crashed)
        )
        if matched and self._awaiting:
            notes.wake(tx, self._awaiting)
        return matched


def _each(tx: Transaction, name: str, rows: Sequence[Parameters]) -> bool:
    return not rows or tx.run_many(name, rows) == len(rows)
