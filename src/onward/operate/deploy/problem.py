"""One kind of trouble that a build has with waiting jobs: how many it concerns, and what fixes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

__all__ = ["FIXES", "DeployProblem", "DeployReport"]

FIXES = {
    "unknown": "import its module, or keep the old name: @jobs.job(aliases=[…]); or drain first",
    "missing_argument": "give the parameter a default, keep the old function under its old name, or drain first",
    "unknown_argument": "keep the parameter, with a default, or drain first",
    "misfit": "let the parameter take both types, or drain first",
    "refused": "name the job in queue_handlers of that queue, or drain first",
    "over_budget": "raise max_retries again: these jobs have failed more often than this build allows",
    "too_new": "a newer Onward has enqueued them: deploy that version or a newer one",
    "locked": "give this build the key that they are encrypted with",
    "rejected": "they are discarded when a worker claims them: give this build the keys that signed them, or remove them",
    "damaged": "they are discarded when a worker claims them: cancel them, and enqueue them again",
    "unserved": "start a worker with --queues; or say --elsewhere if another application serves that queue",
    "schedule_gone": "keep its @jobs.schedule, if it is wanted: it is removed when no running process declares it any more",
    "schedule_new": "none: workers of this build store it when they start",
    "unknown_to_workers": "replace the workers before the programs that enqueue: they park such jobs until then",
}


class DeployProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that this build cannot run for one reason; or, with ``blocks`` false, what to know before it is deployed."""

    code: str
    subject: str  # the job, the queue or the schedule
    text: str
    fix: str
    blocks: bool = True  # whether jobs wait that this build cannot run
    jobs: int = 0
    oldest: datetime | None = None  # when the first of them was enqueued
    next_due: datetime | None = None
    last_due: datetime | None = None
    ids: tuple[str, ...] = ()  # three of them at most
    arguments: Any = None  # of the first, secrets masked


class DeployReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of a deployment has found."""

    checked: int  # jobs
    blocked: int  # of them, those that this build cannot run
    problems: tuple[DeployProblem, ...]
    sampled: bool = False

    @property
    def passed(self) -> bool:
        """Whether this build can run every job that was checked."""
        return not any(problem.blocks for problem in self.problems)
