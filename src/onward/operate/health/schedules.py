"""The check of schedules: whether their ticks are booked."""

from __future__ import annotations

from onward.backend import Check
from onward.base.durations import spoken
from onward.base.wording import counted
from onward.operate.commands import APPLICATION, command
from onward.operate.health.findings import Findings, ScheduleFinding
from onward.operate.health.verdict import Problem, verdict
from onward.operate.why.reason import moment

__all__ = ["schedules"]


def schedules(found: Findings) -> Check:
    """Check that no tick has passed for which no job is booked."""
    problems = [problem for each in found.schedules if (problem := _problem(found, each)) is not None]
    return verdict("schedules", f"{counted(len(found.schedules), 'schedule')}, none late", problems)


def _problem(found: Findings, schedule: ScheduleFinding) -> Problem | None:
    if schedule.problem:
        text = f"schedule {schedule.name} cannot be read here: {schedule.problem}"
        return Problem("warn", schedule.name, text, command("schedule", "show", schedule.name))
    if schedule.unbooked is None or found.age(schedule.unbooked) <= found.settings.tick_late_for:
        return None
    if schedule.origin == "code" and _has_left(found, schedule):
        return None
    text = (
        f"schedule {schedule.name}: no job is booked for its tick of {moment(schedule.unbooked)}, "
        f"{spoken(found.age(schedule.unbooked))} ago: no worker that knows it runs"
    )
    return Problem("fail", schedule.name, text, command("worker", APPLICATION))


def _has_left(found: Findings, schedule: ScheduleFinding) -> bool:
    """Return whether every live worker started after a schedule was declared last: then it is in their code no more."""
    started = [description.started for _, description in found.described]
    return bool(started) and min(started) > schedule.seen_at
