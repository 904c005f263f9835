"""Envelopes, settlements and records between Python and the scripts: MessagePack both ways."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from onward.backend import AWAITS_NODE, NEVER, Enqueued, Held, Reaped, Run, StoredJob
from onward.backends.redis import layout
from onward.backends.redis.layout import (
    FLAGS,
    STATES,
    ChangingFields,
    FixedFields,
    LanedFields,
    MemberFields,
    Patch,
    Rest,
)
from onward.contract.deaths import fingerprint_of
from onward.job.envelope import Envelope
from onward.job.membership import FlowPlan
from onward.job.states import State

__all__ = [
    "UNREADABLE",
    "Message",
    "checked_owner",
    "enqueued",
    "fresh",
    "held",
    "names",
    "obstacles",
    "opened",
    "pack",
    "packed_envelope",
    "packed_plan",
    "packed_record",
    "packed_run",
    "plain_batch",
    "pointer",
    "readable",
    "reaped",
    "shown_due",
    "untouched",
]

T = TypeVar("T")

pack = msgspec.msgpack.Encoder().encode

_NUMBERS = {state: number for number, state in STATES.items()}
_FENCE, _HEADER, _LENGTH = map(layout.binary, (layout.FENCE, layout.HEADER, layout.LENGTH))
_LONGEST_OWNER = 254  # bytes
# The errors of reading data that no script wrote.
UNREADABLE = (msgspec.MsgspecError, struct.error, ValueError, KeyError, IndexError, TypeError, OverflowError)

_rest = msgspec.msgpack.Decoder(Rest).decode
_patch = msgspec.msgpack.Decoder(Patch).decode
_each = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_pair = msgspec.msgpack.Decoder(tuple[str, int]).decode
_obstacles = msgspec.msgpack.Decoder(list[tuple[str, str]]).decode
_refusals = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode
_names = msgspec.msgpack.Decoder(list[str]).decode
_reaped = msgspec.msgpack.Decoder(tuple[str, str, str, int, int, bool, int]).decode


@lru_cache(maxsize=512)
def untouched(queue: str, rank: int) -> ChangingFields:
    """Return the fields of a job that was never claimed."""
    counts = dict.fromkeys(("attempts", "crashes", "interruptions", "waits"), 0)
    return ChangingFields(queue, rank, **counts, parked_since=None, cancel_reason=None, spent=None)


@lru_cache(maxsize=512)
def fresh(queue: str, rank: int) -> bytes:
    """Return the packed part of the record of a job that was never claimed, up to the fields that never change."""
    return _rest_of(untouched(queue, rank))


def _rest_of(changing: ChangingFields) -> bytes:
    return layout.array(Rest) + pack(changing).removeprefix(layout.array(ChangingFields))


class Message:
    """The arguments of a script, and bytes beside them, because the scripts' MessagePack knows only text.

    An argument that stands for bytes is their place.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes: list[bytes] = []

    def beside(self, data: bytes) -> int:
        self.bytes.append(data)
        return len(self.bytes) + 1  # the first place is that of the arguments


def packed_envelope(envelope: Envelope, message: Message) -> tuple[Any, ...]:
    """Return the argument of the scripts' `add` for an envelope; most are short."""
    flags, rank = _flags(envelope), -envelope.priority
    rest = message.beside(fresh(envelope.queue, rank) + _fixed(envelope))
    message.bytes.append(envelope.data)  # in the next place
    plain = (envelope.id, envelope.queue, rank, rest, flags)
    if not flags and not envelope.delay and envelope.not_before is None:
        return plain
    replaces = envelope.unique_strategy == "cancel_existing"
    keyed = (*plain, envelope.delay, envelope.not_before, envelope.expires_at, envelope.unique_key, replaces)
    if envelope.flow is None:
        return keyed
    member = (*keyed, envelope.flow, envelope.node or "")
    if envelope.plan is None:
        return member
    return (*member, message.beside(packed_plan(envelope.plan)), envelope.plan.closed)


