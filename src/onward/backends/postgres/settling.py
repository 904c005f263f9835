"""Ending leases by their settlements, and evidence for those that match no lease.

The statement `settle` repeats `onward.job.settlement.fate` in SQL, so that a batch is one exchange; `complete` and `nack`
do so for what is plain, which nearly all is.  This module sends them and reads their answers.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from onward.backend import Held
from onward.backends.postgres import enqueueing, holds
from onward.backends.postgres.transaction import Reply, Row, Transaction
from onward.backends.postgres.wake import EVERY_QUEUE
from onward.backends.sql.enqueueing import StartOver
from onward.backends.sql.flows import touch
from onward.backends.sql.limits import change_gate
from onward.backends.sql.notes import write_snoozed
from onward.backends.sql.settling import FenceMismatch
from onward.backends.sql.turns import released
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.job.lease import Hold
from onward.job.settlement import Settled, Settlement, applied, because, crash_pause, is_due_at_once, judge, on_record
from onward.job.states import TARGETS, State

__all__ = ["Settling", "classify", "columns", "failures", "written"]

_FREE = Hold.FREE  # looked up once, not for every settlement
# The pause before a crashed job is due again, by how often it crashed; the last one is the longest.
_PAUSES = [crash_pause(crashes) for crashes in range(1, 13)]


class Settling:
    """The settlements of a turn: sent together, and their answers read when needed."""

    def __init__(
        self,
        tx: Transaction,
        owner: str,
        settlements: Sequence[Settlement],
        *,
        claimed: Sequence[str] = (),
        careful: bool = False,
    ) -> None:
        """Send the settlements.  ``claimed``: the queues that are claimed from next.

        ``careful``: a lease may be lost, or a job of the same id may have finished before.
        """
        self._tx = tx
        self._settlements = settlements
        self._answers: list[Settled] | None = None
        self.promoted = 0  # how many are to be tried again at once, and can be claimed now
        self._completed = [] if careful else _plain_successes(settlements, owner)
        self._completing: Reply | None = None
        self._members = bool(self._completed) and settlements[self._completed[0]].lease.member
        if self._completed:
            done = [settlements[at] for at in self._completed]
            tokens = [each.lease.token for each in done]
            statement = "complete_members" if self._members else "complete"
            self._completing = tx.ask(statement, owner=owner, ids=_ids(done), tokens=tokens, keep=done[0].keep)
        self._failed: Sequence[int] = ()
        self._failing: Reply | None = None
        self._asked: Sequence[int] = ()
        self._reply: Reply | None = None
        if len(self._completed) < len(settlements):
            self._failed = [] if careful else _plain_failures(settlements, owner)
            self._asked = _others(settlements, owner, {*self._completed, *self._failed})
        if failed := [settlements[at] for at in self._failed]:
            self._failing = tx.ask("nack", owner=owner, **{**failures(failed), "claimed": list(claimed)})
        if asked := [settlements[at] for at in self._asked]:
            self._reply = tx.ask("settle", owner=owner, **{**columns(asked), "claimed": list(claimed)})

    @property
    def is_plain(self) -> bool:
        """Whether the turn can claim before it reads the answers to its settlements."""
        return len(self._completed) == len(self._settlements) or all(
            each.dead_letter is None and each.lease.hold is _FREE and each.move != "release" and each.gate is None
            for each in self._settlements
        )

    @property
    def certain(self) -> Sequence[Settlement]:
        """The settlements that end their leases if this turn is committed, as far as that is known."""
        if self._answers is not None:
            return [each for each, answer in zip(self._settlements, self._answers, strict=True) if answer.applied]
        return [self._settlements[at] for at in self._completed]

    @property
    def released(self) -> list[str]:
        """The ids of the jobs that this turn has given back."""
        return [] if self._answers is None else released(self._settlements, self._answers)

    @property
    def ended(self) -> set[Held]:
        """The leases that this turn has ended."""
        pairs = zip(self._settlements, self._answers or (), strict=False)
        return {(each.lease.envelope.id, each.lease.token) for each, answer in pairs if answer.applied}

    def answer(self) -> list[Settled]:
        """Return the answer to each settlement, and finish what follows from them: dead letters, keys, waiters."""
        if self._answers is None:
            self._answers = self._answered()
        return self._answers

    def _answered(self) -> list[Settled]:
        if self._completing is not None and self._count_completed(self._completing) < len(self._completed):
            raise FenceMismatch
        if len(self._completed) == len(self._settlements):
            return [_COMPLETED] * len(self._settlements)
        answers = dict.fromkeys(self._completed, _COMPLETED) | self._put_back() | self._settled()
        if missing := [at for at in range(len(self._settlements)) if at not in answers]:
            evidence = classify(self._tx, [self._settlements[at] for at in missing])
            answers |= dict(zip(missing, evidence, strict=True))
        return [answers[at] for at in range(len(self._settlements))]

    def _count_completed(self, reply: Reply) -> int:
        if not self._members:
            count: int = reply.value()
            return count
        ended = reply.rows()
        touch(self._tx.touched, ((flow, node) for flow, node, _ in ended))
        return sum(count for _, _, count in ended)

    def _put_back(self) -> dict[int, Settled]:
        """Return the answers to plain failures."""
        if self._failing is None:
            return {}
        ((count, at_once),) = self._failing.rows()
        if count < len(self._failed):
            raise FenceMismatch
        self.promoted += at_once
        for at in self._failed:
            self._follow_up(self._settlements[at], _RETRYABLE)
        return dict.fromkeys(self._failed, _RETRYABLE)

    def _settled(self) -> dict[int, Settled]:
        answers: dict[int, Settled] = {}
        ended: dict[int, holds.Ended] = {}
        for number, to, at_once, once, ttl, single, *place in written(self._reply) if self._reply is not None else ():
            touch(self._tx.touched, [place])
            at = self._asked[number - 1]
            self.promoted += at_once
            answers[at] = _APPLIED[to]
            if once is not None or single is not None:
                lease, move = self._settlements[at].lease, self._settlements[at].move
                ended[at] = holds.Ended(holds.Keyed(lease.envelope.id, lease.token, once, ttl, single), move == "ack")
        for at, answer in answers.items():
            if answer.state is not State.COMPLETED:
                self._follow_up(self._settlements[at], answer)
        _write_snoozed(self._tx, self._settlements, answers)
        self._change_gates([self._settlements[at] for at in answers])
        if ended:  # last: no job is stored or locked once keys are
            holds.end(self._tx, [ended[at] for at in sorted(ended)])
        return answers

    def _change_gates(self, settlements: Sequence[Settlement]) -> None:
        changes = sorted(each.gate for each in settlements if each.gate is not None)
        if changes:  # in the order of their lanes: so two turns that change the same ones cannot deadlock
            now = self._tx.ask("clock").value()
            for change in changes:
                change_gate(self._tx, change, now)
            self._tx.wakes.add(EVERY_QUEUE)

    def _follow_up(self, settlement: Settlement, answer: Settled) -> None:
        if settlement.dead_letter is not None and answer.state is State.DISCARDED:
            enqueueing.enqueue(self._tx, [settlement.dead_letter])
        if is_due_at_once(settlement, answer.state):
            self._tx.wakes.add(settlement.lease.envelope.queue)


_APPLIED = {str(state): applied(state) for state in State}
_COMPLETED, _RETRYABLE = _APPLIED[State.COMPLETED], _APPLIED[State.RETRYABLE]


def _write_snoozed(tx: Transaction, settlements: Sequence[Settlement], answers: Mapping[int, Settled]) -> None:
    snoozed = {at: settlements[at] for at, answer in answers.items() if answer.state is State.SCHEDULED}
    write_snoozed(tx, {each.lease.envelope.id: each for each in snoozed.values()})


def _plain_successes(settlements: Sequence[Settlement], owner: str) -> Sequence[int]:
    """Return the places of plain successes of this owner, all members or none, with the same `keep` as the first of them."""
    found = [
        at
        for at, each in enumerate(settlements)
        if each.move == "ack"
        and each.lease.owner == owner
        and each.result is None
        and each.failure is None
        and each.reason is None
        and each.lease.hold is _FREE
        and each.gate is None
    ]
    if found:
        first = settlements[found[0]]
        found = [
            at
            for at in found
            if settlements[at].keep is first.keep and settlements[at].lease.member is first.lease.member
        ]
    # The same lease twice: the evidence of the first answers the second.
    return found if len(set(_ids(settlements))) == len(settlements) else []


def _plain_failures(settlements: Sequence[Settlement], owner: str) -> Sequence[int]:
    """Return the places of this owner's failures that are retried with nothing else to tell, in the order of their ids."""
    found = [
        at
        for at, each in enumerate(settlements)
        if each.move == "nack"
        and each.lease.owner == owner
        and each.ran
        and each.spent is None
        and each.waits == 0
        and each.lease.hold is _FREE
        and each.gate is None
    ]
    # The same lease twice: as above.  The order: as below.
    if not found or len(set(_ids(settlements))) < len(settlements):
        return []
    return sorted(found, key=lambda at: settlements[at].lease.envelope.id)


