"""Storing envelopes: all at once where no key is used, one by one where one may be held.

In a transaction of the backend, or in a caller's.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Hashable, Sequence
from functools import partial
from operator import attrgetter

from onward.backend import AWAITS_NODE, Enqueued, never_due
from onward.backends.sql.flow_members import PLAIN, count_added, place_of, store_flows
from onward.backends.sql.flows import FlowSteps, Touched, touch
from onward.backends.sql.statements import Named, NamedSteps, ask
from onward.backends.sqlite.transaction import Row, Transaction, Transactions, as_json
from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = ["cancel_waiting", "enqueue", "joining", "store"]

_LARGEST = 16 * 1024 * 1024  # bytes in one parameter
_FEW = 100

# The fields that jobs enqueued together usually have in common.
_kind = attrgetter(
    "queue",
    "priority",
    "delay",
    "not_before",
    "expires_at",
    "max_crashes",
    "idempotency_key",
    "idempotency_ttl",
    "single_instance",
    "job",
)


class _Taken(Exception):
    """An id of the batch is already stored: roll back, and enqueue the batch one by one."""


def store(transactions: Transactions, envelopes: Sequence[Envelope], *, retried: bool) -> list[Enqueued]:
    """Store envelopes in their order; return which live job stands for one that is not stored."""
    first, is_one = envelopes[0], len(envelopes) == 1
    if not retried and (
        first.unique_key is None and first.flow is None if is_one else not any(map(_has_key_or_flow, envelopes))
    ):
        try:
            if is_one:
                transactions.alone(partial(_store_one, first))
                return [Enqueued(first.id)]
            _store_new(transactions, envelopes)
        except _Taken:
            pass  # nothing of it was stored
        else:
            return [Enqueued(envelope.id) for envelope in envelopes]
    with transactions.writing() as tx:
        return enqueue(tx, envelopes, retried=retried)


def _store_new(transactions: Transactions, envelopes: Sequence[Envelope]) -> None:
    """Store envelopes without unique keys, all of them or none.  Raises `_Taken` if an id is already stored."""
    writes = [batch.store for batch in _alike(envelopes)]
    # Beginning and ending a transaction are two more statements at which the driver releases the interpreter's lock: where
    # many threads enqueue, waiting to get it back costs more than the disk does.
    if len(writes) == 1 and len(envelopes) <= _FEW:
        transactions.alone(writes[0])
        return
    with transactions.writing() as tx:
        for write in writes:
            write(tx)


def _store_one(envelope: Envelope, tx: Transaction) -> None:
    row = _row(envelope, tx.now)
    tx.wakes = row[1] == State.AVAILABLE
    if not tx.run("enqueue", row):
        raise _Taken


def _has_key_or_flow(envelope: Envelope) -> bool:
    return envelope.unique_key is not None or envelope.flow is not None


def _alike(envelopes: Sequence[Envelope]) -> Sequence[_Batch]:
    """Return batches of envelopes that differ only in ids and bytes, as many as fit into one parameter."""
    full: list[_Batch] = []
    batches: defaultdict[Hashable, _Batch] = defaultdict(_Batch)
    for envelope in envelopes:
        kind = _kind(envelope)
        batches[kind].add(envelope)
        if batches[kind].length > _LARGEST:
            full.append(batches.pop(kind))
    return [*full, *batches.values()]


def enqueue(tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
    """Store envelopes in their order within a transaction, one by one."""
    tx.wakes = tx.wakes or any(_due(envelope, tx.now) <= tx.now for envelope in envelopes)
    members = [envelope for envelope in envelopes if envelope.flow is not None]
    added = iter(tx.run_steps(_add_members(members, tx.now, tx.touched, retried=retried)) if members else ())
    return [
        tx.run_steps(_adding(envelope, tx.now, tx.touched, retried=retried)) if envelope.flow is None else next(added)
        for envelope in envelopes
    ]


def joining(envelopes: Sequence[Envelope], now: int, flows: FlowSteps) -> NamedSteps[list[Enqueued]]:
    """Store envelopes within a caller's transaction."""
    answers: dict[int, Enqueued] = {}
    batches: defaultdict[Hashable, _Batch] = defaultdict(_Batch)
    touched: Touched = set()
    members = [(at, envelope) for at, envelope in enumerate(envelopes) if envelope.flow is not None]
    if members:
        added = yield from _add_members([envelope for _, envelope in members], now, touched)
        answers |= {at: answer for (at, _), answer in zip(members, added, strict=True)}
    for at, envelope in enumerate(envelopes):
        if at in answers:
            continue
        if envelope.unique_key is None:
            batches[_kind(envelope)].add(envelope)
        else:
            answers[at] = yield from _adding(envelope, now, touched)
    stored: set[str] = set()
    for batch in batches.values():
        rows = yield Named("enqueue_alike_or_not", batch.parameters(now))
        stored.update(job_id for (job_id,) in rows)
    if touched:
        yield from flows.looking(touched)
    return [answers.get(at) or _answer(envelope, stored) for at, envelope in enumerate(envelopes)]


def _answer(envelope: Envelope, stored: set[str]) -> Enqueued:
    """Return the answer for one of a batch; an id that the batch names twice is stored once."""
    answer = Enqueued(envelope.id) if envelope.id in stored else _existing(envelope.id)
    stored.discard(envelope.id)
    return answer


def cancel_waiting(tx: Transaction, rowids: Sequence[int], reason: str) -> int:
    """Move waiting jobs to the finished, as cancelled."""
    jobs = list(rowids)
    tx.ask("cancel_waiting", jobs=jobs, reason=reason)
    gone = tx.ask("forget_waiting", jobs=jobs).rows()
    touch(tx.touched, gone)
    return len(gone)