def packed_plan(plan: FlowPlan) -> bytes:
    """Return what a flow's hash keeps of its plan; nodes name those that they come after by their places."""
    places = {node.name: place for place, node in enumerate(plan.nodes, 1)}
    nodes = [(node.name, [places[name] for name in node.after], node.when) for node in plan.nodes]
    return pack((plan.name, plan.stop_on_failure, nodes))


def plain_batch(envelopes: Sequence[Envelope]) -> list[bytes] | None:
    """Return id, packed part and sealed bytes of each, if all have one queue and priority, no key, time, lane or flow."""
    first = envelopes[0]
    queue, priority = first.queue, first.priority
    begins = fresh(queue, -priority)
    batch: list[bytes] = []
    for each in envelopes:
        if (
            each.queue != queue
            or each.priority != priority
            or each.delay
            or each.not_before is not None
            or each.expires_at is not None
            or each.unique_key is not None
            or each.idempotency_key is not None
            or each.single_instance is not None
            or each.lane is not None
            or each.flow is not None
        ):
            return None
        batch += (each.id.encode(), begins + _fixed(each), each.data)
    return batch


def _fixed(job: Envelope | StoredJob) -> bytes:
    """Return the packed fields that never change; those of lanes and flows only for a job that has one."""
    fields = FixedFields(
        job=job.job,
        enqueued_at=job.enqueued_at,
        max_crashes=job.max_crashes,
        expires_at=job.expires_at,
        unique_key=job.unique_key,
        idempotency_key=job.idempotency_key,
        idempotency_ttl=job.idempotency_ttl,
        single_instance=job.single_instance,
    )
    if job.lane is None and job.flow is None:
        return pack(fields)
    laned = {**msgspec.structs.asdict(fields), "lane": job.lane, "cost": job.cost}
    return pack(LanedFields(**laned) if job.flow is None else MemberFields(**laned, flow=job.flow, node=job.node or ""))


def _flags(job: Envelope | StoredJob) -> int:
    return (
        (FLAGS["IS_UNIQUE"] if job.unique_key is not None else 0)
        + (FLAGS["HAS_HOLDS"] if (job.idempotency_key, job.single_instance) != (None, None) else 0)
        + (FLAGS["EXPIRES"] if job.expires_at is not None else 0)
        + (FLAGS["HAS_LANE"] if job.lane is not None else 0)
        + (FLAGS["IS_MEMBER"] if job.flow is not None else 0)
    )


def _stored_flags(job: StoredJob) -> int:
    waits = job.flow is not None and job.awaits == AWAITS_NODE and not job.is_finished
    return (
        _flags(job)
        + (FLAGS["IS_SUSPECT"] if job.crashes > 0 else 0)
        + (FLAGS["AWAITS_NODE"] if waits else 0)
        + (FLAGS["IS_DELAYED"] if waits and job.available_at < 2 * NEVER else 0)
    )


def shown_due(flags: int, due: int) -> int:
    """Return the due time of a job as the contract has it: of one whose node waits, `never_due`."""
    if not flags & FLAGS["AWAITS_NODE"]:
        return due
    return NEVER + due if flags & FLAGS["IS_DELAYED"] else 2 * NEVER + due


def _due(job: StoredJob) -> int:
    flags = _stored_flags(job)
    return job.available_at if not flags & FLAGS["AWAITS_NODE"] else job.available_at - shown_due(flags, 0)


def checked_owner(owner: str) -> str:
    """Return a session's name; raises if it is too long for a record."""
    if len(owner.encode()) > _LONGEST_OWNER:
        raise OverflowError(f"a session's name has at most {_LONGEST_OWNER} bytes")
    return owner


def enqueued(envelopes: Sequence[Envelope], raw: bytes) -> list[Enqueued]:
    """Return the answers to envelopes, from those that were not stored and the live job that stands for each."""
    refused = dict(_refusals(raw))
    if not refused:
        return [Enqueued(envelope.id) for envelope in envelopes]
    return [
        Enqueued(envelope.id, created=False, existing_id=refused[at]) if at in refused else Enqueued(envelope.id)
        for at, envelope in enumerate(envelopes)
    ]


