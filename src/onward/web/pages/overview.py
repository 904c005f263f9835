"""The overview, its charts, health and the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from onward.backend import ACTS, Check
from onward.base.durations import seconds, spoken
from onward.base.wording import counted
from onward.client.record import SessionRecord
from onward.errors import Unsupported
from onward.operate.commands import command, worker_for
from onward.operate.queue_rows import rows
from onward.operate.series.points import Series
from onward.version import __version__, build
from onward.web.answers import (
    AuditAnswer,
    FactView,
    HealthAnswer,
    MarkerView,
    PointView,
    PulseAnswer,
    SeriesAnswer,
    WorkersSummary,
)
from onward.web.asking import WebCall
from onward.web.auth import User
from onward.web.job_answers import AuditView
from onward.web.pages.queues import servers_of
from onward.web.views import audit_view, queue_view, state_counts, worst_first

__all__ = ["audit", "health", "pulse", "seen_checks", "series", "workers_summary"]

_LAST_ENTRIES = 5
_OF_QUEUES: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "served": ("no live worker serves", worker_for),
    "late": ("jobs have been due for too long in", worker_for),
    "paused": ("paused for long:", lambda queue: command("queue", "resume", queue)),
}
_NO_KEYS = "none"
# A page without any check would look as one on which all pass.
_NOT_CHECKED = Check(
    name="server",
    status="warn",
    detail="the checks could not be made, and are tried again within ten seconds",
    fix="onward health",
)


def pulse(asked: WebCall) -> PulseAnswer:
    look = asked.parts.pictures.picture().look
    checks = [check for check in seen_checks(look.checks or (), asked.user) if check.status != "ok"]
    queues = [row for row in rows(look) if asked.user.sees(row.name)]
    counts = state_counts(look, asked.user)
    return PulseAnswer(
        at=look.at,
        needs_you=worst_first(checks),
        checked=look.checks is not None,
        counts=counts,
        per_second=look.rate if asked.user.queues is None else None,
        rates=list(look.rates) if asked.user.queues is None else [],
        queues=[
            queue_view(row, servers=servers_of(look, row.name))
            for row in sorted(queues, key=lambda row: (not row.trouble, -(row.oldest or 0), row.name))
        ],
        workers=workers_summary(look.workers),
        dead_while_watching=look.deaths.while_watching if asked.user.queues is None else 0,
        audit=_last_entries(asked),
        empty=not any(each.count for each in counts) and not look.workers,
    )


def seen_checks(checks: Sequence[Check], user: User) -> list[Check]:
    """Return the checks that a person may see; who sees some queues only, those of queues, as far as they speak of these."""
    if user.queues is None:
        return list(checks)
    return [own for check in checks if check.name in _OF_QUEUES and (own := _own_part(check, user)) is not None]


def _own_part(check: Check, user: User) -> Check | None:
    """Return what a check says of the queues that a person sees: where no worker runs, it speaks of those of all people."""
    own = tuple(filter(user.sees, check.about))
    if own == check.about:  # or it passes, and names none
        return check
    if not own:
        return None
    text, fix = _OF_QUEUES[check.name]
    return replace(check, about=own, detail=f"{text} {', '.join(own)}", fix=fix(own[0]))


def workers_summary(workers: Sequence[SessionRecord]) -> WorkersSummary:
    live = [worker for worker in workers if worker.alive]
    slots = [worker.description.concurrency for worker in live if worker.description is not None]
    return WorkersSummary(
        live=len(live),
        expired=len(workers) - len(live),
        hosts=len({worker.host for worker in live}),
        slots=sum(slots) if len(slots) == len(live) else None,
        busy=sum(worker.leases for worker in live),
    )


def series(asked: WebCall) -> SeriesAnswer:
    query = asked.query
    if query.queue is not None:
        asked.check_queue(query.queue)
    queues = None if query.queue is not None else asked.user.queues
    found = asked.jobs.series(query.last, queue=query.queue, job=query.job, queues=queues)
    until = datetime.now(UTC)
    points = [each for each in found.points if query.since is None or each.at > query.since]
    return SeriesAnswer(
        since=until - timedelta(seconds=seconds(query.last)),
        until=until,
        points=[
            PointView(
                at=each.at,
                seconds=each.seconds,
                ended=each.ended,
                failed=each.failed,
                per_second=each.per_second,
                run_p50=each.run_p50,
                run_p95=each.run_p95,
                wait_p50=each.wait_p50,
                wait_p95=each.wait_p95,
                depth=each.depth,
                oldest_age=each.oldest_age,
            )
            for each in points
        ],
        markers=[MarkerView(at=each.at, build=each.build) for each in found.builds],
        summary=_summary(found, query.last),
    )


def health(asked: WebCall) -> HealthAnswer:
    at, checks, workers = _checked(asked)
    settings = asked.jobs.settings
    versions = [FactView(label="Onward", text=__version__), FactView(label="build", text=build())]
    versions += [FactView(label="namespace", text=settings.namespace)]
    for name in ("version", "build", "keys"):
        found = sorted({_told(worker, name) for worker in workers if worker.alive} - {""})
        if found and found != [_NO_KEYS]:
            versions += [FactView(label=f"workers' {name}", text="; ".join(found), ok=len(found) == 1)]
    can = asked.jobs.backend.capabilities
    return HealthAnswer(
        at=at,
        checks=worst_first(seen_checks(checks, asked.user)),
        versions=versions,
        capabilities=[
            FactView(label=name.replace("_", " "), text="yes" if getattr(can, name) else "no", ok=getattr(can, name))
            for name in can.__struct_fields__
        ],
    )


def _checked(asked: WebCall) -> tuple[datetime, Sequence[Check], Sequence[SessionRecord]]:
    """Return when all pages looked, the checks, and the workers: no page has the store checked for itself."""
    try:
        look = asked.parts.pictures.picture().look
    except Unsupported:  # a broker that shows nothing has checks of its own
        return datetime.now(UTC), asked.jobs.health(), ()
    return look.at, (_NOT_CHECKED,) if look.checks is None else look.checks, look.workers


def audit(asked: WebCall) -> AuditAnswer:
    query = asked.query
    entries = asked.jobs.audit(
        job=query.job, who=query.who, ref=query.ref, act=query.act, before=query.before, limit=query.limit
    )
    return AuditAnswer(
        entries=[audit_view(entry) for entry in entries],
        next=entries[-1].place if len(entries) == query.limit else None,
        acts=sorted(ACTS),
    )


def _last_entries(asked: WebCall) -> list[AuditView]:
    if not asked.can("audit") or asked.user.queues is not None:
        return []
    return [audit_view(entry) for entry in asked.parts.pictures.last_entries(_LAST_ENTRIES)]


def _summary(found: Series, last: str) -> str:
    if not found.points:
        return f"No worker has run in the last {spoken(seconds(last))}."
    ended, failed = sum(each.ended for each in found.points), sum(each.failed for each in found.points)
    deepest = max((each.depth or 0 for each in found.points), default=0)
    return (
        f"In the last {spoken(seconds(last))}, {counted(ended, 'job')} ended and {counted(failed, 'run')} failed; at most "
        f"{counted(deepest, 'job')} waited."
    )


def _told(worker: SessionRecord, name: str) -> str:
    if name == "version":
        return worker.version
    told = worker.description
    return "" if told is None else told.build if name == "build" else ", ".join(told.keys) or _NO_KEYS