class _Batch:
    """Envelopes of one kind, stored by one statement."""

    __slots__ = ("_envelopes", "_laned", "_one", "_sealed", "length")

    def __init__(self) -> None:
        self._one: Envelope | None = None
        self._envelopes: dict[str, tuple[object, ...]] = {}  # see the statement
        self._sealed: list[bytes] = []
        self._laned = 0
        self.length = 0

    def add(self, envelope: Envelope) -> None:
        sealed = envelope.data
        self._one = envelope
        place = envelope.enqueued_at, self.length + 1, len(sealed)  # SQL counts from one
        if envelope.lane is None and envelope.cost is None:
            self._envelopes[envelope.id] = place
        else:
            self._envelopes[envelope.id] = (*place, envelope.lane, envelope.cost)
            self._laned = 1
        self._sealed.append(sealed)
        self.length += len(sealed)

    def parameters(self, now: int) -> Row:
        assert self._one is not None
        return self._with(_columns(self._one, now))

    def of_members(self, now: int, *, waits: bool, retried: bool) -> Row:
        one = self._one
        assert one is not None
        awaits = AWAITS_NODE if waits else None
        return (*self._with(_columns_of_member(one, now, waits=waits)), one.flow, one.node, awaits, int(retried))

    def _with(self, columns: Row) -> Row:
        return (*columns, as_json(self._envelopes), b"".join(self._sealed), self._laned)

    def store(self, tx: Transaction) -> None:
        assert self._one is not None
        if len(self._envelopes) != len(self._sealed):  # an id was named twice
            raise _Taken
        tx.wakes = tx.wakes or _due(self._one, tx.now) <= tx.now
        try:
            tx.run("enqueue_alike", self.parameters(tx.now))
        except sqlite3.IntegrityError:
            raise _Taken from None


def _due(envelope: Envelope, now: int) -> int:
    due = now + envelope.delay
    return due if envelope.not_before is None or envelope.not_before <= due else envelope.not_before


def _columns(envelope: Envelope, now: int) -> Row:
    due = _due(envelope, now)
    state = "available" if due <= now else "scheduled"
    return (
        envelope.queue,
        state,
        -envelope.priority,
        due,
        envelope.expires_at,
        envelope.max_crashes,
        envelope.idempotency_key,
        envelope.idempotency_ttl,
        envelope.single_instance,
        envelope.job,
    )


def _columns_of_member(envelope: Envelope, now: int, *, waits: bool) -> Row:
    queue, state, rank, due, *others = _columns(envelope, now)
    return (queue, "scheduled", rank, never_due(envelope), *others) if waits else (queue, state, rank, due, *others)


def _row(envelope: Envelope, now: int) -> Row:
    return (
        *_columns(envelope, now),
        envelope.id,
        envelope.enqueued_at,
        envelope.unique_key,
        envelope.lane,
        envelope.cost,
        envelope.data,
    )


def _adding(
    envelope: Envelope, now: int, touched: Touched, *, retried: bool = False, waits: bool = False
) -> NamedSteps[Enqueued]:
    # Under the write lock it is safe to look among the finished first.
    if retried and (yield Named("is_finished", (envelope.id,)))[0][0]:
        return _existing(envelope.id)
    row = _row(envelope, now)
    insert = Named("enqueue_or_not", row)
    if envelope.flow is not None:
        columns = _columns_of_member(envelope, now, waits=waits)
        place = envelope.flow, envelope.node, AWAITS_NODE if waits else None
        insert = Named("enqueue_member", (*columns, *row[len(columns) :], *place))
    if (yield insert):
        return Enqueued(envelope.id)
    if (yield Named("is_live", (envelope.id,)))[0][0]:
        return _existing(envelope.id)
    # No other constraint can conflict, and this process has the lock.
    ((rowid, holder_id, state),) = yield Named("key_holder", (envelope.unique_key,))
    if envelope.unique_strategy == "ignore_new":
        return Enqueued(envelope.id, created=False, existing_id=holder_id)
    reason = f"replaced by {envelope.id}"
    if state == State.EXECUTING:
        yield Named("take_key_away", (rowid, reason))
    else:
        yield from ask("cancel_waiting", jobs=[rowid], reason=reason)
        touch(touched, (yield from ask("forget_waiting", jobs=[rowid])))
    yield insert
    return Enqueued(envelope.id)


def _existing(job_id: str) -> Enqueued:
    return Enqueued(job_id, created=False, existing_id=job_id)


# Members of flows.


def _add_members(
    envelopes: Sequence[Envelope], now: int, touched: Touched, *, retried: bool = False
) -> NamedSteps[list[Enqueued]]:
    """Store members of flows, and the flows that come with them."""
    standing = yield from store_flows(envelopes, touched)
    batches: defaultdict[Hashable, _Batch] = defaultdict(_Batch)
    waits: dict[Hashable, bool] = {}
    answers: dict[int, Enqueued] = {}
    for at, envelope in enumerate(envelopes):
        place = place_of(envelope)
        waiting = standing.get(place, PLAIN).waits
        if envelope.unique_key is None:
            kind = place, _kind(envelope)
            batches[kind].add(envelope)
            waits[kind] = waiting
        else:
            answers[at] = yield from _adding(envelope, now, touched, retried=retried, waits=waiting)
    stored: set[str] = set()
    for each, batch in batches.items():
        rows = yield Named("enqueue_members", batch.of_members(now, waits=waits[each], retried=retried))
        stored.update(job_id for (job_id,) in rows)
    told = [answers.get(at) or _answer(envelope, stored) for at, envelope in enumerate(envelopes)]
    yield from count_added(envelopes, told, standing, touched)
    return told
