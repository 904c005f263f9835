"""Enqueueing in a caller's transaction.

The caller's session has its own isolation, character set and collation.  So statements compare nothing with text from JSON,
keys are sent as bytes, and the insert that fails finds the holder of a key: a read might show an older snapshot without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from onward.backend import Enqueued, never_due
from onward.backends.mysql import enqueueing
from onward.backends.mysql.queries import CLOCK, Section, singly
from onward.backends.sql.enqueueing import existing
from onward.backends.sql.flow_members import PLAIN, count_added, place_of, store_flows
from onward.backends.sql.flows import FlowSteps, Touched, touch
from onward.backends.sql.statements import NamedSteps, ask
from onward.contract.transactions import Rows, Statement, Steps
from onward.errors import BackendUnavailable
from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = ["foreign", "formatted", "joining"]

T = TypeVar("T")

_TRIES = 20  # how often a key may get another holder while this transaction asks for it
_ROOM = 1 << 20  # bytes of one statement: every server takes that

_encode = msgspec.json.Encoder().encode


def joining(envelopes: Sequence[Envelope], flows: FlowSteps) -> NamedSteps[list[Enqueued]]:
    """Store envelopes; return which live job stands for one that is not stored."""
    members = [envelope for envelope in envelopes if envelope.flow is not None]
    touched: Touched = set()
    standings = (yield from store_flows(members, touched)) if members else {}
    new = {flow for flow, _ in touched}  # none but this transaction sees them
    answers: dict[int, Enqueued] = {}
    live = {job_id for (job_id,) in (yield from ask("live_among", ids=[each.id for each in envelopes]))}
    plain: list[Envelope] = []
    # In the order of the keys: two transactions with the same keys cannot deadlock.
    for at, envelope in sorted(enumerate(envelopes), key=lambda each: each[1].unique_key or ""):
        if envelope.id in live:
            answers[at] = existing(envelope.id)
        elif _is_plain(envelope):
            plain.append(envelope)
            answers[at] = Enqueued(envelope.id)
        else:
            answers[at] = yield from _keyed(envelope, touched)
            if envelope.flow is not None and answers[at].created:
                yield from _make_member(envelope, standings)
        live.add(envelope.id)  # the batch may name it twice
    yield from _store(plain, standings)
    told = [answers[at] for at in range(len(envelopes))]
    if members:
        yield from count_added(envelopes, told, standings, touched)
    if older := sorted((flow, node or "") for flow, node in touched if flow not in new):
        yield from ask("leave_to_sweep", places=older)
    if new:
        yield from flows.looking({(flow, None) for flow in new})
    return told


def _store(envelopes: Sequence[Envelope], standings: enqueueing.Standings) -> NamedSteps[None]:
    plain = [envelope for envelope in envelopes if envelope.flow is None]
    members = [envelope for envelope in envelopes if envelope.flow is not None]
    for portion in enqueueing.portions(plain, _ROOM) if plain else ():
        yield from ask("enqueue", **enqueueing.columns(portion))
    for portion in enqueueing.portions(members, _ROOM) if members else ():
        yield from ask("enqueue_members", **enqueueing.columns_of_members(portion, standings))


def _make_member(envelope: Envelope, standings: enqueueing.Standings) -> NamedSteps[None]:
    place = place_of(envelope)
    never = never_due(envelope) if standings.get(place, PLAIN).waits else None
    yield from ask("make_member", id=envelope.id, **place._asdict(), never=never)


def _is_plain(envelope: Envelope) -> bool:
    """Return whether only a taken id can keep an envelope from being stored, and its texts are safe in any character set."""
    keys = envelope.unique_key, envelope.idempotency_key, envelope.single_instance
    return keys == (None, None, None) and (envelope.lane is None or envelope.lane.isascii())


def _keyed(envelope: Envelope, touched: Touched) -> NamedSteps[Enqueued]:
    for _ in range(_TRIES):
        yield from ask("join", **_columns(envelope))
        if (yield from ask("is_live", id=envelope.id)):
            return Enqueued(envelope.id)
        holders: Rows = yield from ask("lock_key_holder", key=_bytes(envelope.unique_key))
        for holder, state, is_member in holders:
            if envelope.unique_strategy == "ignore_new":
                return Enqueued(envelope.id, created=False, existing_id=holder)
            move = "take_key_away" if state == State.EXECUTING else "replace_waiting"
            yield from ask(move, id=holder, reason=f"replaced by {envelope.id}")
            if is_member and state != State.EXECUTING:
                touch(touched, (yield from ask("end_members", ids=[holder])))
    raise BackendUnavailable("a unique key changed its holder 20 times during this call: try again")


def _columns(envelope: Envelope) -> dict[str, Any]:
    return {
        "id": envelope.id,
        "queue": envelope.queue,
        "job": envelope.job,
        "rank_": -envelope.priority,
        "delay": envelope.delay,
        "not_before": envelope.not_before,
        "expires_at": envelope.expires_at,
        "max_crashes": envelope.max_crashes,
        "enqueued_at": envelope.enqueued_at,
        "unique_key": _bytes(envelope.unique_key),
        "idempotency_key": _bytes(envelope.idempotency_key),
        "idempotency_ttl": 0 if envelope.idempotency_key is None else envelope.idempotency_ttl,
        "single_instance": _bytes(envelope.single_instance),
        "lane": _bytes(envelope.lane),
        "cost": envelope.cost,
        "sealed": envelope.data,
    }


def _bytes(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


def foreign(statements: Mapping[str, Section], steps: NamedSteps[T], moved: int | None) -> Steps[T]:
    """Turn steps into statements for any driver of this database; a section of several is sent one by one."""
    clock = (CLOCK if moved is None else b"%d" % moved).decode()
    try:
        step = next(steps)
        while True:
            rows: Rows = ()
            for single in singly(statements[step.name]):
                rows = yield formatted(single, step.parameters, clock)
            step = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def formatted(statement: Section, parameters: Mapping[str, Any], clock: str) -> Statement:
    """Return a single statement with its values, for any driver of this database."""
    sql, values = [], []
    for text, name in zip_longest(statement.texts, statement.names):
        sql.append(text.decode().replace("%", "%%"))
        if name == "now":
            sql.append(clock)
        elif name is not None:
            sql.append("%s")
            values.append(_value(parameters[name]))
    return Statement("".join(sql), values)


def _value(value: Any) -> Any:
    return _encode(value).decode() if isinstance(value, list) else value
