"""Ending leases by their settlements, and evidence for those that match no lease.

Nearly all are successes of jobs without keys: one statement moves them to the finished without reading them first; it
compares the fence and repeats what `fate` says of an `ack`.  If it matches fewer rows than it should, the transaction is
rolled back and run again with a read of each: it locks the rows, asks `fate` what becomes of them, and writes that, fenced
once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onward.backend import Held
from onward.backends.mysql import enqueueing, holds
from onward.backends.mysql.transaction import Reply, Row, Transaction
from onward.backends.sql.flows import touch
from onward.backends.sql.limits import change_gate
from onward.backends.sql.notes import write_snoozed
from onward.backends.sql.settling import FenceMismatch
from onward.backends.sql.turns import released
from onward.job.lease import Hold
from onward.job.settlement import Fate, Leased, Settled, Settlement, applied, fate, is_due_at_once, judge
from onward.job.states import FINISHED, State

__all__ = ["Settling", "classify", "settle"]

_COMPLETED = applied(State.COMPLETED)
_FREE = Hold.FREE  # looked up once, not for every settlement


class Settling:
    """The settlements of a turn."""

    def __init__(self, tx: Transaction, owner: str, settlements: Sequence[Settlement], *, careful: bool) -> None:
        self._tx, self._owner = tx, owner
        self._settlements = settlements
        self._moved: list[tuple[Reply, int]] = []
        self._members: Reply | None = None  # the nodes of members that have ended
        self._answers: list[Settled] | None = None
        self.plain = not careful and _are_plain(owner, settlements)  # nothing has to be known before the claim
        if self.plain:
            self._complete()

    def answer(self) -> list[Settled]:
        """Return the answer to each settlement, and finish what follows from them: dead letters, keys, waiters."""
        if self._answers is None:
            self._answers = self._completed() if self.plain else _answers(self._tx, self._owner, self._settlements)
        return self._answers

    def _completed(self) -> list[Settled]:
        for reply, expected in self._moved:
            if reply.count != expected:
                raise FenceMismatch
        self._tx.ended += len(self._settlements)
        if self._members is not None:
            touch(self._tx.touched, self._members.rows())
        _wake_lanes(self._tx, self._settlements)
        return [_COMPLETED] * len(self._settlements)

    @property
    def released(self) -> list[str]:
        """The ids of the jobs that this turn has given back."""
        return [] if self._answers is None else released(self._settlements, self._answers)

    @property
    def ended(self) -> set[Held]:
        """The leases that this turn has ended."""
        pairs = zip(self._settlements, self.answer(), strict=True)
        return {(each.lease.envelope.id, each.lease.token) for each, answer in pairs if answer.applied}

    def _complete(self) -> None:
        for keep in (True, False):
            alike = [each for each in self._settlements if each.keep is keep]
            if alike:
                # In the order of the ids: two transactions that lock the same rows cannot deadlock.
                alike.sort(key=lambda each: each.lease.envelope.id)
                results = _Results()
                leases = [(each.lease.envelope.id, each.lease.token, *results.add(each.result)) for each in alike]
                reply = self._tx.ask("complete", leases=leases, owner=self._owner, keep=keep, results=results.joined())
                self._moved.append((reply, len(alike)))
        if members := [each.lease.envelope.id for each in self._settlements if each.lease.member]:
            self._members = self._tx.ask("end_members", ids=sorted(members))


def classify(tx: Transaction, settlements: Sequence[Settlement]) -> list[Settled]:
    """Answer settlements whose fence matches nothing, by evidence."""
    leases = [(each.lease.envelope.id, each.lease.token) for each in settlements]
    evidence = {number - 1: row for number, *row in tx.ask("evidence", leases=leases).rows()}
    return [judge(settlement, *evidence[at]) for at, settlement in enumerate(settlements)]


def settle(tx: Transaction, settlements: Mapping[int, Settlement]) -> dict[int, Settled]:
    """Apply those whose fence holds; return their answers.  No two may be of one lease."""
    # In the order of the ids: two transactions that lock the same rows cannot deadlock.
    order = sorted(settlements, key=lambda at: settlements[at].lease.envelope.id)
    leases = [_fence(settlements[at]) for at in order]
    found = {order[number - 1]: _Locked(*row) for number, *row in tx.ask("settle", leases=leases).rows()}
    fates = {at: fate(settlements[at], found[at].leased, found[at].now) for at in order if at in found}
    keyed = {at: each for at in sorted(fates) if (each := found[at].keyed(settlements[at])) is not None}
    ended = [holds.Ended(each, confirmed=settlements[at].move == "ack") for at, each in keyed.items()]
    ending = holds.Ending(tx, ended) if ended else None
    _write(tx, settlements, found, fates)
    for at, what in fates.items():
        _follow_up(tx, settlements[at], what.to)
    snoozed = [settlements[at] for at, what in fates.items() if what.to is State.SCHEDULED]
    write_snoozed(tx, {each.lease.envelope.id: each for each in snoozed})
    _wake_lanes(tx, [settlements[at] for at in fates])
    for at in fates:
        if (change := settlements[at].gate) is not None:
            change_gate(tx, change, found[at].now)
    if ending is not None:  # last: no job is stored or locked once keys are
        ending.end(
            (_waiter(settlements[at], found[at], fates[at]), each)
            for at, each in keyed.items()
            if _waits(settlements[at], fates[at])
        )
    return {at: applied(what.to) for at, what in fates.items()}


def _waits(settlement: Settlement, what: Fate) -> bool:
    return what.to is State.SCHEDULED and settlement.move == "snooze" and settlement.waits > 0


def _waiter(settlement: Settlement, found: _Locked, what: Fate) -> holds.Waiter:
    assert what.due is not None
    envelope = settlement.lease.envelope
    return holds.Waiter(found.rank, what.due, envelope.id, envelope.queue)


class _Locked(NamedTuple):
    """A row of `settle`."""

    attempts: int
    crashes: int
    interruptions: int
    max_crashes: int
    cancel_reason: str | None
    rank: int
    available_at: int
    waits: int
    parked_since: int | None
    spent: str | None
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None
    now: int

    @property
    def leased(self) -> Leased:
        return Leased(self.cancel_reason, self.crashes, self.max_crashes, self.waits, self.parked_since, self.spent)

    def keyed(self, settlement: Settlement) -> holds.Keyed | None:
        if self.idempotency_key is None and self.single_instance is None:
            return None
        keys = self.idempotency_key, self.idempotency_ttl, self.single_instance
        return holds.Keyed(settlement.lease.envelope.id, settlement.lease.token, *keys)


class _Results:
    """The results of a batch, end to end."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, result: bytes | None) -> tuple[int, int] | tuple[()]:
        """Append a result; return its place and length, or an empty tuple if there is none."""
        if result is None:
            return ()
        place = self._length + 1, len(result)  # SQL counts from one
        self._parts.append(result)
        self._length += len(result)
        return place

    def joined(self) -> bytes:
        return b"".join(self._parts)


