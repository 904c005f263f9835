"""Ending leases by their settlements, and evidence for those that match no lease.

Nearly all are successes of jobs without keys: they are moved among the finished without a look, by a statement that compares
the fence.  If it finds fewer than there should be, everything is undone and done anew with a look at each: the rows are
locked, the fate table of the contract says what becomes of them, and it is written, fenced once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onward.backend import Held
from onward.backends.mysql import enqueueing, holds
from onward.backends.mysql.transaction import Reply, Row, Transaction
from onward.backends.sql.settling import because, judge, on_record
from onward.backends.sql.turns import released
from onward.base.clock import SECOND
from onward.base.wording import counted
from onward.job.lease import Hold, Settled, Settlement, applied, crash_pause
from onward.job.states import FINISHED, TARGETS, State

__all__ = ["LeaseLost", "Settling", "classify", "settle"]

_COMPLETED = applied(State.COMPLETED)
# In these it may be due at once, and then somebody should know.
_COMES_BACK = {State.AVAILABLE, State.RETRYABLE, State.SCHEDULED}


class LeaseLost(Exception):
    """Some settlement of the batch matches no lease: the transaction must be undone, and each of them looked at."""


class Settling:
    """The settlements of a turn."""

    def __init__(self, tx: Transaction, owner: str, settlements: Sequence[Settlement], *, careful: bool) -> None:
        self._tx, self._owner = tx, owner
        self._settlements = settlements
        self._moved: list[tuple[Reply, int]] = []
        self._answers: list[Settled] | None = None
        self.plain = not careful and _are_plain(owner, settlements)  # nothing has to be known before the claim
        if self.plain:
            self._complete()

    def answer(self) -> list[Settled]:
        """One for each; whatever a settlement brings about besides is done."""
        if self._answers is None:
            self._answers = self._completed() if self.plain else _answers(self._tx, self._owner, self._settlements)
        return self._answers

    def _completed(self) -> list[Settled]:
        for reply, expected in self._moved:
            if reply.count != expected:
                raise LeaseLost
        self._tx.ended += len(self._settlements)
        return [_COMPLETED] * len(self._settlements)

    @property
    def released(self) -> list[str]:
        """The ids that were given back just now."""
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
                # In the order of the ids: two who lock the same rows do not wait for each other.
                alike.sort(key=lambda each: each.lease.envelope.id)
                results = _Results()
                leases = [(each.lease.envelope.id, each.lease.token, *results.add(each.result)) for each in alike]
                reply = self._tx.ask("complete", leases=leases, owner=self._owner, keep=keep, results=results.joined())
                self._moved.append((reply, len(alike)))


def classify(tx: Transaction, settlements: Sequence[Settlement]) -> list[Settled]:
    """What became of settlements whose fence matches nothing."""
    leases = [(each.lease.envelope.id, each.lease.token) for each in settlements]
    evidence = {number - 1: row for number, *row in tx.ask("evidence", leases=leases).rows()}
    return [judge(settlement, *evidence[at]) for at, settlement in enumerate(settlements)]


def settle(tx: Transaction, settlements: Mapping[int, Settlement]) -> dict[int, Settled]:
    """Apply those whose fence holds; gives their answers.  No two may be of one lease."""
    # In the order of the ids: two who lock the same rows do not wait for each other.
    order = sorted(settlements, key=lambda at: settlements[at].lease.envelope.id)
    leases = [_fence(settlements[at]) for at in order]
    found = {order[number - 1]: _Locked(*row) for number, *row in tx.ask("settle", leases=leases).rows()}
    fates = {at: _fate(settlements[at], found[at]) for at in order if at in found}
    keyed = {at: each for at in sorted(fates) if (each := found[at].keyed(settlements[at])) is not None}
    ended = [holds.Ended(each, confirmed=settlements[at].move == "ack") for at, each in keyed.items()]
    ending = holds.Ending(tx, ended) if ended else None
    _write(tx, settlements, found, fates)
    for at, fate in fates.items():
        _follow_up(tx, settlements[at], fate.to)
    if ending is not None:  # last: no job is stored or locked once keys are
        ending.end(
            (_waiter(settlements[at], found[at]), each)
            for at, each in keyed.items()
            if _waits(settlements[at], fates[at])
        )
    return {at: applied(fate.to) for at, fate in fates.items()}


def _waits(settlement: Settlement, fate: _Fate) -> bool:
    return fate.to is State.SCHEDULED and settlement.move == "snooze" and settlement.waits > 0


def _waiter(settlement: Settlement, found: _Locked) -> holds.Waiter:
    envelope = settlement.lease.envelope
    return holds.Waiter(found.rank, _due(settlement, found), envelope.id, envelope.queue)


def _due(settlement: Settlement, found: _Locked) -> int:
    return found.now + round(settlement.delay * SECOND)


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

    def keyed(self, settlement: Settlement) -> holds.Keyed | None:
        if self.idempotency_key is None and self.single_instance is None:
            return None
        keys = self.idempotency_key, self.idempotency_ttl, self.single_instance
        return holds.Keyed(settlement.lease.envelope.id, settlement.lease.token, *keys)


class _Fate(NamedTuple):
    to: State
    reason: str | None


class _Results:
    """The results of a batch, end to end."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, result: bytes | None) -> tuple[int, int] | tuple[()]:
        """Where it lies; nothing if there is none."""
        if result is None:
            return ()
        place = self._length + 1, len(result)  # SQL counts from one
        self._parts.append(result)
        self._length += len(result)
        return place

    def joined(self) -> bytes:
        return b"".join(self._parts)


