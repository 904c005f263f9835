"""What a handler of a route gets: who asks, what, and the parts of the dashboard that answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onward.app import Onward
from onward.client.record import JobRecord
from onward.errors import JobNotFound
from onward.operate.why.reason import Reason
from onward.web.auth import Auth, User
from onward.web.failures import Refused
from onward.web.pictures import Pictures
from onward.web.request import WebRequest
from onward.web.tickets import Tickets

__all__ = ["DashboardParts", "SessionSettings", "WebCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """How a dashboard was set up, as far as its page shows it."""

    title: str
    read_only: bool
    refresh: float
    log_url: str | None
    trace_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardParts:
    """The parts of one dashboard."""

    jobs: Onward
    auth: Auth
    pictures: Pictures
    tickets: Tickets
    settings: SessionSettings
    unavailable: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebCall:
    """One request that has passed every check."""

    parts: DashboardParts
    request: WebRequest
    user: User
    parameters: dict[str, str]
    query: Any
    body: Any

    @property
    def jobs(self) -> Onward:
        return self.parts.jobs

    @property
    def who(self) -> str:
        """The name for the audit trail."""
        return self.user.name

    def can(self, part: str) -> bool:
        """Return whether the store offers a part."""
        return part not in self.parts.unavailable

    def queue(self) -> str:
        """Return the queue of the path; refuse one that this person does not see as if it did not exist."""
        name = self.parameters["queue"]
        self.check_queue(name)
        return name

    def check_queue(self, name: str) -> None:
        if not self.user.sees(name):
            raise Refused(404, "not_found", f"there is no queue {name!r:.80} that you may see")

    def record(self) -> JobRecord:
        """Return the job of the path, of a queue that this person sees."""
        record = self.find()
        if record is not None:
            return record
        if (reason := self.gone()) is not None:
            raise Refused(404, "not_found", reason.text, fix=reason.fix)
        raise JobNotFound(
            f"there is no job {self.parameters['id']!r:.60}: it was pruned or purged, or it is in another store or "
            f"namespace"
        )

    def find(self) -> JobRecord | None:
        """Return the job of the path; None if there is none that this person sees."""
        job_id = self._job_id()
        record = None if job_id is None else self.jobs.get(job_id)
        return record if record is not None and self.user.sees(record.queue) else None

    def gone(self) -> Reason | None:
        """Return why the job of the path is not there, after it was not found; None where that is not told.

        A person who sees some queues only is not told: of a job in another queue there is no such reason.
        """
        job_id = self._job_id()
        if job_id is None or self.user.queues is not None:
            return None
        reason = self.jobs.why(job_id)
        return reason if reason.code == "gone" else None

    def _job_id(self) -> str | None:
        """Return the id of the path as a store knows it; None if no job can have it."""
        job_id = self.parameters["id"].replace("-", "").lower()
        return job_id if len(job_id) == 32 and job_id.isalnum() and job_id.isascii() else None

    def changed(self) -> None:
        """Note that an act has changed something: the next picture is a new one."""
        self.parts.pictures.forget()
