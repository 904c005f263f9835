"""The rules in their order: the first that speaks names what binds, the others what would follow."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from onward.operate.why import due, finished, gates, running, waiting
from onward.operate.why.case import Case
from onward.operate.why.reason import Reason

__all__ = ["RULES", "why"]

RULES: tuple[Callable[[Case], Reason | None], ...] = (
    finished.gone,
    finished.completed,
    finished.discarded,
    finished.cancelled,
    running.worker_gone,
    running.worker_silent,
    running.cancelling,
    running.running,
    waiting.expired,
    waiting.spent,
    waiting.unknown_job,
    waiting.wrong_version,
    waiting.held,
    waiting.awaits_flow,
    waiting.awaits_signal,
    waiting.sleeping,
    waiting.not_due,
    due.paused,
    due.unserved,
    due.not_allowed,
    gates.shut,
    gates.limited,
    gates.throttled,
    due.suspect,
    due.busy,
    due.starved,
    due.behind,
    due.first_in_line,
)


def why(case: Case) -> Reason:
    """Return the one reason that binds."""
    spoken = [reason for rule in RULES if (reason := rule(case)) is not None]
    return msgspec.structs.replace(spoken[0], then=tuple(reason.code for reason in spoken[1:]))
