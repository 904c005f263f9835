"""Jobs by a filter, and acts on one of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from onward.base.wording import BY_REQUEST, counted
from onward.errors import BackendError, Unsupported
from onward.job.states import State
from onward.operate.finding import Found
from onward.operate.refusals import why_not_cancelled, why_not_retried, why_not_signalled
from onward.web.act_answers import ChangeView, DoneAnswer, EditAnswer
from onward.web.asking import WebCall
from onward.web.failures import Refused
from onward.web.job_answers import FrameView, JobsAnswer, ReasonView, StackAnswer, TabView
from onward.web.views import job_row, json_text, reason_view, state_counts
from onward.worker.diagnostics.asking import stack_of_job

__all__ = ["cancel", "edit", "jobs", "replay", "retry", "signal", "stack", "why"]


def jobs(asked: WebCall) -> JobsAnswer:
    query = asked.query
    found = asked.jobs.find(query.filter, limit=query.limit, after=query.after, queues=asked.user.queues)
    is_empty = not found.jobs and found.next is None and query.after is None
    return JobsAnswer(
        at=datetime.now(UTC),
        filter=query.filter.strip(),
        jobs=[job_row(record) for record in found.jobs],
        next=found.next,
        looked=found.looked,
        text=_told(found),
        empty=_why_empty(asked, query.filter) if is_empty else "",
        tabs=_tabs(asked),
    )


def why(asked: WebCall) -> ReasonView:
    if not asked.can("jobs"):
        return reason_view(asked.jobs.why(asked.parameters["id"]))  # raises what the store lacks
    record = asked.find()
    if record is None and (gone := asked.gone()) is not None:
        return reason_view(gone)
    return reason_view(asked.jobs.why((record or asked.record()).id))


def stack(asked: WebCall) -> StackAnswer:
    record = asked.record()
    found = stack_of_job(record, asked.jobs.sessions() if record.state is State.EXECUTING else ())
    lines = [f"{each.function}  {each.file}:{each.line}\n    {each.code}" for each in found.frames]
    return StackAnswer(
        pid=found.pid,
        where=found.where,
        frames=[
            FrameView(function=each.function, file=each.file, line=each.line, code=each.code) for each in found.frames
        ],
        text="\n".join(lines) or "its handler has not been called yet, or has just returned",
    )


def retry(asked: WebCall) -> DoneAnswer:
    record = asked.record()
    done = asked.jobs.retry(record.id, by=asked.who, reason=asked.body.reason)
    return _done(asked, done, "due now", why_not_retried(record))


def replay(asked: WebCall) -> DoneAnswer:
    record = asked.record()
    if record.state is State.CANCELLED and not asked.body.fresh:
        done = asked.jobs.retry(record.id, by=asked.who, reason=asked.body.reason)
        return _done(asked, done, "back in its queue", why_not_retried(record))
    if record.state is not State.DISCARDED:
        raise _moved_on(f"it is {record.state}, and only dead and cancelled jobs are replayed")
    by = {"by": asked.who, "reason": asked.body.reason}
    replayed = asked.jobs.dead_letters.replay([record.id], fresh=asked.body.fresh, **by)
    return _done(asked, bool(replayed), "back in its queue", replayed.skipped.get(record.id) or why_not_retried(record))


def cancel(asked: WebCall) -> DoneAnswer:
    record = asked.record()
    match asked.jobs.cancel(record.id, asked.body.reason or BY_REQUEST, by=asked.who):
        case State.CANCELLED:
            return _done(asked, done=True, text="cancelled")
        case State.EXECUTING:
            return _done(asked, done=True, text="it is running, and was asked to stop")
        case _:
            return _done(asked, done=False, why_not=why_not_cancelled(record))


def signal(asked: WebCall) -> DoneAnswer:
    record, body = asked.record(), asked.body
    value = _json(body.value, "value")
    done = asked.jobs.signal(record.id, body.name, value, again=body.again, by=asked.who, reason=body.reason)
    return _done(asked, done, f"it was told {body.name}", why_not_signalled(record, "“again”"))


def edit(asked: WebCall) -> EditAnswer:
    record, body = asked.record(), asked.body
    if record.state is not State.DISCARDED:
        raise _moved_on(f"it is {record.state}, and only dead jobs are edited")
    given: dict[str, Any] = {"unset": body.unset}
    given["set"] = {name: _json(text, f"set.{name}") for name, text in body.set.items()}
    if body.payload is not None:
        given["payload"] = _json(body.payload, "payload")
    edited = asked.jobs.dead_letters.edit(record.id, **given, dry_run=body.dry_run, by=asked.who, reason=body.reason)
    asked.changed()
    if edited.held_by is not None:
        raise _moved_on(f"job {edited.held_by} holds the unique key of these arguments")
    return EditAnswer(
        id=edited.id,
        changes=[
            ChangeView(
                name=each.name,
                before=json_text(each.before) if each.was_given else None,
                after=json_text(each.after) if each.is_given else None,
            )
            for each in edited.changes
        ],
        checked=edited.checked,
        doubt=edited.doubt,
        enqueued=edited.enqueued,
        text=f"enqueued as {edited.id}" if edited.enqueued else "not enqueued yet",
    )


def _done(asked: WebCall, done: bool, text: str = "", why_not: str = "") -> DoneAnswer:
    """Return what was done, or refuse: the job has moved on, and the message says to what."""
    asked.changed()
    if not done:
        now = asked.jobs.get(asked.parameters["id"].replace("-", "").lower())
        raise _moved_on(why_not if now is None else f"{why_not} (it is {now.state} now)")
    return DoneAnswer(done=True, text=text)


def _moved_on(message: str) -> Refused:
    return Refused(409, "conflict", message, fix="look at the job again")


def _json(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        told = f"{field}: this is no JSON ({error})"
        raise Refused(400, "bad_request", told, field=field, fix='text is written in quotes: "text"') from None


def _told(found: Found) -> str:
    told = []
    if found.next is not None and len(found.jobs) < found.looked:
        told.append(f"Looked through {counted(found.looked, 'job')}; there are more.")
    if found.hidden:
        told.append(
            f"The arguments of {counted(found.hidden, 'job')} were not compared: this process does not define them."
        )
    return " ".join(told)


def _why_empty(asked: WebCall, text: str) -> str:
    """Return which word of a filter leaves no job."""
    words = text.split()
    if not words:
        return "There is no job."
    for word in words if len(words) > 1 and '"' not in text else ():
        rest = " ".join(each for each in words if each != word)
        try:
            if asked.jobs.find(rest, limit=1, queues=asked.user.queues).jobs:
                return f"No job matches all of this; without {word} some do."
        except BackendError:
            raise
        except Exception:  # noqa: BLE001, S112  the rest alone may not be a filter
            continue
    return "No job matches this filter."


def _tabs(asked: WebCall) -> list[TabView]:
    try:
        look = asked.parts.pictures.picture().look
    except Unsupported:
        return []
    return [
        TabView(state=each.state, count=each.count, or_more=each.or_more) for each in state_counts(look, asked.user)
    ]
