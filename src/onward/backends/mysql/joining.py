"""Enqueueing in a caller's transaction.

The caller's session has its own isolation, character set and collation.  So statements compare nothing with text from JSON,
keys are sent as bytes, and the insert that fails finds the holder of a key: a read might show an older snapshot without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

import msgspec

from onward.backend import Enqueued
from onward.backends.mysql import enqueueing
from onward.backends.mysql.queries import CLOCK, Section, singly
from onward.backends.sql.enqueueing import existing
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


def joining(envelopes: Sequence[Envelope]) -> NamedSteps[list[Enqueued]]:
    """Store envelopes; return which live job stands for one that is not stored."""
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
            answers[at] = yield from _keyed(envelope)
        live.add(envelope.id)  # the batch may name it twice
    for portion in enqueueing.portions(plain, _ROOM) if plain else ():
        yield from ask("enqueue", **enqueueing.columns(portion))
    return [answers[at] for at in range(len(envelopes))]


def _is_plain(envelope: Envelope) -> bool:
    """Return whether only a taken id can keep an envelope from being stored, and its texts are safe in any character set."""
    keys = envelope.unique_key, envelope.idempotency_key, envelope.single_instance
    return keys == (None, None, None) and (envelope.lane is None or envelope.lane.isascii())


def _keyed(envelope: Envelope) -> NamedSteps[Enqueued]:
    for _ in range(_TRIES):
        yield from ask("join", **_columns(envelope))
        if (yield from ask("is_live", id=envelope.id)):
            return Enqueued(envelope.id)
        holders: Rows = yield from ask("lock_key_holder", key=_bytes(envelope.unique_key))
        for holder, state in holders:
            if envelope.unique_strategy == "ignore_new":
                return Enqueued(envelope.id, created=False, existing_id=holder)
            move = "take_key_away" if state == State.EXECUTING else "replace_waiting"
            yield from ask(move, id=holder, reason=f"replaced by {envelope.id}")
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
