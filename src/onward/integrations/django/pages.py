"""What the admin's pages show: a page of jobs, and one job with its runs.  Secrets are masked, as everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onward.app import Onward
from onward.client.record import JobRecord, RunError
from onward.errors import OnwardError
from onward.integrations.django.backend import OnwardBackend
from onward.integrations.django.results import local
from onward.integrations.django.versions import task_backends
from onward.job.secrets import masked
from onward.job.states import State
from onward.operate.commands import begun_by
from onward.operate.shown import hides_arguments
from onward.operate.why.reason import Reason

__all__ = ["JobPage", "JobsPage", "aliases", "jobs_of"]

_ON_A_PAGE = 50
_HIDDEN = "no task of this project has this path, so it is not known which arguments are secret"
_RETRIED = (State.SCHEDULED, State.RETRYABLE, State.DISCARDED, State.CANCELLED)


def _json(value: Any, **form: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **form)


def aliases() -> list[str]:
    """Return the aliases of TASKS whose jobs are Onward's."""
    return [alias for alias in task_backends.settings if isinstance(task_backends[alias], OnwardBackend)]


def jobs_of(alias: str) -> Onward | None:
    """Return the application of an alias, or None."""
    if alias not in aliases():
        return None
    jobs: Onward = task_backends[alias].jobs
    return jobs


@dataclass
class JobsPage:
    """A page of jobs, the newest first, by the filters of its address."""

    asked: Mapping[str, str]
    jobs: list[JobRecord] = field(default_factory=list)
    problem: str = ""
    states: tuple[str, ...] = tuple(state.value for state in State)

    def __post_init__(self) -> None:
        """Read the page; what the address asks wrongly is told on it."""
        self.aliases = aliases()
        self.alias = self.asked.get("alias") or (self.aliases[0] if self.aliases else "")
        self.said = {name: self.asked[name] for name in ("state", "queue", "job") if self.asked.get(name)}
        jobs = jobs_of(self.alias)
        if jobs is None:
            self.problem = f"there is no alias {self.alias!r} of TASKS with the backend OnwardBackend"
            return
        try:
            found = jobs.list(**self.said, after=self.asked.get("after") or None, limit=_ON_A_PAGE, newest_first=True)
            self.jobs = list(found)
        except (OnwardError, ValueError) as error:
            self.problem = str(error)

    @property
    def after(self) -> str:
        """The last id of a full page: where the next one begins."""
        return self.jobs[-1].id if len(self.jobs) == _ON_A_PAGE else ""


@dataclass
class JobPage:
    """One job, with its runs."""

    alias: str
    record: JobRecord
    why: Reason

    @property
    def facts(self) -> list[tuple[str, Any]]:
        """What is known of it, in the order in which people ask."""
        record = self.record
        return [
            ("State", record.state.value),
            ("Why", self.why.text),
            ("What to do", self._fix or None),
            ("Queue", record.queue),
            ("Priority", record.priority),
            ("Attempts", record.attempts),
            ("Crashes", record.crashes),
            ("Enqueued", local(record.enqueued_at)),
            ("Not before", local(record.not_before)),
            ("Started", local(record.started_at)),
            ("Finished", local(record.finished_at)),
            ("Worker", record.owner),
            ("Arguments", _HIDDEN if hides_arguments(record) else _json(record.payload, indent=2)),
            ("Result", _json(masked(record.result)) if record.state is State.COMPLETED else None),
        ]

    @property
    def _fix(self) -> str:
        """What to do, with its commands as this project has them."""
        of_alias = "" if self.alias == "default" else f" --alias {self.alias}"
        return begun_by(f"manage.py onward{of_alias}", self.why.fix)

    @property
    def runs(self) -> list[RunError]:
        """The runs that failed, the last one first."""
        return [*reversed(self.record.errors)]

    @property
    def acts(self) -> list[tuple[str, str]]:
        """What can be done with it now, and what the buttons say."""
        retry = [("retry", "Retry now")] if self.record.state in _RETRIED else []
        return retry if self.record.is_finished else [*retry, ("cancel", "Cancel")]
