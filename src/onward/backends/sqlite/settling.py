"""Ending leases by their settlements: the fate table of the contract, and evidence for those that match no lease."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.sql.settling import FenceMismatch
from onward.backends.sqlite import enqueueing, holds, notes
from onward.backends.sqlite.settlement_writes import Moves
from onward.backends.sqlite.transaction import Transaction
from onward.job.lease import Lease
from onward.job.settlement import Leased, Settled, Settlement, applied, is_due_at_once, judge
from onward.job.states import State

__all__ = ["classify", "released", "settle"]


Asked = dict[tuple[str, int], str]  # the leases that were asked to cancel, and why

_COMPLETED = applied(State.COMPLETED)


def settle(
    tx: Transaction,
    owner: str,
    settlements: Sequence[Settlement],
    *,
    any_asked: bool,
    any_keyed: bool,
    one_by_one: bool,
) -> list[Settled]:
    """Apply those whose fence holds and say what the evidence says of the others.

    All at once, and `FenceMismatch` is raised if not every fence holds; or ``one_by_one``.  ``any_asked``, ``any_keyed``:
    whether any lease of this session was asked to cancel, or carries keys.
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
    notes.wake(tx, [each.lease.envelope.id for each in settlements if each.awaits is not None])
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
    """The ids that were given back just now."""
    pairs = zip(settlements, answers, strict=True)
    return frozenset(each.lease.envelope.id for each, answer in pairs if each.move == "release" and answer.applied)


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
    # Successes are nearly all there is: they are gathered at one go, and not asked for their `fate`, which nothing can turn.
    acks = [each for each in settlements if each.move == "ack"]
    moves.complete(owner, acks, at=tx.now)
    for each in acks:
        if each.failure is not None:
            fence = (each.lease.envelope.id, each.lease.token, owner)
            failure, took = each.failure, each.duration_ms
            moves.record_run(fence, "ack", State.COMPLETED, failure, at=tx.now, duration_ms=took)
    return [
        _COMPLETED if each.move == "ack" else applied(_planned(moves, tx, owner, each, asked)) for each in settlements
    ]


def _planned(moves: Moves, tx: Transaction, owner: str, settlement: Settlement, asked: Asked) -> State:
    lease = settlement.lease
    crashes, max_crashes = 0, 1
    if settlement.move == "crashed":
        # If there is no such lease, whatever is planned matches nothing.
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
