"""Storing envelopes: all at once where no key can be held, in rounds where one may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from onward.backend import Enqueued
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.transaction import Transaction
from onward.backends.postgres.wake import named
from onward.backends.sql.enqueueing import StartOver, due_queues, existing, first_of_each
from onward.backends.sql.statements import NamedSteps, ask
from onward.contract.transactions import Rows
from onward.errors import BackendUnavailable
from onward.job.envelope import Envelope

__all__ = ["answer", "columns", "created", "enqueue", "joining", "key_numbers", "rivalry", "store"]

_TRIES = 20  # how often a key may get another holder while this transaction asks for it


def columns(envelopes: Sequence[Envelope]) -> dict[str, list[Any]]:
    """Return the parameters of `enqueue`, made without a connection.  A column that all jobs leave out is left out."""
    return {
        "queues": [each.queue for each in envelopes],
        "jobs": [each.job for each in envelopes],
        "max_crashes": [each.max_crashes for each in envelopes],
        "unique_keys": _unless_all(None, [each.unique_key for each in envelopes]),
        **_columns_of_new(envelopes),
    }


def _columns_of_new(envelopes: Sequence[Envelope]) -> dict[str, list[Any]]:
    """Return the parameters of `enqueue_new`, where the other columns are the same for all."""
    keys = _unless_all(None, [each.idempotency_key for each in envelopes])
    return {
        "ids": [each.id for each in envelopes],
        "sealed": [each.data for each in envelopes],
        "enqueued_at": [each.enqueued_at for each in envelopes],
        "priorities": _unless_all(0, [each.priority for each in envelopes]),
        "delays": _unless_all(0, [each.delay for each in envelopes]),
        "not_before": _unless_all(None, [each.not_before for each in envelopes]),
        "expires_at": _unless_all(None, [each.expires_at for each in envelopes]),
        "idempotency_keys": keys,
        "idempotency_ttls": [0 if each.idempotency_key is None else each.idempotency_ttl for each in envelopes]
        if keys
        else [],
        "single_instances": _unless_all(None, [each.single_instance for each in envelopes]),
        "lanes": _unless_all(None, [each.lane for each in envelopes]),
        "costs": _unless_all(None, [each.cost for each in envelopes]),
    }


def store(tx: Transaction, envelopes: Sequence[Envelope]) -> Rows:
    """Store envelopes of different ids and without unique keys."""
    with suppress(psycopg.errors.UniqueViolation):  # one of them is already stored
        first = envelopes[0]
        if len(envelopes) == 1 and not first.delay and first.not_before is None:
            return _stored_alone(tx, first)
        if len({(each.queue, each.job, each.max_crashes) for each in envelopes}) == 1:
            common = {"queue": first.queue, "job": first.job, "max_crashes": first.max_crashes}
            return tx.ask("enqueue_new", **common, **_columns_of_new(envelopes)).rows()
    return tx.ask("enqueue", **columns(envelopes)).rows()


def _stored_alone(tx: Transaction, envelope: Envelope) -> Rows:
    once = envelope.idempotency_key
    stored = tx.ask(
        "enqueue_one",
        id=envelope.id,
        queue=envelope.queue,
        rank=-envelope.priority,
        expires_at=envelope.expires_at,
        max_crashes=envelope.max_crashes,
        enqueued_at=envelope.enqueued_at,
        idempotency_key=once,
        idempotency_ttl=0 if once is None else envelope.idempotency_ttl,
        single_instance=envelope.single_instance,
        lane=envelope.lane,
        cost=envelope.cost,
        job=envelope.job,
        sealed=envelope.data,
    )
    return [(None, stored.value())]


def answer(rows: Rows, envelopes: Sequence[Envelope]) -> tuple[list[Envelope], bool]:
    """Return which of them were not stored, and whether an idle worker has to be notified of the others."""
    ((stored, is_waited_for),) = rows
    if stored is None:
        return [], is_waited_for
    ids = set(stored)
    return [envelope for envelope in envelopes if envelope.id not in ids], is_waited_for


def created(envelopes: Sequence[Envelope], rejected: Iterable[Envelope]) -> list[Enqueued]:
    """Return the answers where every envelope that was not stored is live already."""
    live = {envelope.id for envelope in rejected}
    return [existing(each.id) if each.id in live else Enqueued(each.id) for each in envelopes]


def rivalry(unique_keys: Iterable[str | None]) -> list[int]:
    """Return the locks to take before jobs with several of these keys are stored.

    Two batches with the same keys could each hold what the other one waits for.  A batch with a single key holds nothing
    while it waits.
    """
    numbers = key_numbers(unique_keys)
    return numbers if len(numbers) > 1 else []


def key_numbers(unique_keys: Iterable[str | None]) -> list[int]:
    """Return the numbers of these keys, in the order in which they are locked."""
    return sorted({_number(key) for key in unique_keys if key is not None})


def _number(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), signed=True)


def enqueue(tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
    """Store envelopes in their order; return which live job stands for one that is not stored."""
    answers, _ = tx.run_steps(_storing(envelopes, retried=retried))
    tx.wakes |= due_queues(_new(envelopes, answers))
    return answers


def joining(envelopes: Sequence[Envelope]) -> NamedSteps[list[Enqueued]]:
    """Store envelopes within a caller's transaction.  Its commit, which Onward does not see, notifies idle workers."""
    answers, is_waited_for = yield from _storing(envelopes, may_wait=True)
    if is_waited_for and (queues := due_queues(_new(envelopes, answers))):
        yield from ask("wake", queues=named(queues))
    return answers