def _are_plain(owner: str, settlements: Sequence[Settlement]) -> bool:
    """Return whether only a lost lease can keep these settlements from completing their jobs."""
    return len({each.lease.envelope.id for each in settlements}) == len(settlements) and all(
        each.move == "ack"
        and each.gate is None
        and each.reason is None
        and each.failure is None
        and each.lease.hold is _FREE
        and (each.keep or not each.lease.member)
        and each.lease.owner == owner
        for each in settlements
    )


def _answers(tx: Transaction, owner: str, settlements: Sequence[Settlement]) -> list[Settled]:
    # The same lease twice: the evidence of the first answers the second.
    first = {(each.lease.envelope.id, each.lease.token): at for at, each in reversed(list(enumerate(settlements)))}
    asked = {at: settlements[at] for at in first.values() if settlements[at].lease.owner == owner}
    answers = settle(tx, asked) if asked else {}
    if missing := [at for at in range(len(settlements)) if at not in answers]:
        evidence = classify(tx, [settlements[at] for at in missing])
        answers |= dict(zip(missing, evidence, strict=True))
    return [answers[at] for at in range(len(settlements))]


def _write(
    tx: Transaction, settlements: Mapping[int, Settlement], found: Mapping[int, _Locked], fates: Mapping[int, Fate]
) -> None:
    runs = [_run(settlements[at], found[at], each) for at, each in fates.items() if each.failure is not None]
    if runs:
        tx.ask("record_runs", runs=runs)
    results = _Results()
    ended = {at: each for at, each in fates.items() if each.to in FINISHED}
    kept = _to_keep(tx, {at: settlements[at] for at in ended})
    finished = [_finished(settlements[at], each, results, keep=at in kept) for at, each in ended.items()]
    if finished:
        tx.ask("finish", leases=finished, results=results.joined())
        tx.ended += len(finished)
    if ids := sorted(settlements[at].lease.envelope.id for at in ended if settlements[at].lease.member):
        touch(tx.touched, tx.ask("end_members", ids=ids).rows())
    back = [_put_back(settlements[at], found[at], each) for at, each in fates.items() if each.to not in FINISHED]
    if back:
        tx.ask("put_back", leases=back)


