"""Storing envelopes: all at once where no key can be held, in rounds where one may be.

An insert that finds an id or a key taken fails as a whole.  So the transaction looks for taken ids and keys first; one that
is taken in between makes it start over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from onward.backend import Enqueued, never_due
from onward.backends.mysql.literals import Literal, literal
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.enqueueing import StartOver, due_queues, existing, first_of_each
from onward.backends.sql.flow_members import PLAIN, NodePlace, Standing, count_added, place_of, store_flows
from onward.backends.sql.flows import touch
from onward.job.envelope import Envelope
from onward.job.states import State, state_named

__all__ = ["Standings", "cancel", "columns", "columns_of_members", "end_waiting", "enqueue", "portions", "store"]

_FEW = 100  # jobs that are written out as rows
_ROW = 1_000  # bytes that a job without a key or a lane takes beside its sealed ones, at most


Standings = dict[NodePlace, Standing]  # how each node stands; one that is missing has no flow


def store(tx: Transaction, envelopes: Sequence[Envelope], standings: Standings | None = None) -> None:
    """Send the statements that store envelopes whose ids and keys are free."""
    if standings is not None:
        members = [envelope for envelope in envelopes if envelope.flow is not None]
        envelopes = [envelope for envelope in envelopes if envelope.flow is None]
        for portion in portions(members, tx.room) if members else ():
            tx.ask("enqueue_members", **columns_of_members(portion, standings))
    if not envelopes:
        return
    if len(envelopes) <= _FEW and all(map(_is_plain, envelopes)):
        for portion in portions(envelopes, tx.room):
            tx.ask("enqueue_few", rows=_rows(portion, tx.clock))
    elif len(envelopes) == 1 and _is_due(envelopes[0]):
        _store_one(tx, envelopes[0])
    else:
        for portion in portions(envelopes, tx.room):
            tx.ask("enqueue", **columns(portion))


def _is_due(envelope: Envelope) -> bool:
    return envelope.delay <= 0 and envelope.not_before is None


def _is_plain(envelope: Envelope) -> bool:
    """Return whether it is due, and needs no other columns than every job."""
    return (
        _is_due(envelope)
        and envelope.unique_key is None
        and envelope.expires_at is None
        and envelope.idempotency_key is None
        and envelope.single_instance is None
        and envelope.lane is None
        and envelope.cost is None
    )


def _rows(envelopes: Sequence[Envelope], clock: bytes) -> Literal:
    """Return the rows of `enqueue_few`, written already."""
    return Literal(
        b",".join(
            b"(%b,%b,'available',%d,%b,%d,%d,%b,%b)"
            % (
                literal(each.id),
                literal(each.queue),
                -each.priority,
                clock,
                each.max_crashes,
                each.enqueued_at,
                literal(each.job),
                literal(each.data),
            )
            for each in envelopes
        )
    )


def columns(envelopes: Sequence[Envelope]) -> dict[str, Any]:
    """Return the parameters of `enqueue`."""
    start, rows = 1, []  # SQL counts from one
    for envelope in envelopes:
        length = len(envelope.data)
        rows.append(_row(envelope, start, length))
        start += length
    return {"envelopes": rows, "sealed": b"".join(envelope.data for envelope in envelopes)}


def columns_of_members(envelopes: Sequence[Envelope], standings: Standings) -> dict[str, Any]:
    """Return the parameters of `enqueue_members`."""
    start, rows, members = 1, [], []
    for envelope in envelopes:
        place, length = place_of(envelope), len(envelope.data)
        never = never_due(envelope) if standings.get(place, PLAIN).waits else None
        rows.append((*_whole_row(envelope, start, length), *place, never))
        members.append((*place, envelope.id))
        start += length
    return {"envelopes": rows, "members": members, "sealed": b"".join(envelope.data for envelope in envelopes)}


def _store_one(tx: Transaction, envelope: Envelope) -> None:
    once = envelope.idempotency_key
    tx.ask(
        "enqueue_one",
        id=envelope.id,
        queue=envelope.queue,
        rank=-envelope.priority,
        max_crashes=envelope.max_crashes,
        enqueued_at=envelope.enqueued_at,
        job=envelope.job,
        sealed=envelope.data,
        expires_at=envelope.expires_at,
        unique_key=envelope.unique_key,
        idempotency_key=once,
        idempotency_ttl=0 if once is None else envelope.idempotency_ttl,
        single_instance=envelope.single_instance,
        lane=envelope.lane,
        cost=envelope.cost,
    )


def portions(envelopes: Sequence[Envelope], room: int) -> Iterator[Sequence[Envelope]]:
    """Yield the envelopes of each statement: as many statements as the server's limit makes necessary, mostly one."""
    portion: list[Envelope] = []
    size = 0
    for envelope in envelopes:
        takes = 2 * len(envelope.data) + 8 * len(envelope.lane or "") + _ROW  # if every byte had to be doubled
        if portion and size + takes > room:
            yield portion
            portion, size = [], 0
        portion.append(envelope)
        size += takes
    yield portion


def _row(envelope: Envelope, start: int, length: int) -> tuple[object, ...]:
    """Return a row of `enqueue`.  Most rows leave the last columns at their defaults."""
    row = _whole_row(envelope, start, length)
    return row[:_FIRST_DEFAULT] if row[_FIRST_DEFAULT:] == _PLAIN else row


