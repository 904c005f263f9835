"""Ending leases by their settlements, and evidence for those that match no lease.

The fate table of the contract is the statement `settle`; here it is asked, and its answers are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.backend import Held
from onward.backends.postgres import enqueueing, holds
from onward.backends.postgres.transaction import Reply, Row, Transaction
from onward.backends.sql.enqueueing import StartOver
from onward.backends.sql.settling import because, judge, on_record
from onward.clock import SECOND
from onward.lease import (
    Hold,
    Settled,
    Settlement,
    applied,
    crash_pause,
)
from onward.states import TARGETS, State

__all__ = ["Settling", "classify", "columns", "written"]

# Before a crashed job is due again, by how often it crashed; the last one is the longest.
_PAUSES = [crash_pause(crashes) for crashes in range(1, 13)]


class Settling:
    """The settlements of a turn: asked for at once, answered when the answers are needed."""

    def __init__(self, tx: Transaction, owner: str, settlements: Sequence[Settlement]) -> None:
        self._tx = tx
        self._settlements = settlements
        self._answers: list[Settled] | None = None
        self._asked: Sequence[int]
        self._reply: Reply | None = None
        ids = _ids(settlements)
        self._all_successes = _are_plain_successes(settlements, owner) and len(set(ids)) == len(ids)
        if self._all_successes:
            self._asked = range(len(settlements))
            tokens = [each.lease.token for each in settlements]
            self._reply = tx.ask("complete", owner=owner, ids=ids, tokens=tokens, keep=settlements[0].keep)
            return
        # The same lease twice: the second is answered by the evidence of the first.
        first = {(each.lease.envelope.id, each.lease.token): at for at, each in reversed(list(enumerate(settlements)))}
        # In the order of the ids: two who lock the same rows do not wait for each other.
        self._asked = sorted(
            (at for at in first.values() if settlements[at].lease.owner == owner),
            key=lambda at: settlements[at].lease.envelope.id,
        )
        if asked := [settlements[at] for at in self._asked]:
            self._reply = tx.ask("settle", owner=owner, **columns(asked))

    @property
    def is_plain(self) -> bool:
        """Whether nothing has to be known or done between settling and claiming."""
        return self._all_successes or all(
            each.dead_letter is None and each.lease.hold is Hold.FREE and each.move != "release"
            for each in self._settlements
        )

    @property
    def released(self) -> list[str]:
        """The ids that were given back just now."""
        pairs = zip(self._settlements, self._answers or (), strict=False)
        return [each.lease.envelope.id for each, answer in pairs if each.move == "release" and answer.applied]

    @property
    def ended(self) -> set[Held]:
        """The leases that this turn has ended."""
        pairs = zip(self._settlements, self._answers or (), strict=False)
        return {(each.lease.envelope.id, each.lease.token) for each, answer in pairs if answer.applied}

    def answer(self) -> list[Settled]:
        """One for each; whatever a settlement brings about besides is done."""
        if self._answers is None:
            self._answers = self._answered()
        return self._answers

    def _answered(self) -> list[Settled]:
        answers = self._completed() if self._all_successes else self._settled()
        if missing := [at for at in range(len(self._settlements)) if at not in answers]:
            evidence = classify(self._tx, [self._settlements[at] for at in missing])
            answers |= dict(zip(missing, evidence, strict=True))
        return [answers[at] for at in range(len(self._settlements))]

    def _completed(self) -> dict[int, Settled]:
        assert self._reply is not None
        ((ids, tokens),) = self._reply.rows()
        if ids is None:
            return dict.fromkeys(self._asked, _COMPLETED)
        done = set(zip(ids, tokens, strict=True))
        leases = ((at, self._settlements[at].lease) for at in self._asked)
        return {at: _COMPLETED for at, lease in leases if (lease.envelope.id, lease.token) in done}

    def _settled(self) -> dict[int, Settled]:
        answers: dict[int, Settled] = {}
        ended: dict[int, holds.Ended] = {}
        for number, to, once, ttl, single in written(self._reply) if self._reply is not None else ():
            at = self._asked[number - 1]
            answers[at] = _APPLIED[to]
            if once is not None or single is not None:
                lease, move = self._settlements[at].lease, self._settlements[at].move
                ended[at] = holds.Ended(holds.Keyed(lease.envelope.id, lease.token, once, ttl, single), move == "ack")
        if ended:
            holds.end(self._tx, [ended[at] for at in sorted(ended)])
        for at, answer in answers.items():
            if answer.state is not State.COMPLETED:
                self._follow_up(self._settlements[at], answer)
        return answers

    def _follow_up(self, settlement: Settlement, answer: Settled) -> None:
        if settlement.dead_letter is not None and answer.state is State.DISCARDED:
            enqueueing.enqueue(self._tx, [settlement.dead_letter])
        if answer.state in _COMES_BACK and (settlement.delay <= 0 or settlement.move == "release"):
            self._tx.wakes.add(settlement.lease.envelope.queue)


# In these it may be due at once, and then somebody should know.
_COMES_BACK = {State.AVAILABLE, State.RETRYABLE, State.SCHEDULED}
_APPLIED = {str(state): applied(state) for state in State}
_COMPLETED = _APPLIED[State.COMPLETED]


def _are_plain_successes(settlements: Sequence[Settlement], owner: str) -> bool:
    """Whether all of them say nothing but that the owner's job is done, and all keep it or none."""
    return bool(settlements) and all(
        each.move == "ack"
        and each.lease.owner == owner
        and each.result is None
        and each.failure is None
        and each.reason is None
        and each.lease.hold is Hold.FREE
        and each.keep is settlements[0].keep
        for each in settlements
    )


