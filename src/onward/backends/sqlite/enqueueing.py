"""Storing envelopes: all at once where no key is asked for, in order where one may be in the way."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Enqueued
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.envelope import Envelope
from onward.states import State

__all__ = ["Taken", "cancel_waiting", "enqueue"]


class Taken(Exception):
    """Some id of the batch is there already: the transaction must be undone, and the batch stored one by one."""


def enqueue(
    tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool = False, one_by_one: bool = False
) -> list[Enqueued]:
    """Store them, or say which live job stands for each.

    All at once where nothing is expected to be in the way; it raises `Taken` if something is.
    """
    one_by_one = one_by_one or retried or len(envelopes) == 1
    if one_by_one or any(envelope.unique_key is not None for envelope in envelopes):
        return [_add(tx, envelope, retried=retried) for envelope in envelopes]
    return _all_new(tx, envelopes)


def cancel_waiting(tx: Transaction, rowids: Sequence[int], reason: str) -> int:
    """Move waiting jobs among the finished."""
    listed = as_json(rowids)
    cancelled = tx.run("cancel_waiting", (listed, tx.now, reason))
    tx.run("forget_waiting", (listed,))
    return cancelled


def _all_new(tx: Transaction, envelopes: Sequence[Envelope]) -> list[Enqueued]:
    if tx.run_many("enqueue", [_columns(tx, envelope) for envelope in envelopes]) != len(envelopes):
        raise Taken
    return [Enqueued(envelope.id) for envelope in envelopes]


def _columns(tx: Transaction, envelope: Envelope) -> Row:
    due = tx.now + envelope.delay
    if envelope.not_before is not None and envelope.not_before > due:
        due = envelope.not_before
    state = "scheduled"
    if due <= tx.now:
        state = "available"
        tx.wakes = True
    return (
        envelope.id,
        envelope.queue,
        state,
        -envelope.priority,
        due,
        envelope.expires_at,
        envelope.max_crashes,
        envelope.enqueued_at,
        envelope.unique_key,
        envelope.idempotency_key,
        envelope.idempotency_ttl,
        envelope.single_instance,
        envelope.job,
        envelope.data,
    )


def _add(tx: Transaction, envelope: Envelope, *, retried: bool) -> Enqueued:
    # Under the write lock, looking among the finished first is as good as taking back what was there already.
    if retried and tx.value("is_finished", (envelope.id,)):
        return _existing(envelope.id)
    columns = _columns(tx, envelope)
    if tx.run("enqueue", columns):
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
    tx.run("enqueue", columns)
    return Enqueued(envelope.id)


def _existing(job_id: str) -> Enqueued:
    return Enqueued(job_id, created=False, existing_id=job_id)
