"""From what the application knows to what the page draws: rows, reasons, checks, limits, entries of the audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from onward.backend import Check
from onward.base.clock import from_micros
from onward.client.auditing import AuditRecord
from onward.client.record import JobRecord
from onward.flow.limits import Bounds
from onward.job.secrets import masked
from onward.job.states import State
from onward.operate.death_watch import last_error
from onward.operate.limits import LimitRecord
from onward.operate.queue_rows import QueueRow, rows
from onward.operate.shown import hides_arguments, unreadable
from onward.operate.timeline import what_was_done
from onward.operate.watching import WatchedStore
from onward.operate.why.reason import Reason
from onward.web.answers import CheckView, Counted, LimitView, QueueView, StateCount
from onward.web.auth import User
from onward.web.job_answers import AuditView, JobRowView, ReasonView

__all__ = [
    "arguments_of",
    "audit_view",
    "check_view",
    "job_row",
    "json_text",
    "limit_view",
    "queue_view",
    "reason_view",
    "result_of",
    "state_counts",
    "worst_first",
]

_LIFE = (
    *(State.SCHEDULED, State.AVAILABLE, State.EXECUTING, State.RETRYABLE),
    *(State.COMPLETED, State.DISCARDED, State.CANCELLED),
)
_HIDDEN = (
    "this process does not define the job, so it cannot know which arguments are secret: serve the dashboard from the "
    "application"
)
_ONE_LINE = 300  # characters of an error in a list
_WORST = {"fail": 0, "warn": 1, "ok": 2}
_PAGES = {
    **dict.fromkeys(("served", "late", "paused"), "queues/"),
    **dict.fromkeys(("dying", "crashing"), "dead"),
    **dict.fromkeys(("sessions", "builds", "versions", "keys", "clock", "samples", "stuck"), "workers"),
    "schedules": "schedules/",
    "known": "jobs?filter=state%3Ascheduled",
}
_ACTS = {"paused": "resume", "not_due": "retry", "sleeping": "retry", "held": "retry", "cancelled": "replay"}


def json_text(value: Any) -> str:
    """Return a value as lines of JSON, for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def job_row(record: JobRecord) -> JobRowView:
    """Return a job as a row of a list."""
    when: datetime | None
    word: Literal["due", "began", "ended", "waits"]
    if record.finished_at is not None:
        when, word = record.finished_at, "ended"
    elif record.state is State.EXECUTING and record.started_at is not None:
        when, word = record.started_at, "began"
    else:
        when, word = record.due_at, "waits" if record.due_at is None else "due"
    told = last_error(record) if record.errors or record.reason else ""
    return JobRowView(
        id=record.id,
        name=record.name,
        queue=record.queue,
        state=str(record.state),
        enqueued_at=record.enqueued_at,
        when=when,
        when_is=word,
        tries=f"{record.attempts}/{'?' if record.max_retries is None else record.max_retries + 1}",
        error=" ".join(told.split())[:_ONE_LINE] or None,
        progress=None if record.progress is None else record.progress.fraction,
        lane=record.lane,
        flow=record.flow,
        damaged=record.damage is not None,
    )


def arguments_of(record: JobRecord) -> tuple[str, str]:
    """Return the arguments as text, and why they are not shown."""
    broken = unreadable(record)
    if broken is not None:
        return "", f"they cannot be read: {broken}"
    return ("", _HIDDEN) if hides_arguments(record) else (json_text(record.payload), "")


def result_of(record: JobRecord) -> tuple[str | None, str]:
    """Return the result as text, and what is to be said of it."""
    if record.state is not State.COMPLETED:
        return None, ""
    if record.result_error:
        return None, f"it cannot be read: {record.result_error}"
    return json_text(masked(record.result)), ""


def reason_view(reason: Reason) -> ReasonView:
    other = reason.facts.get("holders") or reason.facts.get("job_id")
    act = _ACTS.get(reason.code)
    return ReasonView(
        code=reason.code,
        text=reason.text,
        fix=reason.fix,
        until=reason.until,
        exact=reason.exact,
        facts=json_text(reason.facts),
        then=list(reason.then),
        act="replay" if reason.code == "discarded" else act,
        job_id=other[0] if isinstance(other, list) and other else other if isinstance(other, str) else None,
    )


