"""The checks of a fleet, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable

from onward.backend import Check
from onward.operate.health import jobs, queues, schedules, workers
from onward.operate.health.findings import Findings

__all__ = ["RULES", "checks"]

RULES: tuple[Callable[[Findings], Check], ...] = (
    queues.served,
    queues.late,
    queues.paused,
    jobs.known,
    jobs.dying,
    jobs.crashing,
    jobs.stuck,
    workers.sessions,
    workers.builds,
    workers.versions,
    workers.keys,
    workers.clock,
    workers.samples,
    schedules.schedules,
)


def checks(found: Findings) -> list[Check]:
    """Return every check of a fleet."""
    return [rule(found) for rule in RULES]