def _others(settlements: Sequence[Settlement], owner: str, completed: Container[int]) -> list[int]:
    """Return the places of the settlements for the statement `settle`."""
    # The same lease twice: see above.
    first = {(each.lease.envelope.id, each.lease.token): at for at, each in reversed(list(enumerate(settlements)))}
    # In the order of the ids: two transactions that lock the same rows cannot deadlock.
    return sorted(
        (at for at in first.values() if settlements[at].lease.owner == owner and at not in completed),
        key=lambda at: settlements[at].lease.envelope.id,
    )


def written(reply: Reply) -> list[Row]:
    """Return the rows of leases that `settle` has ended.  Starts the transaction over if not all of them were written."""
    rows = reply.rows()
    if rows and rows[0][-1] != len(rows):
        raise StartOver
    return [row[:-1] for row in rows]


def classify(tx: Transaction, settlements: Sequence[Settlement]) -> list[Settled]:
    """Answer settlements whose fence matches nothing by evidence: the record first, then the finished job."""
    ids = [each.lease.envelope.id for each in settlements]
    rows = tx.ask("evidence", ids=ids, tokens=[each.lease.token for each in settlements]).rows()
    evidence = {number - 1: row for number, *row in rows}
    return [judge(settlement, *evidence[at]) for at, settlement in enumerate(settlements)]