def audit_view(entry: AuditRecord) -> AuditView:
    page = f"jobs/{entry.job_id}" if entry.job_id else ""
    if not page and entry.act in ("pause", "resume"):
        page = f"queues/{quote(entry.ref, safe='')}"
    elif not page and entry.act.endswith("-schedule"):
        page = f"schedules/{quote(entry.ref, safe='')}"
    elif not page and entry.act.endswith("-flow"):
        page = f"flows/{quote(entry.ref, safe='')}"
    return AuditView(
        at=entry.at,
        who=entry.who,
        act=entry.act,
        detail=entry.detail,
        ref=entry.ref,
        job_id=entry.job_id,
        trust=str(entry.trust),
        place=entry.place,
        text=what_was_done(entry),
        page=page,
    )


def check_view(check: Check) -> CheckView:
    page = _PAGES.get(check.name, "health")
    if page.endswith("/"):
        page = f"{page}{quote(check.about[0], safe='')}" if check.about else page.rstrip("/")
    return CheckView(
        name=check.name,
        status=check.status,
        detail=check.detail,
        fix=check.fix,
        about=list(check.about),
        page="" if check.status == "ok" else page,
    )


def worst_first(checks: Sequence[Check]) -> list[CheckView]:
    return [check_view(check) for check in sorted(checks, key=lambda check: _WORST[check.status])]


def state_counts(look: WatchedStore, user: User) -> list[StateCount]:
    """Return how many jobs are in each state, in the order of a job's life.

    To a person who sees some queues only, the jobs of those: live jobs alone, because ended ones are not counted by queue.
    """
    own = [row for row in rows(look) if user.sees(row.name)]

    def counted(state: State) -> StateCount:
        numbers = [look.counted(state)] if user.queues is None else [row.in_state(state) for row in own]
        or_more = any(is_cut for _, is_cut in numbers)
        return StateCount(state=str(state), count=sum(number for number, _ in numbers), or_more=or_more)

    return [counted(state) for state in _LIFE]


def queue_view(row: QueueRow, **more: Any) -> QueueView:
    """Return a queue of a look; what only some pages show is given."""
    queue = row.queue

    def counted(number: tuple[int, bool]) -> Counted:
        return Counted(count=number[0], or_more=number[1])

    return QueueView(
        name=queue.name,
        paused=queue.paused,
        paused_at=None if queue.paused_at is None else from_micros(queue.paused_at),
        paused_by=more.get("paused_by"),
        oldest_due=None if queue.oldest_due is None else from_micros(queue.oldest_due),
        due=counted(row.due),
        running=counted(row.in_state(State.EXECUTING)),
        retryable=counted(row.in_state(State.RETRYABLE)),
        scheduled=counted(row.in_state(State.SCHEDULED)),
        rate_in=row.pace.enters,
        rate_out=row.pace.out,
        eta=row.pace.eta,
        p95=row.pace.p95,
        servers=more.get("servers"),
        trouble=row.trouble,
        limits=more.get("limits", []),
        depth=more.get("depth", []),
    )


def limit_view(limit: LimitRecord) -> LimitView:
    rate = None if limit.rate is None else str(limit.rate)
    return LimitView(
        kind=limit.kind,
        name=limit.name,
        running=limit.running,
        rate=rate,
        declared=_bounds(limit.declared),
        chosen=_bounds(limit.chosen),
        running_now=limit.running_now,
        tokens=limit.tokens,
        next_token_at=limit.next_token_at,
        is_shut=limit.is_shut,
        shut_until=limit.shut_until,
        text=limit_in_short(limit),
    )


def limit_in_short(limit: LimitRecord) -> str:
    """Return what a limit allows and what is used of it, without ages."""
    if limit.running_now is None:
        running = "" if limit.running is None else f"{limit.running} each"
    else:
        running = f"{limit.running_now} running" if limit.running is None else f"{limit.running_now} of {limit.running}"
    return ", ".join(
        filter(None, (running, "" if limit.rate is None else str(limit.rate), "shut" if limit.is_shut else ""))
    )


def _bounds(bounds: Bounds) -> str:
    running = "" if bounds.running is None else f"{bounds.running} running"
    return ", ".join(filter(None, (running, "" if bounds.rate is None else str(bounds.rate))))
