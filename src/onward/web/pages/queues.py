"""Queues: all of them, and one."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import OVERVIEW_QUEUES, QueueCounts
from onward.base.clock import SECOND
from onward.base.names import queue_name, serves
from onward.errors import InvalidName
from onward.job.states import State
from onward.operate.limits import LimitRecord
from onward.operate.queue_pace import QueuePace
from onward.operate.queue_rows import QueueRow, rows
from onward.operate.series.points import TimedMeasures, ended_in, numbers_of
from onward.operate.watching import WatchedStore
from onward.web.act_answers import DoneAnswer
from onward.web.answers import JobNameView, QueueAnswer, QueuesAnswer
from onward.web.asking import WebCall
from onward.web.failures import Refused
from onward.web.views import audit_view, limit_in_short, limit_view, queue_view

__all__ = ["pause", "queue", "queues", "resume", "servers_of"]

_MINUTES = 60
_MOST_NAMED = 20  # paused queues of which it is told who did it
_MOST_JOBS = 50
_ENTRIES = 20


def queues(asked: WebCall) -> QueuesAnswer:
    look = asked.parts.pictures.picture().look
    measures = asked.parts.pictures.last_hour()
    shown = [row for row in rows(look) if asked.user.sees(row.name)]
    paused = [row.name for row in shown if row.queue.paused][:_MOST_NAMED]
    who = {name: _paused_by(asked, name) for name in paused}
    return QueuesAnswer(
        at=look.at,
        queues=[
            queue_view(
                row,
                paused_by=who.get(row.name),
                servers=servers_of(look, row.name),
                limits=[
                    limit_in_short(limit) for limit in look.limits if (limit.kind, limit.name) == ("queue", row.name)
                ],
                depth=_depth(measures, row.name),
            )
            for row in sorted(shown, key=lambda row: (not row.trouble, -(row.oldest or 0), row.name))
        ],
        more=len(look.overview.queues) >= OVERVIEW_QUEUES,
    )


def queue(asked: WebCall) -> QueueAnswer:
    name, look = _name(asked), asked.parts.pictures.picture().look
    measures = asked.parts.pictures.last_hour()
    row = next((row for row in rows(look) if row.name == name), None)
    jobs = _jobs(measures, name)
    if row is None:
        row = QueueRow(QueueCounts(name=name, paused=False, counts=dict.fromkeys(State, 0)), QueuePace(), None, "")
    limits: Sequence[LimitRecord] = [each for each in look.limits if (each.kind, each.name) == ("queue", name)]
    entries = asked.jobs.audit(ref=name, limit=_ENTRIES) if asked.can("audit") else ()
    return QueueAnswer(
        at=look.at,
        queue=queue_view(
            row,
            paused_by=_paused_by(asked, name) if row.queue.paused else None,
            servers=servers_of(look, name),
            limits=list(map(limit_in_short, limits)),
            depth=_depth(measures, name),
        ),
        jobs=jobs,
        limits=[limit_view(limit) for limit in limits],
        servers=[
            f"{worker.host or 'an unnamed host'}, process {worker.pid}"
            for worker in look.workers
            if worker.alive and worker.description is not None and serves(worker.description.queues, name)
        ],
        audit=[audit_view(entry) for entry in entries],
    )


def pause(asked: WebCall) -> DoneAnswer:
    return _steer(asked, paused=True)


def resume(asked: WebCall) -> DoneAnswer:
    return _steer(asked, paused=False)


def _name(asked: WebCall) -> str:
    try:
        return queue_name(asked.queue())
    except InvalidName as error:
        raise Refused(404, "not_found", str(error)) from None


def servers_of(look: WatchedStore, name: str) -> int | None:
    """Return how many live workers serve a queue; None if some do not say what they serve."""
    live = [worker.description for worker in look.workers if worker.alive]
    serving = sum(each is not None and serves(each.queues, name) for each in live)
    return None if not serving and any(each is None for each in live) else serving


def _steer(asked: WebCall, *, paused: bool) -> DoneAnswer:
    name = _name(asked)
    act = asked.jobs.pause if paused else asked.jobs.resume
    changed = act(name, by=asked.who, reason=asked.body.reason)
    asked.changed()
    done, before = ("paused", "was paused already") if paused else ("resumed", "was not paused")
    return DoneAnswer(done=changed, text=f"{name} {done if changed else before}")


def _paused_by(asked: WebCall, name: str) -> str | None:
    if not asked.can("audit"):
        return None
    entries = asked.jobs.audit(job="", act="pause", ref=name, limit=1)
    return f"{entries[0].who}: {entries[0].detail}".rstrip(": ") if entries else None


def _depth(measures: Sequence[TimedMeasures], name: str) -> list[int | None]:
    """Return the due jobs of the last hour, minute by minute."""
    if not measures:
        return []
    last = measures[-1].at
    by_minute = {(last - each.at) // (60 * SECOND): each.measured for each in measures}
    found: list[int | None] = []
    for minute in range(_MINUTES - 1, -1, -1):
        measured = by_minute.get(minute)
        level = None if measured is None else measured.queues.get(name)
        found.append(level.depth if level is not None else 0 if measured is not None and measured.looked else None)
    return found


def _jobs(measures: Sequence[TimedMeasures], name: str) -> list[JobNameView]:
    names = sorted({job for each in measures for queue, job in each.measured.numbers if queue == name})
    found = []
    for job in names[:_MOST_JOBS]:
        total = numbers_of(measures[0].measured, name, job)
        for each in measures[1:]:
            total = total.added(numbers_of(each.measured, name, job))
        found.append(
            JobNameView(
                name=job,
                ended=ended_in(total),
                failed=total.counters.get("jobs_failed", 0),
                run_p50=total.run.percentile(0.5),
                run_p95=total.run.percentile(0.95),
            )
        )
    return sorted(found, key=lambda each: -each.ended)