def obstacles(raw: bytes) -> list[tuple[str, str]]:
    """Return the jobs of a replay, each with the reason why it was not replayed, or an empty text."""
    return _obstacles(raw)


def names(raw: bytes) -> list[str]:
    return _names(raw)


def readable(raw: bytes, read: Callable[[msgspec.Raw], T]) -> Iterator[T]:
    """Yield the items of a list that can be read."""
    for each in _each(raw):
        with suppress(*UNREADABLE):
            yield read(each)


def held(raw: bytes) -> tuple[Held, ...]:
    return tuple(sorted(readable(raw, _pair)))


def reaped(raw: bytes, cause: str) -> list[Reaped]:
    return [
        Reaped(
            id=job_id, queue=queue, job=job, token=token, to=STATES[to], cause=cause, crashed=crashed, crashes=crashes
        )
        for job_id, queue, job, token, to, crashed, crashes in readable(raw, _reaped)
    ]


class Opened(NamedTuple):
    """A decoded record."""

    patch: Patch
    state: int
    delivery: int
    owner: str | None
    flags: int
    started: int
    due: int
    inside: bytes  # the sealed bytes, if they travel in it
    rest: Rest


def opened(raw: bytes, *, is_live: bool) -> Opened:
    patch = Patch()
    if not is_live:
        (length,) = _LENGTH.unpack_from(raw)
        patch = _patch(raw[_LENGTH.size : _LENGTH.size + length])
        raw = raw[_LENGTH.size + length :]
    state, delivery, length = _FENCE.unpack_from(raw)
    start = _FENCE.size + max(0, length - 1)
    flags, started, due, size = _HEADER.unpack_from(raw, start)
    rest = _rest(raw[start + _HEADER.size : len(raw) - size])
    owner = raw[_FENCE.size : start].decode() if length else None
    return Opened(patch, state, delivery, owner, flags, started, due, raw[-size:] if size else b"", rest)


def pointer(raw: bytes) -> tuple[str, int, int | None]:
    """Read the job that has a key, by which lease, and until when a success confirmed it: three values in a row."""
    job_id, token, until = msgspec.msgpack.decode(b"\x93" + raw, type=tuple[str, int, int | None])
    return job_id, token, until


def packed_record(job: StoredJob, sealed: bytes) -> bytes:
    """Return a record as the scripts write it; a dead job's is its last live one behind a patch."""
    owner = None if job.owner is None else job.owner.encode()
    state = State.EXECUTING if job.is_finished else job.state
    changing = ChangingFields(
        queue=job.queue,
        rank=-job.priority,
        attempts=job.attempts,
        crashes=job.crashes,
        interruptions=job.interruptions,
        waits=job.waits,
        parked_since=job.parked_since,
        cancel_reason=None,
        spent=job.spent,
    )
    record = b"".join(
        (
            _FENCE.pack(_NUMBERS[state], job.delivery, 0 if owner is None else len(owner) + 1),
            owner or b"",
            _HEADER.pack(_stored_flags(job), job.started_at or 0, _due(job), len(sealed)),
            _rest_of(changing),
            _fixed(job),
            sealed,
        )
    )
    if not job.is_finished:
        return record
    died = fingerprint_of(job.runs) if job.state is State.DISCARDED else None
    patch = pack(Patch(_NUMBERS[job.state], job.finished_at, job.reason, fingerprint=died))
    return _LENGTH.pack(len(patch)) + patch + record


def packed_run(run: Run) -> bytes:
    failure = (run.failure.kind, run.failure.message, run.failure.traceback)
    fields = (run.token, run.attempt, run.move, _NUMBERS[run.to], run.at, run.duration_ms, *failure, run.owner or "")
    return pack((*fields, run.fingerprint, "" if run.by is None else run.by.encoded()))
