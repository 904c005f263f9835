"""One job as a timeline: its fields, then what happened to it and when."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.cli import output
from onward.cli.table import StyledLine
from onward.cli.text import json_text
from onward.cli.times import ago, length, stamp
from onward.errors import EnvelopeError
from onward.job.secrets import masked
from onward.job.states import State

if TYPE_CHECKING:
    from onward.client.auditing import AuditRecord
    from onward.client.record import JobRecord, NoteRecord, RunError

__all__ = ["as_data", "show"]

_LABEL = 10
_NOT_SHOWN = {"raw", "has_secrets", "is_defined", "withholds_result", "result_error", "decrypted"}
_HIDDEN = "name the application that defines this job with --app to see its arguments, with secrets masked"


class TimelineEntry(NamedTuple):
    at: datetime
    told: str
    style: str = ""
    below: str = ""  # a traceback


def show(
    args: Namespace, record: JobRecord, notes: Sequence[NoteRecord] = (), entries: Sequence[AuditRecord] = ()
) -> None:
    """Print a job with its notes and what people did to it, for people or for machines."""
    if args.json:
        told = {"notes": [asdict(note) for note in notes], "audit": [asdict(entry) for entry in entries]}
        output.json_line(as_data(record) | told | _unreadable(record))
    else:
        for line in _lines(record, [*map(_noted, notes), *map(_acted, reversed(entries))]):
            output.write(line)


def as_data(record: JobRecord) -> dict[str, Any]:
    """Return a record for machines: every field but the sealed bytes, which hold nothing more."""
    data = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in _NOT_SHOWN}
    hidden = {"payload": None, "hidden": _HIDDEN} if _hides_payload(record) else {}
    return data | {"result": masked(record.result)} | hidden


def _hides_payload(record: JobRecord) -> bool:
    """Return whether arguments would be shown by a command that cannot know which of them are secret."""
    return not record.is_defined and bool(record.payload) and record.reveal() is not None


def _unreadable(record: JobRecord) -> dict[str, Any]:
    """Return why the sealed bytes cannot be read, and the bytes; nothing if they can."""
    from onward.job.envelope import Sealed, open_sealed

    if not record.raw:
        return {"unreadable": "only a tombstone is left"}
    try:
        open_sealed(Sealed(record.id, record.queue, record.raw))
    except EnvelopeError as error:
        return {"unreadable": str(error), "raw": record.raw}
    return {}


def _lines(record: JobRecord, others: Sequence[TimelineEntry]) -> Iterator[StyledLine]:
    """Yield the fields of the job, an empty line, and what happened to it."""
    yield [(record.name, "bold"), ("  ", ""), (record.state, output.style_of(record.state))]
    for label, value in _facts(record):
        yield [(label.ljust(_LABEL), "dim"), (value, "")]
    yield []
    # Sorting is stable: entries of the same microsecond keep their order.
    for event in sorted((*others, *_events(record)), key=lambda event: event.at):
        yield [(stamp(event.at), "dim"), ("  ", ""), (event.told, event.style)]
        for line in event.below.splitlines():
            yield [("    ", ""), (line, "dim")]


def _facts(record: JobRecord) -> Iterator[tuple[str, str]]:
    yield "id", record.id
    if record.job != record.name:
        yield "handler", record.job
    yield "queue", record.queue + (f", priority {record.priority}" if record.priority else "")
    if record.lane is not None:
        yield "lane", record.lane
    yield "payload", _payload(record)
    if record.meta:
        yield "meta", json_text(record.meta)
    yield "runs", _runs(record)
    if record.damage is not None:
        yield "damaged", f"{record.damage}: no worker writes that"
    if record.waiting_for is not None:
        yield "waits for", f"signal '{record.waiting_for}'"
    if record.owner is not None and record.state is State.EXECUTING:
        yield "session", record.owner
    if record.progress is not None:
        note = f", {record.progress.note}" if record.progress.note else ""
        yield "progress", f"{record.progress.fraction:.0%}{note}"
    if record.state is State.COMPLETED:
        yield "result", "unreadable" if record.result_error else json_text(masked(record.result))


def _payload(record: JobRecord) -> str:
    if broken := _unreadable(record):
        return f"unreadable: {broken['unreadable']}"
    return f"hidden: {_HIDDEN}" if _hides_payload(record) else json_text(record.payload)


def _runs(record: JobRecord) -> str:
    allowed = "" if record.max_retries is None else f" of {record.max_retries + 1}"
    others = ((record.crashes, "crashed"), (record.interruptions, "interrupted"))
    return ", ".join([f"{record.attempts}{allowed}", *(f"{number} {word}" for number, word in others if number)])


def _events(record: JobRecord) -> Iterator[TimelineEntry]:
    style = output.style_of(record.state)
    yield TimelineEntry(record.enqueued_at, "enqueued")
    if record.state is State.EXECUTING and record.started_at is not None:
        asked = "; it was asked to stop" if record.cancel_requested else ""
        yield TimelineEntry(
            record.started_at, f"run {record.attempts + 1} started {ago(record.started_at)}{asked}", style
        )
    elif record.started_at is not None and (told := _last_claim(record, record.started_at)):
        yield TimelineEntry(record.started_at, told)
    yield from (_failure(error, record) for error in record.errors)
    if record.finished_at is not None:
        reason = f": {record.reason}" if record.reason else ""
        yield TimelineEntry(record.finished_at, f"{record.state}{reason}", style)
    elif record.state is not State.EXECUTING:
        yield TimelineEntry(record.available_at, f"{record.state}, due {ago(record.available_at)}", style)


def _noted(note: NoteRecord) -> TimelineEntry:
    told = {
        "step": "step {} is done",
        "sleep": "sleep {} began",
        "wait": "wait for {} began",
        "signal": "signal {} came",
    }
    return TimelineEntry(note.at, told[note.kind].format(f"'{note.name}'"))


def _acted(entry: AuditRecord) -> TimelineEntry:
    about = f" '{entry.ref}'" if entry.ref else ""
    why = f": {entry.detail}" if entry.detail else ""
    is_altered = entry.trust == "altered"
    doubt = "  (ALTERED: its signature does not match)" if is_altered else ""
    return TimelineEntry(
        entry.at, f"{entry.act}{about} by {entry.who}{why}{doubt}", "bold red" if is_altered else "magenta"
    )


def _last_claim(record: JobRecord, claimed_at: datetime) -> str:
    """Return what came of the last claim: not every claim leads to a run."""
    if record.is_finished and not record.attempts and not record.crashes:
        return ""  # the job was skipped or cancelled, and its last entry says why
    if not record.waits or any(error.at >= claimed_at for error in record.errors):
        return "the last run started"
    if record.parked_since is not None:
        return f"it did not run: parked since {stamp(record.parked_since)}, no worker that claimed it knows its handler"
    often = "1 time" if record.waits == 1 else f"{record.waits} times"
    return f"it did not run: another job holds its key or single instance ({often} in a row)"


def _failure(error: RunError, record: JobRecord) -> TimelineEntry:
    # A run that succeeded may have a record: an interruption that it ignored, or an error after its transaction.
    succeeded = record.state is State.COMPLETED and error.attempt == record.attempts and error.kind != "Crash"
    took = f" after {length(error.duration_ms / 1000)}" if error.duration_ms else ""
    first, *rest = error.message.splitlines() or [""]
    below = error.traceback or "\n".join(rest)
    return TimelineEntry(
        error.at,
        f"run {error.attempt} {'succeeded' if succeeded else 'failed'}{took}: {error.kind}: {first}",
        "yellow",
        below,
    )
