"""What happened to a job, in the order of time: its runs, its notes, and what people did to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from onward.base.durations import spoken
from onward.client.auditing import AuditRecord
from onward.client.record import JobRecord, NoteRecord, RunError
from onward.job.states import State

__all__ = ["TimelineEvent", "events_of", "what_was_done"]

Kind = Literal["enqueued", "due", "started", "failed", "crashed", "ended", "note", "audit"]


class TimelineEvent(NamedTuple):
    """Something that happened to a job.  An age is not in the text: a face tells it, from ``at``."""

    at: datetime
    kind: Kind
    text: str
    detail: str = ""  # a traceback
    place: str = ""  # where a run failed: host, process, build
    is_altered: bool = False  # of an audit entry: its signature does not match


def events_of(
    record: JobRecord, notes: Sequence[NoteRecord] = (), entries: Sequence[AuditRecord] = ()
) -> list[TimelineEvent]:
    """Return the events of a job, the earliest first; ``entries`` are given with the newest first."""
    # Events of one instant: first that it was enqueued, then what people and steps did, then what came of that.
    others = [*map(_noted, notes), *map(_acted, reversed(entries))]
    placed = [(event.at, 1, event) for event in others]
    # A run begins after the one before it has failed, whatever the clocks of two hosts say.
    reached = record.enqueued_at
    for event in _events(record):
        reached = max(reached, event.at)
        placed.append((reached, 0 if event.kind == "enqueued" else 2, event))
    return [event for *_, event in sorted(placed, key=lambda each: each[:2])]


def _events(record: JobRecord) -> Iterator[TimelineEvent]:
    """Yield what the job itself went through, each event after those that it came of."""
    yield TimelineEvent(record.enqueued_at, "enqueued", "enqueued")
    before, last = _around_the_last_claim(record)
    yield from (_failure(error, record) for error in before)
    if record.state is State.EXECUTING and record.started_at is not None:
        asked = "; it was asked to stop" if record.cancel_requested else ""
        yield TimelineEvent(record.started_at, "started", f"run {record.attempts + 1} started{asked}")
    elif record.started_at is not None and (told := _last_claim(record)):
        yield TimelineEvent(record.started_at, "started", told)
    yield from (_failure(error, record) for error in last)
    if record.finished_at is not None:
        reason = f": {record.reason}" if record.reason else ""
        yield TimelineEvent(record.finished_at, "ended", f"{record.state}{reason}")
    elif record.state is not State.EXECUTING and record.due_at is not None:
        yield TimelineEvent(record.due_at, "due", f"{record.state}, due")


def _around_the_last_claim(record: JobRecord) -> tuple[Sequence[RunError], Sequence[RunError]]:
    """Return the errors of earlier runs, and that of the run which the last claim began, if it has one."""
    errors = record.errors
    if record.started_at is None or not errors or errors[-1].delivery != record.delivery:
        return errors, ()
    return errors[:-1], errors[-1:]


_NOTED = {
    "step": "step {} is done",
    "sleep": "sleep {} began",
    "wait": "wait for {} began",
    "signal": "signal {} came",
}


def _noted(note: NoteRecord) -> TimelineEvent:
    return TimelineEvent(note.at, "note", _NOTED[note.kind].format(f"'{note.name}'"))


def _acted(entry: AuditRecord) -> TimelineEvent:
    about = f" '{entry.ref}'" if entry.ref else ""
    is_altered = entry.trust == "altered"
    doubt = "  (ALTERED: its signature does not match)" if is_altered else ""
    why = f": {entry.detail}" if entry.detail else ""
    return TimelineEvent(entry.at, "audit", f"{entry.act}{about} by {entry.who}{why}{doubt}", is_altered=is_altered)


def what_was_done(entry: AuditRecord) -> str:
    """Return an entry of the audit trail in one line, without who and when."""
    about = " ".join(filter(None, (entry.job_id, entry.ref)))
    why = f": {entry.detail}" if entry.detail else ""
    return f"{entry.act} {about}{why}".strip()


def _last_claim(record: JobRecord) -> str:
    """Return what came of the last claim: not every claim leads to a run."""
    if record.is_finished and not record.attempts and not record.crashes:
        return ""  # the job was skipped or cancelled, and its last event says why
    if not record.waits or any(error.delivery == record.delivery for error in record.errors):
        return "the last run started" if record.attempts + record.crashes > 1 else "the run started"
    if record.parked_since is not None:
        since = f"{record.parked_since:%Y-%m-%d %H:%M:%S}Z"
        return f"it did not run: parked since {since}, no worker that claimed it knows its handler"
    often = "1 time" if record.waits == 1 else f"{record.waits} times"
    return f"it did not run: another job holds its key or single instance ({often} in a row)"


def _failure(error: RunError, record: JobRecord) -> TimelineEvent:
    # A run that succeeded may have a record: an interruption that it ignored, or an error after its transaction.
    succeeded = record.state is State.COMPLETED and error.attempt == record.attempts and error.kind != "Crash"
    took = f" after {spoken(error.duration_ms / 1000)}" if error.duration_ms else ""
    first, *rest = error.message.splitlines() or [""]
    ran = [error.host, None if error.pid is None else f"process {error.pid}", error.build and f"build {error.build}"]
    return TimelineEvent(
        error.at,
        "crashed" if error.kind == "Crash" else "failed",
        f"run {error.attempt} {'succeeded' if succeeded else 'failed'}{took}: {error.kind}: {first}",
        error.traceback or "\n".join(rest),
        ", ".join(filter(None, ran)),
    )