def _new(envelopes: Sequence[Envelope], answers: Sequence[Enqueued]) -> Iterable[Envelope]:
    return (each for each, answer in zip(envelopes, answers, strict=True) if answer.created)


def _storing(
    envelopes: Sequence[Envelope], *, retried: bool = False, may_wait: bool = False
) -> NamedSteps[tuple[list[Enqueued], bool]]:
    """Answer each, and whether to notify idle workers.  ``may_wait``: for locks, because it cannot be run again."""
    answers: dict[int, Enqueued] = {}
    waiting = dict(enumerate(envelopes))
    is_waited_for = False
    if rivals := rivalry(each.unique_key for each in envelopes):
        yield from ask("lock_unique_keys", numbers=rivals)
    while waiting:
        batch = {at: waiting.pop(at) for at in first_of_each(waiting)}
        stored, waits = yield from (_repeated(batch) if retried else _round(batch, may_wait=may_wait))
        answers |= stored
        is_waited_for |= waits
    return [answers[at] for at in range(len(envelopes))], is_waited_for


def _repeated(batch: dict[int, Envelope]) -> NamedSteps[tuple[dict[int, Enqueued], bool]]:
    """Store envelopes that an earlier try may have stored: then they may be among the finished."""
    done = yield from _finished(batch.values())
    answers = {at: existing(each.id) for at, each in batch.items() if each.id in done}
    stored, is_waited_for = yield from _round({at: each for at, each in batch.items() if at not in answers})
    if (yield from _finished(batch[at] for at, answer in stored.items() if answer.created)):
        raise StartOver  # it finished between the look and the insert: the next look will see it
    return answers | stored, is_waited_for


def _round(batch: dict[int, Envelope], *, may_wait: bool = False) -> NamedSteps[tuple[dict[int, Enqueued], bool]]:
    """Store envelopes of different ids and keys."""
    answers: dict[int, Enqueued] = {}
    is_waited_for = False
    for _ in range(_TRIES):
        if not batch:
            return answers, is_waited_for
        envelopes = list(batch.values())
        rows = yield from ask("enqueue", **columns(envelopes))
        rejected, is_waited_for = answer(rows, envelopes)
        taken = {each.id for each in rejected}
        answers |= {at: Enqueued(each.id) for at, each in batch.items() if each.id not in taken}
        batch = {at: each for at, each in batch.items() if each.id in taken}
        if batch:
            answers |= (found := (yield from _in_the_way(batch, may_wait=may_wait)))
            batch = {at: each for at, each in batch.items() if at not in found}
    raise BackendUnavailable("a unique key changed its holder 20 times during this call: try again")


def _in_the_way(batch: dict[int, Envelope], *, may_wait: bool) -> NamedSteps[dict[int, Enqueued]]:
    """Return which live jobs stand for these; free the keys that the others replace."""
    live = {job_id for (job_id,) in (yield from ask("live_among", ids=[each.id for each in batch.values()]))}
    answers = {at: existing(each.id) for at, each in batch.items() if each.id in live}
    keyed = {each.unique_key: (at, each) for at, each in batch.items() if each.id not in live}
    replaced = []
    for key, holder in (yield from ask("key_holders", keys=list(keyed))) if keyed else ():
        at, envelope = keyed[key]
        if envelope.unique_strategy == "ignore_new":
            answers[at] = Enqueued(envelope.id, created=False, existing_id=holder)
        else:
            replaced.append((holder, key))
    if replaced:
        ids, keys = map(list, zip(*sorted(replaced), strict=True))
        wait = may_wait or len(ids) == 1
        locked = yield from ask("lock_key_holders" if wait else "try_key_holders", ids=ids, keys=keys)
        if not wait and len(locked) < len(ids):
            raise StartOver  # only turns wait for one lock while they hold another: they may need the one held here
        reasons = [f"replaced by {keyed[key][1].id}" for key, _ in locked]
        if locked:
            yield from ask("cancel", ids=[holder for _, holder in locked], reasons=reasons, replaced=True)
    return answers


def _finished(envelopes: Iterable[Envelope]) -> NamedSteps[set[str]]:
    ids = [envelope.id for envelope in envelopes]
    return {job_id for (job_id,) in (yield from ask("finished_among", ids=ids))} if ids else set()


def _unless_all(usual: object, values: list[Any]) -> list[Any]:
    return [] if values.count(usual) == len(values) else values
