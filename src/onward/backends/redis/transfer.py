"""Transfer between stores: the records of a server, made here as bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from onward.backend import StoredJob
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import packing
from onward.backends.redis.audit import entries_of
from onward.backends.redis.audit import packed as packed_entry
from onward.backends.redis.layout import FEW, STATES
from onward.backends.redis.notes import packed_note, read_notes
from onward.backends.redis.packing import Message
from onward.contract.transfer import TRANSFERABLE, Attached, Confirmed, Restored, check_reserved, version_of

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
        return bool(self._run("reserve", self._now(), queue, transfer, was))

    @set_aside_and_repeat
    def attached(self, jobs: Sequence[StoredJob]) -> Attached:
        keys = sorted({job.idempotency_key for job in jobs if job.idempotency_key is not None})
        found = self._run("confirmed_keys", keys) if keys else []
        pointers = {key: packing.pointer(raw) for key, raw in zip(keys, found, strict=True) if raw}
        ids = [job.id for job in jobs]
        notes, entries = (self._run("notes_among", ids), self._run("audit_among", ids)) if jobs else ([], [])
        return Attached(
            {key: Confirmed(job_id, token, end) for key, (job_id, token, end) in pointers.items() if end is not None},
            {job.id: read_notes(each) for job, each in zip(jobs, notes, strict=True) if each},
            {job.id: entries_of((b"", raw) for raw in each) for job, each in zip(jobs, entries, strict=True) if each},
        )

    @set_aside_and_repeat
    def restore(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[Restored]:
        if not jobs:
            return []
        message = Message()
        packed = [
            (
                *_packed(job, message),
                job.awaits or None,
                _noted(job, attached, message),
                [packed_entry(entry) for entry in attached.audit.get(job.id, ())],
            )
            for job in jobs
        ]
        keys = [(f"once:{key}", by.job_id, by.token, by.until) for key, by in attached.confirmed.items()]
        answers = self._run("restore", self._now(), jobs[0].queue, transfer, packed, keys, beside=message.bytes)
        _check_reserved(jobs, transfer, answers)
        return [_restored(job.id, answer) for job, answer in zip(jobs, answers, strict=True)]

    @set_aside_and_repeat
    def remove(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[str]:
        message = Message()
        seen = [
            (job.id, job.is_finished, _noted(job, attached, message), _NUMBERS[job.state], *version_of(job)[1:])
            for job in jobs
            if job.state in TRANSFERABLE
        ]
        if not seen:
            return []
        gone = self._run("remove", jobs[0].queue, transfer, seen, beside=message.bytes)
        _check_reserved(jobs, transfer, gone)
        return [job_id.decode() for job_id in gone]


def _check_reserved(jobs: Sequence[StoredJob], transfer: str, answer: Any) -> None:
    """Raise if a script has answered with a reservation: it is another one."""
    if isinstance(answer, bytes):
        check_reserved(jobs[0].queue, transfer, answer.decode() or None)


def _restored(job_id: str, answer: int | bytes) -> Restored:
    if isinstance(answer, bytes):
        return Restored(job_id, stored=False, holder=answer.decode())
    return Restored(job_id, stored=answer != _KNOWN)


def _noted(job: StoredJob, attached: Attached, message: Message) -> list[tuple[str, int]]:
    """Return the notes of a job: their names, and the places of what is noted."""
    return [(note.name, message.beside(packed_note(note))) for note in attached.notes.get(job.id, ())]


def _packed(job: StoredJob, message: Message) -> tuple[Any, ...]:
    """Return what `restore` of the scripts takes."""
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
