"""Storing envelopes: all at once where no key is used, one by one where one may be held.

In a transaction of the backend, or in a caller's.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Hashable, Sequence
from functools import partial
from operator import attrgetter

from onward.backend import Enqueued
from onward.backends.sql.statements import Named, NamedSteps
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
    if not retried and all(envelope.unique_key is None for envelope in envelopes):
        try:
            _store_new(transactions, envelopes)
        except _Taken:
            pass  # nothing of it was stored
        else:
            return [Enqueued(envelope.id) for envelope in envelopes]
    with transactions.writing() as tx:
        return enqueue(tx, envelopes, retried=retried)


def _store_new(transactions: Transactions, envelopes: Sequence[Envelope]) -> None:
    """Store envelopes without unique keys, all of them or none.  Raises `_Taken` if an id is already stored."""
    one = len(envelopes) == 1
    writes = [partial(_store_one, envelopes[0])] if one else [batch.store for batch in _alike(envelopes)]
    # Beginning and ending a transaction are two more statements at which the driver releases the interpreter's lock: where
    # many threads enqueue, waiting to get it back costs more than the disk does.
    if len(writes) == 1 and len(envelopes) <= _FEW:
        transactions.alone(writes[0])
        return
    with transactions.writing() as tx:
        for write in writes:
            write(tx)


def _store_one(envelope: Envelope, tx: Transaction) -> None:
    tx.wakes = tx.wakes or _due(envelope, tx.now) <= tx.now
    if not tx.run("enqueue", _row(envelope, tx.now)):
        raise _Taken


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
    return [tx.run_steps(_adding(envelope, tx.now, retried=retried)) for envelope in envelopes]


def joining(envelopes: Sequence[Envelope], now: int) -> NamedSteps[list[Enqueued]]:
    """Store envelopes within a caller's transaction."""
    answers: dict[int, Enqueued] = {}
    batches: defaultdict[Hashable, _Batch] = defaultdict(_Batch)
    for at, envelope in enumerate(envelopes):
        if envelope.unique_key is None:
            batches[_kind(envelope)].add(envelope)
        else:
            answers[at] = yield from _adding(envelope, now)
    stored: set[str] = set()
    for batch in batches.values():
        rows = yield Named("enqueue_alike_or_not", batch.parameters(now))
        stored.update(job_id for (job_id,) in rows)
    for at, envelope in enumerate(envelopes):
        if envelope.unique_key is None:
            # An id that the batch names twice is stored once.
            answers[at] = Enqueued(envelope.id) if envelope.id in stored else _existing(envelope.id)
            stored.discard(envelope.id)
    return [answers[at] for at in range(len(envelopes))]


def cancel_waiting(tx: Transaction, rowids: Sequence[int], reason: str) -> int:
    """Move waiting jobs to the finished, as cancelled."""
    listed = as_json(rowids)
    cancelled = tx.run("cancel_waiting", (listed, tx.now, reason))
    tx.run("forget_waiting", (listed,))
    return cancelled


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
        return (*_columns(self._one, now), as_json(self._envelopes), b"".join(self._sealed), self._laned)

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


def _adding(envelope: Envelope, now: int, *, retried: bool = False) -> NamedSteps[Enqueued]:
    # Under the write lock it is safe to look among the finished first.
    if retried and (yield Named("is_finished", (envelope.id,)))[0][0]:
        return _existing(envelope.id)
    row = _row(envelope, now)
    if (yield Named("enqueue_or_not", row)):
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
        listed = as_json([rowid])
        yield Named("cancel_waiting", (listed, now, reason))
        yield Named("forget_waiting", (listed,))
    yield Named("enqueue_or_not", row)
    return Enqueued(envelope.id)


def _existing(job_id: str) -> Enqueued:
    return Enqueued(job_id, created=False, existing_id=job_id)
