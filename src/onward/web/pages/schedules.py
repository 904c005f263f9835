"""Schedules: when they come next, what came of the last times, and steering them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from onward.errors import ScheduleNotFound, Unsupported
from onward.flow.zones import zone_named
from onward.operate.schedules import Schedule
from onward.web.act_answers import DoneAnswer
from onward.web.asking import WebCall
from onward.web.page_answers import ScheduleAnswer, SchedulesAnswer, ScheduleView, TickView
from onward.web.views import audit_view, job_row, json_text

__all__ = ["pause", "resume", "run", "schedule", "schedules"]

_NEXT, _LAST = 5, 20
_ENTRIES = 20


def schedules(asked: WebCall) -> SchedulesAnswer:
    late = _late(asked)
    found = [each for each in asked.jobs.schedules.list() if _sees(asked, each)]
    return SchedulesAnswer(at=datetime.now(UTC), schedules=[_view(each, late, 1) for each in found])


def schedule(asked: WebCall) -> ScheduleAnswer:
    found = _found(asked)
    entries = asked.jobs.audit(ref=found.name, limit=_ENTRIES) if asked.can("audit") else ()
    shown = [audit_view(entry) for entry in entries if entry.act.endswith("-schedule")]
    return ScheduleAnswer(at=datetime.now(UTC), schedule=_view(found, _late(asked), _LAST), audit=shown)


def run(asked: WebCall) -> DoneAnswer:
    found = _found(asked)
    handle = asked.jobs.schedules.run_now(found.name, by=asked.who, reason=asked.body.reason)
    asked.changed()
    return DoneAnswer(done=True, text=f"enqueued as {handle.id}", id=handle.id)


def pause(asked: WebCall) -> DoneAnswer:
    return _steer(asked, asked.jobs.schedules.pause, ("paused", "was paused already"))


def resume(asked: WebCall) -> DoneAnswer:
    return _steer(asked, asked.jobs.schedules.resume, ("resumed", "was not paused"))


def _steer(asked: WebCall, act: Callable[..., bool], words: tuple[str, str]) -> DoneAnswer:
    found = _found(asked)
    changed = act(found.name, by=asked.who, reason=asked.body.reason)
    return DoneAnswer(done=changed, text=f"{found.name} {words[0] if changed else words[1]}")


def _sees(asked: WebCall, found: Schedule) -> bool:
    return asked.user.queues is None or (found.queue is not None and asked.user.sees(found.queue))


def _found(asked: WebCall) -> Schedule:
    name = asked.parameters["name"]
    found = asked.jobs.schedules.get(name)
    if not _sees(asked, found):
        raise ScheduleNotFound(f"there is no schedule {name!r:.80} that you may see")
    return found


def _late(asked: WebCall) -> dict[str, str]:
    """Return what the check of schedules says, by schedule."""
    try:
        checks = asked.parts.pictures.picture().look.checks or ()
    except Unsupported:
        return {}
    return {
        name: check.detail
        for check in checks
        if check.name == "schedules" and check.status != "ok"
        for name in check.about
    }


def _view(found: Schedule, late: dict[str, str], last: int) -> ScheduleView:
    zone = zone_named(found.tz or "UTC")
    upcoming = [] if found.paused or found.problem is not None else found.next(_NEXT)
    return ScheduleView(
        name=found.name,
        origin=found.origin,
        cron=found.cron,
        tz=found.tz,
        job=found.job,
        flow=found.flow,
        queue=found.queue,
        arguments="" if found.arguments in (None, {}) else json_text(found.arguments),
        catch_up=_word(found.catch_up),
        overlap=_word(found.overlap),
        spread="" if not found.spread else "by name" if found.spread is True else f"{found.spread:g} s",
        paused_at=found.paused_at,
        missed=found.missed,
        problem=found.problem,
        late=late.get(found.name, ""),
        next=[TickView(at=tick, local=f"{tick.astimezone(zone):%a %Y-%m-%d %H:%M:%S %z}") for tick in upcoming],
        last=[job_row(record) for record in found.last(last)],
    )


def _word(value: Any) -> str:
    return "" if value is None else str(value)
