"""One job: why it is where it is, what happened to it, and what can be done."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from onward.client.auditing import AuditRecord
from onward.client.record import JobRecord, NoteRecord, RunError, SessionRecord
from onward.errors import Unsupported
from onward.job.secrets import MASK
from onward.job.states import FINISHED, State
from onward.operate.editing import EDITED_FROM
from onward.operate.timeline import events_of
from onward.web.asking import WebCall
from onward.web.job_answers import ActView, ArgumentView, EventView, JobAnswer, NoteView, ReasonView, RunView
from onward.web.views import arguments_of, audit_view, job_row, json_text, reason_view, result_of

__all__ = ["job"]

_ENTRIES = 100
_AROUND = timedelta(minutes=5)  # before and after, in links to logs
_WAITING = (State.SCHEDULED, State.RETRYABLE)


def job(asked: WebCall) -> JobAnswer:
    record = asked.record()
    notes = asked.jobs.notes(record.id) if asked.can("notes") else ()
    entries = asked.jobs.audit(job=record.id, limit=_ENTRIES) if asked.can("audit") else ()
    arguments, arguments_note = arguments_of(record)
    result, result_note = result_of(record)
    retries = asked.jobs.retry_times(record)
    session = _session(asked, record)
    return JobAnswer(
        at=datetime.now(UTC),
        job=job_row(record),
        handler=record.job if record.job != record.name else "",
        why=_why(asked, record),
        timeline=[*_events(record, notes, entries), *_to_come(retries)],
        runs=[_run(error) for error in record.errors],
        notes=[NoteView(kind=note.kind, name=note.name, at=note.at) for note in notes],
        audit=[audit_view(entry) for entry in entries],
        retries=list(retries),
        arguments=arguments,
        arguments_note=arguments_note,
        meta=json_text(record.meta) if record.meta else "",
        result=result,
        result_note=result_note,
        reason=record.reason,
        progress=None if record.progress is None else record.progress.fraction,
        progress_note="" if record.progress is None else record.progress.note or "",
        priority=record.priority,
        attempts=record.attempts,
        max_attempts=None if record.max_retries is None else record.max_retries + 1,
        crashes=record.crashes,
        interruptions=record.interruptions,
        available_at=record.available_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        cancel_requested=record.cancel_requested,
        waiting_for=record.waiting_for,
        owner=record.owner,
        worker=None if session is None else f"{session.host or 'an unnamed host'}, process {session.pid}",
        flow=record.flow,
        node=record.node,
        group=_group(record),
        edited_from=_edited_from(record),
        damage=record.damage,
        acts=list(_acts(asked, record, session)),
        editable=_editable(record, arguments),
        as_python=f"jobs.handle({record.id!r})",
        as_command=f"onward job show {record.id}",
        log_url=_link(asked.parts.settings.log_url, record),
        trace_url=_link(asked.parts.settings.trace_url, record),
    )


def _why(asked: WebCall, record: JobRecord) -> ReasonView | None:
    try:
        return reason_view(asked.jobs.why(record.id))
    except Unsupported:
        return None


def _events(record: JobRecord, notes: Sequence[NoteRecord], entries: Sequence[AuditRecord]) -> Iterator[EventView]:
    for event in events_of(record, notes, entries):
        yield EventView(
            at=event.at,
            kind=event.kind,
            text=event.text,
            detail=event.detail,
            place=event.place,
            state=str(record.state) if event.kind == "ended" else "",
            altered=event.is_altered,
            is_to_come=event.kind == "due" and event.at > datetime.now(UTC),
        )


def _to_come(retries: Sequence[datetime]) -> Iterator[EventView]:
    for number, at in enumerate(retries, start=1):
        yield EventView(
            at=at, kind="retry", text=f"would run again, if it fails (retry {number} from now)", is_to_come=True
        )


def _run(error: RunError) -> RunView:
    return RunView(
        attempt=error.attempt,
        kind=error.kind,
        message=error.message,
        traceback=error.traceback,
        at=error.at,
        duration_ms=error.duration_ms,
        host=error.host,
        pid=error.pid,
        build=error.build,
        fingerprint=error.fingerprint,
    )


def _session(asked: WebCall, record: JobRecord) -> SessionRecord | None:
    """Return the worker that runs it."""
    if record.owner is None or record.state is not State.EXECUTING or not asked.can("workers"):
        return None
    return next((worker for worker in asked.jobs.sessions() if worker.owner == record.owner), None)


def _no_stack(record: JobRecord, session: SessionRecord | None) -> str:
    if record.state is not State.EXECUTING:
        return f"it is {record.state}: only a job that runs has a stack"
    if session is not None and session.host != platform.node():
        return f"it runs on {session.host or 'another host'}: there, `onward job stack {record.id}` shows it"
    return ""


def _group(record: JobRecord) -> str | None:
    return record.errors[-1].fingerprint or None if record.state is State.DISCARDED and record.errors else None


def _edited_from(record: JobRecord) -> str | None:
    found = record.meta.get(EDITED_FROM)
    return found if isinstance(found, str) else None


def _acts(asked: WebCall, record: JobRecord, session: SessionRecord | None) -> Iterator[ActView]:
    """Yield every act, and why it cannot be done: for the state of the job, or by the store."""
    state, told = record.state, f"it is {record.state}"
    needs = {
        "retry": "" if state in _WAITING else f"{told}: a job that waits for its time can be run now",
        "cancel": "" if state not in FINISHED else f"{told}: there is nothing to cancel",
        "replay": ""
        if state in (State.DISCARDED, State.CANCELLED)
        else f"{told}: dead and cancelled jobs are replayed",
        "edit": "" if state is State.DISCARDED else f"{told}: only dead jobs are edited",
        "signal": "" if state not in FINISHED else f"{told}: it waits for nothing",
        "stack": _no_stack(record, session),
    }
    for act, reason in needs.items():
        lacks = asked.parts.unavailable.get(act, "")
        yield ActView(act=act, possible=not (lacks or reason), reason=lacks or reason)  # type: ignore[arg-type]


def _editable(record: JobRecord, shown: str) -> list[ArgumentView]:
    if record.state is not State.DISCARDED or not shown or not isinstance(record.payload, dict):
        return []
    return [
        ArgumentView(name=name, text=json_text(value), secret=_is_secret(value), type=_type_of(value))
        for name, value in record.payload.items()
    ]


def _is_secret(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_is_secret, value.values()))
    return any(map(_is_secret, value)) if isinstance(value, list) else value == MASK


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    names = {str: "text", int: "whole number", float: "number", list: "list", dict: "object"}
    return names.get(type(value), "")


def _link(template: str | None, record: JobRecord) -> str | None:
    """Fill in a link to a log or a trace; only one that a browser opens as a page."""
    if template is None:
        return None
    first = (record.started_at or record.enqueued_at) - _AROUND
    last = (record.finished_at or datetime.now(UTC)) + _AROUND
    trace = str(record.meta.get("onward.traceparent", "")).split("-")
    values = {
        "job_id": record.id,
        "from": str(int(first.timestamp() * 1000)),
        "to": str(int(last.timestamp() * 1000)),
        "trace_id": trace[1] if len(trace) == 4 else "",
    }
    if "{trace_id}" in template and not values["trace_id"]:
        return None
    for name, value in values.items():
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return template
