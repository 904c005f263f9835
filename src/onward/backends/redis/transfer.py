"""Transfer between stores: the records of a server, made and read here as bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from onward.backend import Query, StoredJob
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import packing, showing
from onward.backends.redis.layout import FEW, STATES
from onward.backends.redis.packing import Message
from onward.contract.transfer import MOVABLE, Accepted, Confirmed, Parcel
from onward.job.states import State

__all__ = ["RedisTransfer"]

_NUMBERS = {state: number for number, state in STATES.items()}
_THERE = 1
_NOT_PAUSED = -1


class RedisTransfer:
    """The `Movable` half of the backend."""

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @abstractmethod
    def _matching(self, query: Query, within: frozenset[State]) -> Iterator[StoredJob]: ...

    @set_aside_and_repeat
    def withhold(self, queue: str, transit: str, *, after: str = "", limit: int = 500) -> Sequence[str]:
        query = Query(queue=queue, after=after or None, limit=limit)
        ids = [job.id for job in self._matching(query, MOVABLE)]
        return [] if self._run("requeue", self._now(), ids, queue, transit, True) == _NOT_PAUSED else ids  # noqa: FBT003

    @set_aside_and_repeat
    def export(self, transit: str, ids: Sequence[str]) -> Sequence[Parcel]:
        found = self._run("export", sorted(ids), transit) if ids else []
        return [_parcel(shown, holds_key=bool(holds_key), pointer=pointer) for shown, holds_key, pointer in found]

    @set_aside_and_repeat
    def accept(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[Accepted]:
        if not parcels:
            return []
        message = Message()
        packed = [_packed(parcel, transit, message) for parcel in parcels]
        answers = self._run("accept", self._now(), transit, packed, beside=message.bytes)
        return [_accepted(parcel.id, answer) for parcel, answer in zip(parcels, answers, strict=True)]

    @set_aside_and_repeat
    def forget(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[str]:
        seen = [
            (
                each.id,
                each.is_dead,
                _NUMBERS[each.state],
                each.delivery,
                each.attempts,
                each.crashes,
                each.interruptions,
                each.finished_at if each.is_dead else each.available_at,
            )
            for each in parcels
        ]
        return [job_id.decode() for job_id in self._run("forget", transit, seen)] if seen else []

    @set_aside_and_repeat
    def admit(self, transit: str, queue: str, ids: Sequence[str]) -> int:
        return int(self._run("requeue", self._now(), list(ids), transit, queue, False)) if ids else 0  # noqa: FBT003


def _accepted(job_id: str, answer: int | bytes) -> Accepted:
    if isinstance(answer, bytes):
        return Accepted(job_id, stored=False, holder=answer.decode())
    return Accepted(job_id, stored=answer != _THERE, there=answer == _THERE)


def _packed(parcel: Parcel, queue: str, message: Message) -> tuple[Any, ...]:
    """What `accept` takes."""
    inside = 0 < len(parcel.sealed) <= FEW
    record = packing.packed_record(parcel, queue, b"" if not inside else parcel.sealed)
    confirmed = None
    if parcel.confirmed is not None:
        by = parcel.confirmed
        confirmed = (f"once:{parcel.idempotency_key}", by.job_id, by.token, by.until)
    return (
        parcel.id,
        parcel.is_dead,
        message.beside(record),
        None if inside else message.beside(parcel.sealed),
        None if parcel.progress is None else message.beside(parcel.progress),
        None if parcel.result is None else message.beside(parcel.result),
        [(run.token, message.beside(packing.packed_run(run))) for run in parcel.runs],
        parcel.unique_key if parcel.key_held else None,
        confirmed,
    )


def _parcel(shown: Sequence[Any], *, holds_key: bool, pointer: bytes) -> Parcel:
    job = showing.stored_job(shown)
    fixed, spent = showing.carried(shown)
    confirmed = None
    if pointer:
        by, token, until = packing.pointer(pointer)
        confirmed = None if until is None else Confirmed(by, token, until)
    return Parcel(
        id=job.id,
        job=job.job,
        sealed=job.data,
        state=job.state,
        priority=job.priority,
        available_at=job.available_at,
        expires_at=fixed.expires_at,
        enqueued_at=job.enqueued_at,
        started_at=job.started_at,
        max_crashes=fixed.max_crashes,
        delivery=job.delivery,
        attempts=job.attempts,
        crashes=job.crashes,
        interruptions=job.interruptions,
        waits=job.waits,
        parked_since=job.parked_since,
        spent=None if job.state is State.DISCARDED else spent,
        unique_key=fixed.unique_key,
        key_held=holds_key,
        idempotency_key=fixed.idempotency_key,
        idempotency_ttl=fixed.idempotency_ttl,
        single_instance=fixed.single_instance,
        progress=job.progress,
        owner=job.owner,
        finished_at=job.finished_at,
        reason=job.reason,
        result=job.result,
        confirmed=confirmed,
        runs=job.runs,
    )