def failures(settlements: Sequence[Settlement]) -> dict[str, list[Any]]:
    """Return the parameters of `nack`."""
    return {
        "ids": _ids(settlements),
        "tokens": [each.lease.token for each in settlements],
        "delays": [round(each.delay * SECOND) for each in settlements],
        **_run_records(settlements, [on_record(each) for each in settlements]),
    }


def _run_records(settlements: Sequence[Settlement], failures: Sequence[Failure | None]) -> dict[str, list[Any]]:
    """Return the columns of what goes on record."""
    return {
        "kinds": [failure and failure.kind for failure in failures],
        "messages": [failure and failure.message for failure in failures],
        "tracebacks": [failure and failure.traceback for failure in failures],
        "fingerprints": [None if failure is None else failure.fingerprint for failure in failures],
        "workers": [None if each.by is None else each.by.encoded() for each in settlements],
        "durations": [each.duration_ms for each in settlements],
    }


def columns(settlements: Sequence[Settlement]) -> dict[str, Any]:
    """Return the parameters of `settle`.  Columns that no settlement of the batch uses are left out."""
    successes = all(each.move == "ack" and each.failure is None for each in settlements)
    told = [] if successes else settlements
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
        **_run_records(told, [on_record(each) for each in told]),
        "awaits": _if_any([each.awaits for each in settlements]),
        "pauses": _PAUSES,
        "claimed": [],
    }


def _ids(settlements: Sequence[Settlement]) -> list[str]:
    return [each.lease.envelope.id for each in settlements]


def _if_any(values: list[Any]) -> list[Any]:
    return [] if all(value is None for value in values) else values
