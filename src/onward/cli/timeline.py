"""One job as a timeline: its fields, then what happened to it and when."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from onward.cli import output
from onward.cli.table import StyledLine
from onward.cli.text import json_text
from onward.cli.times import ago, stamp
from onward.job.secrets import masked
from onward.job.states import State
from onward.operate.shown import hides_arguments, unreadable
from onward.operate.timeline import TimelineEvent, events_of

if TYPE_CHECKING:
    from onward.client.auditing import AuditRecord
    from onward.client.record import JobRecord, NoteRecord

__all__ = ["as_data", "show"]

_LABEL = 10
_NOT_SHOWN = {"raw", "has_secrets", "is_defined", "withholds_result", "result_error", "decrypted"}
_HIDDEN = "name the application that defines this job with --app to see its arguments, with secrets masked"


def show(
    args: Namespace, record: JobRecord, notes: Sequence[NoteRecord] = (), entries: Sequence[AuditRecord] = ()
) -> None:
    """Print a job with its notes and what people did to it, for people or for machines."""
    if args.json:
        told = {"notes": [asdict(note) for note in notes], "audit": [asdict(entry) for entry in entries]}
        output.json_line(as_data(record) | told | _unreadable(record))
    else:
        for line in _lines(record, events_of(record, notes, entries)):
            output.write(line)


def as_data(record: JobRecord) -> dict[str, Any]:
    """Return a record for machines: every field but the sealed bytes, which hold nothing more."""
    data = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in _NOT_SHOWN}
    hidden = {"payload": None, "hidden": _HIDDEN} if hides_arguments(record) else {}
    return data | {"result": masked(record.result)} | hidden


def _unreadable(record: JobRecord) -> dict[str, Any]:
    """Return why the sealed bytes cannot be read, and the bytes; nothing if they can."""
    told = unreadable(record)
    if told is None:
        return {}
    return {"unreadable": told, "raw": record.raw} if record.raw else {"unreadable": told}


def _lines(record: JobRecord, events: Sequence[TimelineEvent]) -> Iterator[StyledLine]:
    """Yield the fields of the job, an empty line, and what happened to it."""
    yield [(record.name, "bold"), ("  ", ""), (record.state, output.style_of(record.state))]
    for label, value in _facts(record):
        yield [(label.ljust(_LABEL), "dim"), (value, "")]
    yield []
    for event in events:
        yield [(stamp(event.at), "dim"), ("  ", ""), (_told(event, record), _style(event, record))]
        for line in event.detail.splitlines():
            yield [("    ", ""), (line, "dim")]


def _told(event: TimelineEvent, record: JobRecord) -> str:
    """Return an event with its age, where that matters."""
    if event.kind == "due":
        return f"{event.text} {ago(event.at)}"
    if event.kind == "started" and record.state is State.EXECUTING:
        started, asked, rest = event.text.partition("; ")
        return f"{started} {ago(event.at)}{asked}{rest}"
    return event.text


def _style(event: TimelineEvent, record: JobRecord) -> str:
    match event.kind:
        case "failed" | "crashed":
            return "yellow"
        case "audit":
            return "bold red" if event.is_altered else "magenta"
        case "due" | "ended":
            return output.style_of(record.state)
        case "started":
            return output.style_of(record.state) if record.state is State.EXECUTING else ""
        case _:
            return ""


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
        yield "waits for", record.waiting_for if record.awaits_node else f"signal '{record.waiting_for}'"
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
    return f"hidden: {_HIDDEN}" if hides_arguments(record) else json_text(record.payload)


def _runs(record: JobRecord) -> str:
    allowed = "" if record.max_retries is None else f" of {record.max_retries + 1}"
    others = ((record.crashes, "crashed"), (record.interruptions, "interrupted"))
    return ", ".join([f"{record.attempts}{allowed}", *(f"{number} {word}" for number, word in others if number)])
