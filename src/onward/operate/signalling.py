"""Telling a job what it waits for, and looking at what it has noted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.backend import Inspection, Notes, StoredJob
from onward.base.failure import kind_of
from onward.client.auditing import Auditor
from onward.client.record import NoteRecord, note_record_of
from onward.errors import ArgumentError, EnvelopeError, JobNotFound, NotesFull
from onward.job.arguments import encode_result
from onward.job.envelope import Sealed, open_sealed
from onward.job.steps import MOST_NOTE_BYTES, MOST_NOTES, SIGNAL, note_name, within_limit
from onward.security.note_seals import NoteSeals

__all__ = ["Signaller"]


class Signaller:
    """The signals of an application, and the notes of its jobs."""

    def __init__(self, notes: Notes, inspection: Inspection, seals: NoteSeals, auditor: Auditor) -> None:
        self._notes = notes
        self._auditor = auditor
        self._inspection = inspection
        self._seals = seals

    def signal(
        self, job_id: str, name: str, value: Any, *, again: bool, by: str | None = None, reason: str = ""
    ) -> bool:
        """Store a signal and wake the job that waits for it.  False if it is over, or had been told before."""
        note_name(name, f"signal {name!r:.60}")
        encoded = _encoded(name, value)
        stored = self._inspection.get(job_id)
        if stored is None:
            raise _unknown(job_id)
        sealed = self._seals.seal(job_id, stored.queue, SIGNAL + name, encoded, private=_came_encrypted(stored))
        act = self._auditor.draft("signal", by, jobs=[job_id], ref=name, reason=reason)
        most = (MOST_NOTES, MOST_NOTE_BYTES)
        answer = self._notes.signal(job_id, name, sealed, again=again, at_most=most, audit=act.audit)
        act.done([job_id] if answer.stored else None)
        if answer.state is None:
            raise _unknown(job_id)
        if answer.full:
            raise NotesFull(
                f"job {job_id} has as many notes as it may have, {MOST_NOTES:,} of {MOST_NOTE_BYTES:,} bytes in all: signal "
                f"less, or where the data is"
            )
        return answer.stored

    def notes(self, job_id: str) -> Sequence[NoteRecord]:
        """Return the notes of a job, in the order of time."""
        return sorted((note_record_of(note) for note in self._notes.notes(job_id)), key=lambda note: note.at)


def _encoded(name: str, value: Any) -> bytes:
    try:
        encoded = encode_result(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(f"the value of signal {name!r} has no JSON form ({kind_of(error)}: {error})") from None
    return within_limit(encoded, f"the value of signal {name!r}")


def _came_encrypted(stored: StoredJob) -> bool:
    """Return whether what is stored of a job is to be encrypted, whatever the setting here says."""
    try:
        return open_sealed(Sealed(stored.id, stored.queue, stored.data)).enc is not None
    except EnvelopeError:
        return False


def _unknown(job_id: str) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}: it was never enqueued here, was removed, or is not committed yet")
