"""Envelopes, settlements and records between Python and the scripts: MessagePack both ways."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from onward.backend import Held, Reaped, Run
from onward.contract.transfer import Parcel
from onward.job.envelope import Envelope
from onward.job.states import State

__all__ = [
    "FEW",
    "STATES",
    "UNREADABLE",
    "FixedFields",
    "Message",
    "checked_owner",
    "existing",
    "fresh",
    "held",
    "obstacles",
    "opened",
    "pack",
    "packed_envelope",
    "packed_record",
    "packed_run",
    "plain_batch",
    "pointer",
    "readable",
    "reaped",
]

T = TypeVar("T")

pack = msgspec.msgpack.Encoder().encode

# By the numbers that records hold.
STATES = {
    1: State.SCHEDULED,
    2: State.AVAILABLE,
    3: State.EXECUTING,
    4: State.RETRYABLE,
    5: State.COMPLETED,
    6: State.DISCARDED,
    7: State.CANCELLED,
}
_NUMBERS = {state: number for number, state in STATES.items()}
_IS_UNIQUE, _HAS_HOLDS, _EXPIRES = 1, 2, 4
_TEN, _NINE = b"\x9a", b"\x99"  # how MessagePack begins arrays of so many
_FENCE = struct.Struct(">BIB")  # state, delivery, the owner's length plus one
_HEADER = struct.Struct(">BBQQI")  # flags, suspect, started, due, size of the sealed bytes that follow
_LENGTH = struct.Struct(">I")
_LONGEST_OWNER = 254  # bytes
# What reading something that no script wrote may raise.
UNREADABLE = (msgspec.MsgspecError, struct.error, ValueError, KeyError, IndexError, TypeError, OverflowError)
FEW = 256  # sealed bytes that travel in the record, as in the scripts


class FixedFields(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What never changes."""

    job: str
    enqueued_at: int
    max_crashes: int
    expires_at: int | None
    unique_key: str | None
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None


class Rest(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What follows the bytes with fixed places in a record."""

    queue: str
    rank: int
    attempts: int
    crashes: int
    interruptions: int
    waits: int
    parked_since: int | None
    cancel_reason: str | None
    spent: str | None
    fixed: FixedFields


class Patch(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What stands before the last live record of a finished job."""

    state: int = 0  # 0: it is live
    finished_at: int | None = None
    reason: str | None = None
    tombstone: int = 0
    ran: int = 0


_rest = msgspec.msgpack.Decoder(Rest).decode
_patch = msgspec.msgpack.Decoder(Patch).decode
_each = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_pair = msgspec.msgpack.Decoder(tuple[str, int]).decode
_obstacles = msgspec.msgpack.Decoder(list[tuple[str, str]]).decode
_refusals = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode
_reaped = msgspec.msgpack.Decoder(tuple[str, str, str, int, int, bool, int]).decode


@lru_cache(maxsize=512)
def fresh(queue: str, rank: int) -> bytes:
    """The packed part of the record of a job that nothing has happened to, up to what never changes."""
    nothing = pack((queue, rank, 0, 0, 0, 0, None, None, None))
    return _TEN + nothing.removeprefix(_NINE)


class Message:
    """What a script is called with: arguments, and bytes beside them, for the scripts' MessagePack knows only text.

    An argument that stands for bytes is their place.
    """

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes: list[bytes] = []

    def beside(self, data: bytes) -> int:
        self.bytes.append(data)
        return len(self.bytes) + 1  # the first place is that of the arguments


def packed_envelope(envelope: Envelope, message: Message) -> tuple[Any, ...]:
    """What `add` takes; most are short."""
    key, holds = envelope.unique_key, (envelope.idempotency_key, envelope.single_instance)
    flags = (
        (_IS_UNIQUE if key is not None else 0)
        + (_HAS_HOLDS if holds != (None, None) else 0)
        + (_EXPIRES if envelope.expires_at is not None else 0)
    )
    rank = -envelope.priority
    rest = message.beside(fresh(envelope.queue, rank) + _fixed(envelope))
    message.bytes.append(envelope.data)  # in the next place
    plain = (envelope.id, envelope.queue, rank, rest, flags)
    if not flags and not envelope.delay and envelope.not_before is None:
        return plain
    replaces = envelope.unique_strategy == "cancel_existing"
    return (*plain, envelope.delay, envelope.not_before, envelope.expires_at, key, replaces)


def plain_batch(envelopes: Sequence[Envelope]) -> list[bytes] | None:
    """Id, packed part and sealed bytes of each, if all are of one queue and priority and carry nothing but themselves."""
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
        ):
            return None
        batch += (each.id.encode(), begins + _fixed(each), each.data)
    return batch


