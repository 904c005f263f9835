"""Envelopes, settlements and records between Python and the scripts: MessagePack both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from onward.backend import Held, Lease, Reaped, Run, SessionState, Settlement, StoredJob
from onward.clock import SECOND
from onward.envelope import Envelope, Sealed
from onward.failure import Failure
from onward.lease import GONE, LEASE_LOST, Hold, Settled, already_applied, applied
from onward.states import State

__all__ = [
    "STATES",
    "Message",
    "answers",
    "existing",
    "held",
    "leases",
    "obstacles",
    "pack",
    "packed_envelope",
    "packed_settlement",
    "reaped",
    "session_state",
    "stored_job",
]

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
_HOLDS = (Hold.FREE, Hold.HELD, Hold.BUSY, Hold.DONE)
_ANSWERS: dict[int, Settled] = {
    **{number: applied(state) for number, state in STATES.items()},
    **{10 + number: already_applied(state) for number, state in STATES.items()},
    20: LEASE_LOST,
    21: GONE,
}
_IS_UNIQUE, _HAS_HOLDS, _EXPIRES = 1, 2, 4
_HEAD = 3  # bytes in which MessagePack says that an array of sixteen follows


class Fixed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What never changes."""

    job: str
    enqueued_at: int
    max_crashes: int
    expires_at: int | None
    unique_key: str | None
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job as the scripts keep it."""

    available_at: int
    state: int
    queue: str
    rank: int
    delivery: int
    attempts: int
    crashes: int
    interruptions: int
    waits: int
    started_at: int | None
    parked_since: int | None
    owner: str | None
    flags: int
    cancel_reason: str | None
    spent: str | None
    finished_at: int | None
    reason: str | None
    tombstone: int
    fixed: Fixed


_record = msgspec.msgpack.Decoder(Record).decode
_numbers = msgspec.msgpack.Decoder(list[int]).decode
_pairs = msgspec.msgpack.Decoder(list[tuple[str, int]]).decode
_obstacles = msgspec.msgpack.Decoder(list[tuple[str, str]]).decode
_refusals = msgspec.msgpack.Decoder(list[tuple[int, str]]).decode
_allotted = msgspec.msgpack.Decoder(list[tuple[int, int, str]]).decode
_reaped = msgspec.msgpack.Decoder(list[tuple[str, str, str, int, int, bool, int]]).decode
_run = msgspec.msgpack.Decoder(tuple[int, int, str, int, int, int, str, str, str]).decode
_session = msgspec.msgpack.Decoder(tuple[int, str, int, str]).decode


@lru_cache(maxsize=512)
def _fresh(queue: str, rank: int, flags: int) -> bytes:
    """The fields of a job that nothing has happened to, from its queue on."""
    nothing = (queue, rank, 0, 0, 0, 0, 0, None, None, None, flags, None, None, None, None, 0)
    return pack(nothing)[_HEAD:]


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
    fixed = pack(
        (
            envelope.job,
            envelope.enqueued_at,
            envelope.max_crashes,
            envelope.expires_at,
            key,
            envelope.idempotency_key,
            envelope.idempotency_ttl,
            envelope.single_instance,
        )
    )
    rest = message.beside(_fresh(envelope.queue, rank, flags) + fixed)
    message.bytes.append(envelope.data)  # in the next place
    plain = (envelope.id, envelope.queue, rank, rest)
    if not flags and not envelope.delay and envelope.not_before is None:
        return plain
    replaces = envelope.unique_strategy == "cancel_existing"
    return (*plain, envelope.delay, envelope.not_before, envelope.expires_at, key, replaces)


def packed_settlement(settlement: Settlement, owner: str, message: Message) -> tuple[Any, ...]:
    """What `settle_one` takes; most are short."""
    lease, move = settlement.lease, settlement.move
    result = settlement.result if settlement.keep and move == "ack" else None
    plain = (
        lease.envelope.id,
        lease.token,
        lease.owner == owner,
        move,
        settlement.ran,
        None if result is None else message.beside(result),
        move == "ack" and not settlement.keep,
    )
    if move == "ack" and settlement.reason is None and settlement.failure is None:
        return plain
    failure, letter = settlement.failure, settlement.dead_letter
    return (
        *plain,
        settlement.reason,
        round(settlement.delay * SECOND),
        settlement.waits,
        None if failure is None else (failure.kind, failure.message, failure.traceback),
        settlement.duration_ms,
        settlement.spent,
        None if letter is None else packed_envelope(letter, message),
    )


def existing(raw: bytes) -> dict[int, str]:
    """Which envelopes were not stored, and who stands for each."""
    return dict(_refusals(raw))


def obstacles(raw: bytes) -> list[tuple[str, str]]:
    """Which jobs were asked to live again, and what is in the way of each, if anything."""
    return _obstacles(raw)


def answers(raw: bytes) -> list[Settled]:
    return [_ANSWERS[number] for number in _numbers(raw)]


def held(raw: bytes) -> tuple[Held, ...]:
    return tuple(sorted(_pairs(raw)))


def leases(found: Sequence[bytes], holds: bytes, *, owner: str, expires_at: int) -> list[Lease]:
    """Leases from id, record and sealed bytes, one after the other, and what became of the keys of some."""
    allotted = {at: (_HOLDS[hold], holder or None) for at, hold, holder in _allotted(holds)}
    taken = []
    for at in range(0, len(found), 3):
        record = _record(found[at + 1])
        hold, holder = allotted.get(at // 3, _NO_HOLD)
        taken.append(
            Lease(
                envelope=Sealed(found[at].decode(), record.queue, found[at + 2]),
                token=record.delivery,
                owner=owner,
                expires_at=expires_at,
                claimed_at=record.started_at or 0,
                attempts=record.attempts,
                crashes=record.crashes,
                interruptions=record.interruptions,
                hold=hold,
                holder=holder,
                waits=record.waits,
                parked_since=record.parked_since,
                spent=record.spent,
            )
        )
    return taken


_NO_HOLD: tuple[Hold, str | None] = (Hold.FREE, None)


def reaped(raw: bytes, cause: str) -> list[Reaped]:
    return [
        Reaped(
            id=job_id, queue=queue, job=job, token=token, to=STATES[to], cause=cause, crashed=crashed, crashes=crashes
        )
        for job_id, queue, job, token, to, crashed, crashes in _reaped(raw)
    ]


def stored_job(shown: Sequence[Any]) -> StoredJob:
    """A job as `shown` gives it."""
    job_id, raw, sealed, progress, result, runs = shown
    record = _record(raw)
    fixed = record.fixed
    return StoredJob(
        id=job_id.decode(),
        queue=record.queue,
        job=fixed.job,
        data=b"" if record.tombstone else sealed,
        state=STATES[record.state],
        priority=-record.rank,
        attempts=record.attempts,
        delivery=record.delivery,
        crashes=record.crashes,
        interruptions=record.interruptions,
        available_at=record.available_at,
        enqueued_at=fixed.enqueued_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        owner=record.owner,
        cancel_requested=record.cancel_reason is not None,
        result=result,
        reason=record.reason,
        progress=progress,
        waits=record.waits,
        parked_since=record.parked_since,
        tombstone=bool(record.tombstone),
        runs=_runs(runs),
    )


def _runs(found: Iterable[bytes]) -> tuple[Run, ...]:
    runs = []
    for token, attempt, move, to, at, duration_ms, *failure in sorted(map(_run, found)):
        run = Run(
            token=token,
            attempt=attempt,
            move=move,
            to=STATES[to],
            failure=Failure(*failure),
            at=at,
            duration_ms=duration_ms,
        )
        runs.append(run)
    return tuple(runs)


def session_state(owner: bytes, about: bytes, expires_at: bytes, leases_held: int) -> SessionState:
    lease_for, host, pid, version = _session(about)
    return SessionState(
        owner=owner.decode(),
        lease_for=timedelta(microseconds=lease_for),
        host=host,
        pid=pid,
        version=version,
        expires_at=int(float(expires_at)),
        leases=leases_held,
    )
