"""Transfer between stores: the records of a server, made here as bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from onward.backend import StoredJob
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import packing
from onward.backends.redis.layout import FEW, STATES
from onward.backends.redis.packing import Message
from onward.contract.transfer import TRANSFERABLE, Confirmed, Restored, check_reserved, version_of

__all__ = ["RedisTransfer"]

_NUMBERS = {state: number for number, state in STATES.items()}
_KNOWN = 1


class RedisTransfer:
    """The `Transferable` half of the backend."""

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @set_aside_and_repeat
    def reserve(self, queue: str, transfer: str | None, *, was: str | None = None) -> bool:
        return bool(self._run("reserve", queue, transfer, was))

    @set_aside_and_repeat
    def confirmed_keys(self, keys: Sequence[str]) -> Mapping[str, Confirmed]:
        found = {
            key: packing.pointer(raw) for key, raw in zip(keys, self._run("confirmed_keys", keys), strict=True) if raw
        }
        return {
            key: Confirmed(job_id, token, until) for key, (job_id, token, until) in found.items() if until is not None
        }

    @set_aside_and_repeat
    def restore(
        self, transfer: str, jobs: Sequence[StoredJob], confirmed: Mapping[str, Confirmed]
    ) -> Sequence[Restored]:
        if not jobs:
            return []
        message = Message()
        packed = [_packed(job, message) for job in jobs]
        keys = [(f"once:{key}", by.job_id, by.token, by.until) for key, by in confirmed.items()]
        answers = self._run("restore", self._now(), jobs[0].queue, transfer, packed, keys, beside=message.bytes)
        _check_reserved(jobs, transfer, answers)
        return [_restored(job.id, answer) for job, answer in zip(jobs, answers, strict=True)]

    @set_aside_and_repeat
    def remove(self, transfer: str, jobs: Sequence[StoredJob]) -> Sequence[str]:
        seen = [
            (job.id, job.is_finished, _NUMBERS[job.state], *version_of(job)[1:])
            for job in jobs
            if job.state in TRANSFERABLE
        ]
        if not seen:
            return []
        gone = self._run("remove", jobs[0].queue, transfer, seen)
        _check_reserved(jobs, transfer, gone)
        return [job_id.decode() for job_id in gone]


def _check_reserved(jobs: Sequence[StoredJob], transfer: str, answer: Any) -> None:
    """A script answers with the reservation if it is another one."""
    if isinstance(answer, bytes):
        check_reserved(jobs[0].queue, transfer, answer.decode() or None)


def _restored(job_id: str, answer: int | bytes) -> Restored:
    if isinstance(answer, bytes):
        return Restored(job_id, stored=False, holder=answer.decode())
    return Restored(job_id, stored=answer != _KNOWN)


def _packed(job: StoredJob, message: Message) -> tuple[Any, ...]:
    """What `restore` of the scripts takes."""
    inside = 0 < len(job.data) <= FEW
    return (
        job.id,
        job.is_finished,
        message.beside(packing.packed_record(job, job.data if inside else b"")),
        None if inside else message.beside(job.data),
        None if job.progress is None else message.beside(job.progress),
        None if job.result is None else message.beside(job.result),
        [(run.token, message.beside(packing.packed_run(run))) for run in job.runs],
        job.unique_key if job.key_held else None,
    )