def written(reply: Reply) -> list[Row]:
    """The leases that `settle` has ended.  Nothing is answered that was not written: then the transaction starts over."""
    rows = reply.rows()
    if rows and rows[0][-1] != len(rows):
        raise StartOver
    return [row[:-1] for row in rows]


def classify(tx: Transaction, settlements: Sequence[Settlement]) -> list[Settled]:
    """What became of settlements whose fence matches nothing: the record first, then the finished job."""
    ids = [each.lease.envelope.id for each in settlements]
    rows = tx.ask("evidence", ids=ids, tokens=[each.lease.token for each in settlements]).rows()
    evidence = {number - 1: row for number, *row in rows}
    return [judge(settlement, *evidence[at]) for at, settlement in enumerate(settlements)]


def columns(settlements: Sequence[Settlement]) -> dict[str, Any]:
    """The parameters of `settle`.  Successes are nearly all there is: for them, most of it is left out."""
    successes = all(each.move == "ack" and each.failure is None for each in settlements)
    failures = [] if successes else [on_record(each) for each in settlements]
    return {
        "ids": _ids(settlements),
        "tokens": [each.lease.token for each in settlements],
        "owners": [],
        "moves": [] if successes else [each.move for each in settlements],
        "targets": [] if successes else [str(TARGETS[each.move]) for each in settlements],
        "ran": [] if successes else [each.ran for each in settlements],
        "keep": [] if all(each.keep for each in settlements) else [each.keep for each in settlements],
        "results": _if_any([each.result for each in settlements]),
        "reasons": _if_any([because(each) for each in settlements]),
        "delays": [] if successes else [round(each.delay * SECOND) for each in settlements],
        "waits": [] if successes else [each.waits for each in settlements],
        "spents": _if_any([each.spent for each in settlements]),
        "kinds": [failure and failure.kind for failure in failures],
        "messages": [failure and failure.message for failure in failures],
        "tracebacks": [failure and failure.traceback for failure in failures],
        "durations": [] if successes else [each.duration_ms for each in settlements],
        "pauses": _PAUSES,
    }


def _ids(settlements: Sequence[Settlement]) -> list[str]:
    return [each.lease.envelope.id for each in settlements]


def _if_any(values: list[Any]) -> list[Any]:
    return [] if all(value is None for value in values) else values