def _fixed(envelope: Envelope) -> bytes:
    return pack(
        (
            envelope.job,
            envelope.enqueued_at,
            envelope.max_crashes,
            envelope.expires_at,
            envelope.unique_key,
            envelope.idempotency_key,
            envelope.idempotency_ttl,
            envelope.single_instance,
        )
    )


def checked_owner(owner: str) -> str:
    """A session's name, short enough for a record."""
    if len(owner.encode()) > _LONGEST_OWNER:
        raise OverflowError(f"a session's name has at most {_LONGEST_OWNER} bytes")
    return owner


def existing(raw: bytes) -> dict[int, str]:
    """Which envelopes were not stored, and who stands for each."""
    return dict(_refusals(raw))


def obstacles(raw: bytes) -> list[tuple[str, str]]:
    """Which jobs were asked to live again, and what is in the way of each, if anything."""
    return _obstacles(raw)


def readable(raw: bytes, read: Callable[[msgspec.Raw], T]) -> Iterator[T]:
    """What of a list can be read."""
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
    """A record, taken apart."""

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
    flags, _, started, due, size = _HEADER.unpack_from(raw, start)
    rest = _rest(raw[start + _HEADER.size : len(raw) - size])
    owner = raw[_FENCE.size : start].decode() if length else None
    return Opened(patch, state, delivery, owner, flags, started, due, raw[-size:] if size else b"", rest)


def pointer(raw: bytes) -> tuple[str, int, int | None]:
    """Who has a key, by which lease, and until when a success confirmed it: three values, one after the other."""
    job_id, token, until = msgspec.msgpack.decode(b"\x93" + raw, type=tuple[str, int, int | None])
    return job_id, token, until


def packed_record(parcel: Parcel, queue: str, sealed: bytes) -> bytes:
    """A record as the scripts write it; a dead job's is its last live one behind a patch."""
    flags = (
        (_IS_UNIQUE if parcel.unique_key is not None else 0)
        + (_HAS_HOLDS if (parcel.idempotency_key, parcel.single_instance) != (None, None) else 0)
        + (_EXPIRES if parcel.expires_at is not None else 0)
    )
    owner = None if parcel.owner is None else parcel.owner.encode()
    state = State.EXECUTING if parcel.is_dead else parcel.state
    fixed = (
        parcel.job,
        parcel.enqueued_at,
        parcel.max_crashes,
        parcel.expires_at,
        parcel.unique_key,
        parcel.idempotency_key,
        parcel.idempotency_ttl,
        parcel.single_instance,
    )
    rest = (
        queue,
        -parcel.priority,
        parcel.attempts,
        parcel.crashes,
        parcel.interruptions,
        parcel.waits,
        parcel.parked_since,
        None,
        parcel.spent,
        fixed,
    )
    record = b"".join(
        (
            _FENCE.pack(_NUMBERS[state], parcel.delivery, 0 if owner is None else len(owner) + 1),
            owner or b"",
            _HEADER.pack(flags, parcel.crashes > 0, parcel.started_at or 0, parcel.available_at, len(sealed)),
            pack(rest),
            sealed,
        )
    )
    if not parcel.is_dead:
        return record
    patch = pack((_NUMBERS[parcel.state], parcel.finished_at, parcel.reason, 0, 0))
    return _LENGTH.pack(len(patch)) + patch + record


def packed_run(run: Run) -> bytes:
    failure = (run.failure.kind, run.failure.message, run.failure.traceback)
    return pack((run.token, run.attempt, run.move, _NUMBERS[run.to], run.at, run.duration_ms, *failure))