def _run(settlement: Settlement, found: _Locked, what: Fate) -> Row:
    lease, failure = settlement.lease, what.failure
    assert failure is not None
    return (
        *(
            lease.envelope.id,
            lease.token,
            found.now,
            settlement.duration_ms,
            found.attempts + 1,
            settlement.move,
            what.to,
            lease.owner,
        ),
        *(failure.kind, failure.message, failure.traceback, failure.fingerprint),
        None if settlement.by is None else settlement.by.encoded(),
    )


def _to_keep(tx: Transaction, settlements: Mapping[int, Settlement]) -> set[int]:
    """Return of which settlements the whole job is kept: while its flow is there, others may want a member's result."""
    kept = {at for at, each in settlements.items() if each.keep}
    members = {each.lease.envelope.id: at for at, each in settlements.items() if at not in kept and each.lease.member}
    if members:
        kept |= {members[job_id] for (job_id,) in tx.ask("members_of_flows", ids=sorted(members)).rows()}
    return kept


def _finished(settlement: Settlement, what: Fate, results: _Results, *, keep: bool) -> Row:
    counters = what.attempts, what.crashes, what.interruptions, int(keep)
    place = (results.add(settlement.result) if keep else ()) or (None, None)
    return (*_fence(settlement), what.to, *counters, *place, what.reason)


def _put_back(settlement: Settlement, found: _Locked, what: Fate) -> Row:
    available_at = found.available_at if what.due is None else what.due
    counters = found.attempts + what.attempts, found.crashes + what.crashes, found.interruptions + what.interruptions
    waiting = what.waits, int(what.waits > 0 and what.parked_since is None), what.parked_since, what.spent, what.awaits
    return (*_fence(settlement), what.to, available_at, *counters, *waiting)


def _follow_up(tx: Transaction, settlement: Settlement, to: State) -> None:
    if settlement.dead_letter is not None and to is State.DISCARDED:
        enqueueing.enqueue(tx, [settlement.dead_letter])
    if is_due_at_once(settlement, to):
        tx.wakes.add(settlement.lease.envelope.queue)


def _wake_lanes(tx: Transaction, settlements: Sequence[Settlement]) -> None:
    """Wake workers of this process if a slot of a limit may be free now."""
    for each in settlements:
        if each.lease.lane is not None:
            tx.wakes.add(each.lease.envelope.queue)


def _fence(settlement: Settlement) -> tuple[str, int, str]:
    return settlement.lease.envelope.id, settlement.lease.token, settlement.lease.owner
