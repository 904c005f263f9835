"""Storing envelopes: all at once where no key can be held, in rounds where one may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from onward.backend import Enqueued, never_due
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.transaction import Reply, Transaction
from onward.backends.postgres.wake import named
from onward.backends.sql.enqueueing import StartOver, due_queues, existing, first_of_each
from onward.backends.sql.flow_members import PLAIN, NodePlace, Standing, count_added, place_of, store_flows
from onward.backends.sql.flows import Looked, Touched, touch
from onward.backends.sql.statements import NamedSteps, ask
from onward.contract.transactions import Rows
from onward.errors import BackendUnavailable
from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = [
    "answer",
    "columns",
    "created",
    "enqueue",
    "joining",
    "key_numbers",
    "rivalry",
    "store",
    "storing",
    "touch_cancelled",
]

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
        return storing(tx, envelopes)()
    return tx.ask("enqueue", **columns(envelopes)).rows()


def storing(tx: Transaction, envelopes: Sequence[Envelope]) -> Callable[[], Rows]:
    """Send the statement that stores such envelopes, of which none is expected to be there; return what reads its answer.

    It fails if one is there after all, unless each has a queue and a job of its own.
    """
    first = envelopes[0]
    if len(envelopes) == 1 and not first.delay and first.not_before is None:
        stored = _store_alone(tx, first)
        return lambda: [(None, stored.value())]
    if len({(each.queue, each.job, each.max_crashes) for each in envelopes}) == 1:
        common = {"queue": first.queue, "job": first.job, "max_crashes": first.max_crashes}
        return tx.ask("enqueue_new", **common, **_columns_of_new(envelopes)).rows
    return tx.ask("enqueue", **columns(envelopes)).rows


def _store_alone(tx: Transaction, envelope: Envelope) -> Reply:
    once = envelope.idempotency_key
    every = {
        "id": envelope.id,
        "queue": envelope.queue,
        "rank": -envelope.priority,
        "max_crashes": envelope.max_crashes,
        "enqueued_at": envelope.enqueued_at,
        "job": envelope.job,
        "sealed": envelope.data,
    }
    others = {
        "expires_at": envelope.expires_at,
        "idempotency_key": once,
        "single_instance": envelope.single_instance,
        "lane": envelope.lane,
        "cost": envelope.cost,
    }
    if all(value is None for value in others.values()):
        return tx.ask("enqueue_plain", **every)
    ttl = 0 if once is None else envelope.idempotency_ttl
    return tx.ask("enqueue_one", **every, **others, idempotency_ttl=ttl)


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
    if not live:
        return [Enqueued(each.id) for each in envelopes]
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
    storing = _Storing(tx.touched)
    answers = tx.run_steps(storing.store(envelopes, retried=retried))
    tx.wakes |= due_queues(storing.due(envelopes, answers))
    return answers


LookJoined = Callable[[Touched], NamedSteps[Looked]]


def joining(envelopes: Sequence[Envelope], look: LookJoined) -> NamedSteps[list[Enqueued]]:
    """Store envelopes within a caller's transaction.  Its commit, which Onward does not see, notifies idle workers."""
    storing = _Storing(set(), may_wait=True)
    answers = yield from storing.store(envelopes)
    queues = due_queues(storing.due(envelopes, answers))
    if storing.touched:
        looked = yield from look(storing.touched)
        queues.update(job.queue for job in looked.opened)
    if storing.is_waited_for and queues:
        yield from ask("wake", queues=named(queues))
    return answers