def _are_plain(owner: str, settlements: Sequence[Settlement]) -> bool:
    """Whether nothing but a lost lease can keep them from being completed, each and all."""
    return len({each.lease.envelope.id for each in settlements}) == len(settlements) and all(
        each.move == "ack"
        and each.reason is None
        and each.failure is None
        and each.lease.hold is Hold.FREE
        and each.lease.owner == owner
        for each in settlements
    )


def _answers(tx: Transaction, owner: str, settlements: Sequence[Settlement]) -> list[Settled]:
    # The same lease twice: the second is answered by the evidence of the first.
    first = {(each.lease.envelope.id, each.lease.token): at for at, each in reversed(list(enumerate(settlements)))}
    asked = {at: settlements[at] for at in first.values() if settlements[at].lease.owner == owner}
    answers = settle(tx, asked) if asked else {}
    if missing := [at for at in range(len(settlements)) if at not in answers]:
        evidence = classify(tx, [settlements[at] for at in missing])
        answers |= dict(zip(missing, evidence, strict=True))
    return [answers[at] for at in range(len(settlements))]


def _fate(settlement: Settlement, found: _Locked) -> _Fate:
    """The fate table of the contract."""
    move, reason = settlement.move, because(settlement)
    if move == "ack":
        return _Fate(State.COMPLETED, reason)
    if found.cancel_reason is not None:
        return _Fate(State.CANCELLED, reason if move == "cancelled" else found.cancel_reason)
    if move == "crashed":
        poison = found.crashes + 1 >= found.max_crashes
        return _Fate(
            State.DISCARDED if poison else State.RETRYABLE, f"crashed {counted(found.crashes + 1, 'time')}: {reason}"
        )
    return _Fate(TARGETS[move], reason)


def _write(
    tx: Transaction, settlements: Mapping[int, Settlement], found: Mapping[int, _Locked], fates: Mapping[int, _Fate]
) -> None:
    runs = [_run(settlements[at], found[at], fate.to) for at, fate in fates.items() if on_record(settlements[at])]
    if runs:
        tx.ask("record_runs", runs=runs)
    results = _Results()
    finished = [_finished(settlements[at], fate, results) for at, fate in fates.items() if fate.to in FINISHED]
    if finished:
        tx.ask("finish", leases=finished, results=results.joined())
        tx.ended += len(finished)
    back = [_put_back(settlements[at], found[at], fate.to) for at, fate in fates.items() if fate.to not in FINISHED]
    if back:
        tx.ask("put_back", leases=back)


def _run(settlement: Settlement, found: _Locked, to: State) -> Row:
    failure = on_record(settlement)
    assert failure is not None
    lease = settlement.lease
    return (
        *(lease.envelope.id, lease.token, found.now, settlement.duration_ms, found.attempts + 1, settlement.move, to),
        *(failure.kind, failure.message, failure.traceback),
    )


def _finished(settlement: Settlement, fate: _Fate, results: _Results) -> Row:
    move = settlement.move
    counters = int(settlement.ran), int(move == "crashed"), int(move == "release"), int(settlement.keep)
    place = (results.add(settlement.result) if settlement.keep else ()) or (None, None)
    return (*_fence(settlement), fate.to, *counters, *place, fate.reason)


def _put_back(settlement: Settlement, found: _Locked, to: State) -> Row:
    attempts, crashes, interruptions = found.attempts + settlement.ran, found.crashes, found.interruptions
    available_at, waits, parked, spent = found.available_at, found.waits, found.parked_since, found.spent
    if settlement.move == "release":  # it keeps its place
        interruptions += 1
    elif settlement.move == "crashed":
        crashes += 1
        available_at = found.now + crash_pause(crashes)
    else:  # due later, and waiting is counted anew
        available_at = _due(settlement, found)
        waits, spent = settlement.waits, settlement.spent if settlement.spent is not None else spent
        parked = (found.now if parked is None else parked) if settlement.move == "park" else None
    place = found.rank if to is State.AVAILABLE else 0
    counters = attempts, crashes, interruptions, waits, int(waits > 0 and parked is None)
    return (*_fence(settlement), to, place, available_at, *counters, parked, spent)


def _follow_up(tx: Transaction, settlement: Settlement, to: State) -> None:
    if settlement.dead_letter is not None and to is State.DISCARDED:
        enqueueing.enqueue(tx, [settlement.dead_letter])
    if to in _COMES_BACK and (settlement.delay <= 0 or settlement.move == "release"):
        tx.wakes.add(settlement.lease.envelope.queue)


def _fence(settlement: Settlement) -> tuple[str, int, str]:
    return settlement.lease.envelope.id, settlement.lease.token, settlement.lease.owner