def _whole_row(envelope: Envelope, start: int, length: int) -> tuple[object, ...]:
    once = envelope.idempotency_key
    return (
        envelope.id,
        envelope.queue,
        envelope.job,
        envelope.enqueued_at,
        envelope.max_crashes,
        start,
        length,
        envelope.priority,
        envelope.delay,
        envelope.not_before,
        envelope.expires_at,
        envelope.unique_key,
        once,
        0 if once is None else envelope.idempotency_ttl,
        envelope.single_instance,
        envelope.lane,
        envelope.cost,
    )


_FIRST_DEFAULT = 7
_PLAIN = (0, 0, None, None, None, None, 0, None, None, None)


def enqueue(tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
    """Store envelopes in their order; return which live job stands for one that is not stored."""
    members = [envelope for envelope in envelopes if envelope.flow is not None]
    standings = None
    if members:
        standings = tx.run_steps(store_flows(members, tx.touched))
        if not retried:
            _forget_finished(tx, members)
    answers: dict[int, Enqueued] = {}
    waiting = dict(enumerate(envelopes))
    while waiting:
        batch = {at: waiting.pop(at) for at in first_of_each(waiting)}
        answers |= _repeated(tx, batch, standings) if retried else _round(tx, batch, standings)
    told = [answers[at] for at in range(len(envelopes))]
    if standings is not None:
        tx.run_steps(count_added(envelopes, told, standings, tx.touched))
    tx.wakes |= due_queues(each for each, answer in zip(envelopes, told, strict=True) if answer.created)
    return told


def _forget_finished(tx: Transaction, members: Sequence[Envelope]) -> None:
    """Remove members whose ids are enqueued anew from those that have ended."""
    done = _finished(tx, members)
    if done:
        tx.ask("forget_members", gone=[(*place_of(each), each.id) for each in members if each.id in done])


def _repeated(tx: Transaction, batch: dict[int, Envelope], standings: Standings | None) -> dict[int, Enqueued]:
    """Store envelopes that an earlier try may have stored: then they may be among the finished."""
    done = _finished(tx, batch.values())
    answers = {at: existing(each.id) for at, each in batch.items() if each.id in done}
    stored = _round(tx, {at: each for at, each in batch.items() if at not in answers}, standings)
    if _finished(tx, (batch[at] for at, answer in stored.items() if answer.created)):
        raise StartOver  # it finished between the look and the insert: the next look will see it
    return answers | stored


def _round(tx: Transaction, batch: dict[int, Envelope], standings: Standings | None) -> dict[int, Enqueued]:
    """Store envelopes of different ids and keys."""
    if not batch:
        return {}
    answers = _in_the_way(tx, batch)
    new = {at: each for at, each in batch.items() if at not in answers}
    if new:
        store(tx, list(new.values()), standings)
    return answers | {at: Enqueued(each.id) for at, each in new.items()}


def _in_the_way(tx: Transaction, batch: dict[int, Envelope]) -> dict[int, Enqueued]:
    """Return which live jobs stand for these; free the keys that the others replace."""
    live = {job_id for (job_id,) in tx.ask("live_among", ids=[each.id for each in batch.values()]).rows()}
    answers = {at: existing(each.id) for at, each in batch.items() if each.id in live}
    keyed = {
        each.unique_key: (at, each) for at, each in batch.items() if each.id not in live and each.unique_key is not None
    }
    ignoring = [key for key, (_, each) in keyed.items() if each.unique_strategy == "ignore_new"]
    replacing = [key for key, (_, each) in keyed.items() if each.unique_strategy != "ignore_new"]
    if ignoring:
        for key, holder in tx.ask("key_holders", keys=ignoring).rows():
            at, envelope = keyed[key]
            answers[at] = Enqueued(envelope.id, created=False, existing_id=holder)
    if replacing:
        found = sorted((holder, key) for key, holder in tx.ask("key_holders", keys=replacing).rows())
        holders = tx.ask("lock_key_holders", holders=found).rows() if found else []
        cancel(tx, {holder: f"replaced by {keyed[key][1].id}" for key, holder in holders}, replaced=True)
    return answers


def cancel(tx: Transaction, reasons: Mapping[str, str], *, replaced: bool = False) -> dict[str, State]:
    """Cancel jobs that wait, ask those that run to cancel; return the state in which each was found."""
    if not reasons:
        return {}
    rows = tx.ask("lock_jobs", ids=sorted(reasons)).rows()
    found = {job_id: state_named(state) for job_id, state, *_ in rows}
    members = [job_id for job_id, _, _, is_member, _ in rows if is_member and found[job_id] is not State.EXECUTING]
    waiting = [(job_id, reasons[job_id]) for job_id, state in found.items() if state is not State.EXECUTING]
    running = [(job_id, reasons[job_id]) for job_id, state in found.items() if state is State.EXECUTING]
    if waiting:
        end_waiting(tx, waiting, members)
    if running:
        tx.ask("ask_each_to_cancel", asked=running, replaced=replaced)
    return found


def end_waiting(tx: Transaction, cancelled: Sequence[tuple[str, str]], members: Sequence[str]) -> None:
    """Cancel jobs that wait and are locked, each for its reason; some of them are members of flows."""
    tx.ask("cancel_waiting", cancelled=list(cancelled))
    tx.ended += len(cancelled)
    if members:
        touch(tx.touched, tx.ask("end_members", ids=list(members)).rows())


def _finished(tx: Transaction, envelopes: Iterable[Envelope]) -> set[str]:
    ids = [envelope.id for envelope in envelopes]
    return {job_id for (job_id,) in tx.ask("finished_among", ids=ids).rows()} if ids else set()