class _Storing:
    """Storing envelopes in one transaction."""

    def __init__(self, touched: Touched, *, may_wait: bool = False) -> None:
        """``may_wait``: for locks, because it cannot be run again."""
        self.touched = touched
        self.is_waited_for = False  # whether to notify idle workers
        self._may_wait = may_wait
        self._standing: dict[NodePlace, Standing] = {}

    def store(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> NamedSteps[list[Enqueued]]:
        """Answer each."""
        answers: dict[int, Enqueued] = {}
        waiting = dict(enumerate(envelopes))
        members = {at: each for at, each in waiting.items() if each.flow is not None}
        if members:
            self._standing = yield from store_flows([*members.values()], self.touched)
        if rivals := rivalry(each.unique_key for each in envelopes):
            yield from ask("lock_unique_keys", numbers=rivals)
        while waiting:
            batch = {at: waiting.pop(at) for at in first_of_each(waiting)}
            answers |= yield from (self._repeated(batch) if retried else self._round(batch))
        if members:
            told = [answers[at] for at in members]
            yield from count_added([*members.values()], told, self._standing, self.touched)
        return [answers[at] for at in range(len(envelopes))]

    def due(self, envelopes: Sequence[Envelope], answers: Sequence[Enqueued]) -> Iterable[Envelope]:
        """Return those that were stored and do not wait for their node."""
        pairs = zip(envelopes, answers, strict=True)
        return (each for each, answer in pairs if answer.created and not self._waits(each))

    def _waits(self, envelope: Envelope) -> bool:
        return envelope.flow is not None and self._standing.get(place_of(envelope), PLAIN).waits

    def _repeated(self, batch: dict[int, Envelope]) -> NamedSteps[dict[int, Enqueued]]:
        """Store envelopes that an earlier try may have stored: then they may be among the finished."""
        done = yield from _finished(batch.values())
        answers = {at: existing(each.id) for at, each in batch.items() if each.id in done}
        stored = yield from self._round({at: each for at, each in batch.items() if at not in answers})
        if (yield from _finished(batch[at] for at, answer in stored.items() if answer.created)):
            raise StartOver  # it finished between the look and the insert: the next look will see it
        return answers | stored

    def _round(self, batch: dict[int, Envelope]) -> NamedSteps[dict[int, Enqueued]]:
        """Store envelopes of different ids and keys."""
        answers: dict[int, Enqueued] = {}
        for _ in range(_TRIES):
            if not batch:
                return answers
            envelopes = list(batch.values())
            rejected, is_waited_for = answer((yield from self._insert(envelopes)), envelopes)
            self.is_waited_for |= is_waited_for
            taken = {each.id for each in rejected}
            answers |= {at: Enqueued(each.id) for at, each in batch.items() if each.id not in taken}
            batch = {at: each for at, each in batch.items() if each.id in taken}
            if batch:
                answers |= (found := (yield from self._in_the_way(batch)))
                batch = {at: each for at, each in batch.items() if at not in found}
        raise BackendUnavailable("a unique key changed its holder 20 times during this call: try again")

    def _insert(self, envelopes: Sequence[Envelope]) -> NamedSteps[Rows]:
        if all(each.flow is None for each in envelopes):
            return (yield from ask("enqueue", **columns(envelopes)))
        places = {
            "flows": [each.flow for each in envelopes],
            "nodes": [each.node for each in envelopes],
            "never_due": [never_due(each) if self._waits(each) else None for each in envelopes],
        }
        return (yield from ask("enqueue_members", **columns(envelopes), **places))

    def _in_the_way(self, batch: dict[int, Envelope]) -> NamedSteps[dict[int, Enqueued]]:
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
            wait = self._may_wait or len(ids) == 1
            locked = yield from ask("lock_key_holders" if wait else "try_key_holders", ids=ids, keys=keys)
            if not wait and len(locked) < len(ids):
                raise StartOver  # only turns wait for one lock while they hold another: they may need the one held here
            reasons = [f"replaced by {keyed[key][1].id}" for key, _ in locked]
            if locked:
                holders = [holder for _, holder in locked]
                gone = yield from ask("cancel", ids=holders, reasons=reasons, replaced=True, alone=False)
                touch_cancelled(self.touched, gone)
        return answers


def touch_cancelled(touched: Touched, gone: Rows) -> None:
    """Note the nodes of members that waited, and are cancelled, from rows of `cancel`."""
    touch(touched, ((flow, node) for _, state, flow, node in gone if state != State.EXECUTING))


def _finished(envelopes: Iterable[Envelope]) -> NamedSteps[set[str]]:
    ids = [envelope.id for envelope in envelopes]
    return {job_id for (job_id,) in (yield from ask("finished_among", ids=ids))} if ids else set()


def _unless_all(usual: object, values: list[Any]) -> list[Any]:
    return [] if values.count(usual) == len(values) else values
