"""Storing envelopes: all at once where no key is asked for, one by one where one may be in the way.

In a transaction of our own, or in somebody else's.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Hashable, Sequence
from operator import attrgetter

from onward.backend import Enqueued
from onward.backends.sql.steps import Ask, Asks
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = ["Taken", "add_new", "cancel_waiting", "enqueue", "is_one_statement", "joining"]

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
    tx.wakes = tx.wakes or any(_due(envelope, tx.now) <= tx.now for envelope in envelopes)
    return [tx.hold(_adding(envelope, tx.now, retried=retried)) for envelope in envelopes]


def joining(envelopes: Sequence[Envelope], now: int) -> Asks[list[Enqueued]]:
    """The same within somebody else's transaction."""
    answers: dict[int, Enqueued] = {}
    batches: defaultdict[Hashable, _Batch] = defaultdict(_Batch)
    for at, envelope in enumerate(envelopes):
        if envelope.unique_key is None:
            batches[_kind(envelope)].add(envelope)
        else:
            answers[at] = yield from _adding(envelope, now)
    stored: set[str] = set()
    for batch in batches.values():
        rows = yield Ask("enqueue_alike_or_not", batch.parameters(now))
        stored.update(job_id for (job_id,) in rows)
    for at, envelope in enumerate(envelopes):
        if envelope.unique_key is None:
            # An id that is named twice is stored once.
            answers[at] = Enqueued(envelope.id) if envelope.id in stored else _existing(envelope.id)
            stored.discard(envelope.id)
    return [answers[at] for at in range(len(envelopes))]


def add_new(tx: Transaction, envelopes: Sequence[Envelope]) -> list[Enqueued]:
    """Store envelopes without unique keys, all at once.  Raises `Taken` if one is there already."""
    if len(envelopes) == 1:
        tx.wakes = tx.wakes or _due(envelopes[0], tx.now) <= tx.now
        if not tx.run("enqueue", _row(envelopes[0], tx.now)):
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

    def parameters(self, now: int) -> Row:
        assert self._one is not None
        return (*_columns(self._one, now), as_json(self._envelopes), b"".join(self._sealed))

    def store(self, tx: Transaction) -> None:
        assert self._one is not None
        tx.wakes = tx.wakes or _due(self._one, tx.now) <= tx.now
        try:
            stored = tx.run("enqueue_alike", self.parameters(tx.now))
        except sqlite3.IntegrityError:
            raise Taken from None
        if stored != len(self._sealed):  # an id was named twice
            raise Taken


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
    return (*_columns(envelope, now), envelope.id, envelope.enqueued_at, envelope.unique_key, envelope.data)


def _adding(envelope: Envelope, now: int, *, retried: bool = False) -> Asks[Enqueued]:
    # Under the write lock, looking among the finished first is as good as taking back what was there already.
    if retried and (yield Ask("is_finished", (envelope.id,)))[0][0]:
        return _existing(envelope.id)
    row = _row(envelope, now)
    if (yield Ask("enqueue_or_not", row)):
        return Enqueued(envelope.id)
    if (yield Ask("is_live", (envelope.id,)))[0][0]:
        return _existing(envelope.id)
    # There are no other constraints to conflict with, and the lock is ours.
    ((rowid, holder_id, state),) = yield Ask("key_holder", (envelope.unique_key,))
    if envelope.unique_strategy == "ignore_new":
        return Enqueued(envelope.id, created=False, existing_id=holder_id)
    reason = f"replaced by {envelope.id}"
    if state == State.EXECUTING:
        yield Ask("take_key_away", (rowid, reason))
    else:
        listed = as_json([rowid])
        yield Ask("cancel_waiting", (listed, now, reason))
        yield Ask("forget_waiting", (listed,))
    yield Ask("enqueue_or_not", row)
    return Enqueued(envelope.id)


def _existing(job_id: str) -> Enqueued:
    return Enqueued(job_id, created=False, existing_id=job_id)
