"""Storing envelopes: all at once where no key is asked for, one by one where one may be in the way."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Hashable, Sequence
from operator import attrgetter

from onward.backend import Enqueued
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.envelope import Envelope
from onward.states import State

__all__ = ["Taken", "add_new", "cancel_waiting", "enqueue", "is_one_statement"]

_LARGEST = 16 * 1024 * 1024  # bytes in one parameter
_FEW = 100

# What jobs that are enqueued together have in common, as a rule.
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


class Taken(Exception):
    """Some id of the batch is there already: what was written must be undone, and the batch enqueued one by one."""


def enqueue(tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
    """Store them in their order, or say which live job stands for each."""
    return [_add(tx, envelope, retried=retried) for envelope in envelopes]


def add_new(tx: Transaction, envelopes: Sequence[Envelope]) -> list[Enqueued]:
    """Store envelopes without unique keys, all at once.  Raises `Taken` if one is there already."""
    if len(envelopes) == 1:
        if not tx.run("enqueue", _row(tx, envelopes[0])):
            raise Taken
        return [Enqueued(envelopes[0].id)]
    batches: defaultdict[Hashable, _Batch] = defaultdict(_Batch)
    for envelope in envelopes:
        kind = _kind(envelope)
        batches[kind].add(envelope)
        if batches[kind].length > _LARGEST:
            batches.pop(kind).store(tx)
    for batch in batches.values():
        batch.store(tx)
    return [Enqueued(envelope.id) for envelope in envelopes]


def is_one_statement(envelopes: Sequence[Envelope]) -> bool:
    """Whether `add_new` writes these, all or none, with one statement."""
    count = len(envelopes)
    return count == 1 or (
        count <= _FEW
        and len(set(map(_kind, envelopes))) == 1
        and len({envelope.id for envelope in envelopes}) == count
        and sum(len(envelope.data) for envelope in envelopes) <= _LARGEST
    )


def cancel_waiting(tx: Transaction, rowids: Sequence[int], reason: str) -> int:
    """Move waiting jobs among the finished."""
    listed = as_json(rowids)
    cancelled = tx.run("cancel_waiting", (listed, tx.now, reason))
    tx.run("forget_waiting", (listed,))
    return cancelled


class _Batch:
    """Envelopes of one kind, stored by one statement."""

    __slots__ = ("_envelopes", "_one", "_sealed", "length")

    def __init__(self) -> None:
        self._one: Envelope | None = None
        self._envelopes: dict[str, tuple[int, int, int]] = {}  # see the statement
        self._sealed: list[bytes] = []
        self.length = 0

    def add(self, envelope: Envelope) -> None:
        sealed = envelope.data
        self._one = envelope
        self._envelopes[envelope.id] = envelope.enqueued_at, self.length + 1, len(sealed)  # SQL counts from one
        self._sealed.append(sealed)
        self.length += len(sealed)

    def store(self, tx: Transaction) -> None:
        assert self._one is not None
        columns = _columns(tx, self._one)
        try:
            stored = tx.run("enqueue_alike", (*columns, as_json(self._envelopes), b"".join(self._sealed)))
        except sqlite3.IntegrityError:
            raise Taken from None
        if stored != len(self._sealed):  # an id was named twice
            raise Taken


def _columns(tx: Transaction, envelope: Envelope) -> Row:
    due = tx.now + envelope.delay
    if envelope.not_before is not None and envelope.not_before > due:
        due = envelope.not_before
    state = "scheduled"
    if due <= tx.now:
        state = "available"
        tx.wakes = True
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


def _row(tx: Transaction, envelope: Envelope) -> Row:
    return (*_columns(tx, envelope), envelope.id, envelope.enqueued_at, envelope.unique_key, envelope.data)


def _add(tx: Transaction, envelope: Envelope, *, retried: bool) -> Enqueued:
    # Under the write lock, looking among the finished first is as good as taking back what was there already.
    if retried and tx.value("is_finished", (envelope.id,)):
        return _existing(envelope.id)
    row = _row(tx, envelope)
    if tx.run("enqueue", row):
        return Enqueued(envelope.id)
    if tx.value("is_live", (envelope.id,)):
        return _existing(envelope.id)
    holder = tx.row("key_holder", (envelope.unique_key,))
    assert holder is not None  # there are no other constraints to conflict with, and the lock is ours
    rowid, holder_id, state = holder
    if envelope.unique_strategy == "ignore_new":
        return Enqueued(envelope.id, created=False, existing_id=holder_id)
    reason = f"replaced by {envelope.id}"
    if state == State.EXECUTING:
        tx.run("take_key_away", {"rowid": rowid, "reason": reason})
    else:
        cancel_waiting(tx, [rowid], reason)
    tx.run("enqueue", row)
    return Enqueued(envelope.id)


def _existing(job_id: str) -> Enqueued:
    return Enqueued(job_id, created=False, existing_id=job_id)
