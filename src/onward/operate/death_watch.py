"""Deaths in a store that is watched: the jobs that were discarded last, and the workers that ended meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.job.states import State

if TYPE_CHECKING:
    from onward.client.record import JobRecord, SessionRecord

__all__ = ["DeathWatch", "Deaths", "GoneWorker", "last_error"]

CRASH = "Crash"  # the kind of the error that a dead process leaves on its jobs
_REMEMBERED = 5  # workers that are gone
_DIED_FOR = timedelta(minutes=10)  # so long they are shown
_ENDED_FOR = timedelta(minutes=1)
_ASKED = 3  # jobs of such a worker that are looked at, for the cause


class GoneWorker(NamedTuple):
    """A worker that an earlier look saw and the last one did not."""

    worker: SessionRecord
    at: datetime
    cause: str | None  # None: it ended its session, and left no job crashed


class Deaths(NamedTuple):
    """The deaths that a look saw."""

    jobs: Sequence[JobRecord] = ()  # the last that died, of those that were enqueued last
    while_watching: int = 0  # jobs that died since the first look
    gone: Sequence[GoneWorker] = ()  # the last of them first

    @property
    def crashed(self) -> int:
        return sum(_has_crashed(record) for record in self.jobs)

    def as_data(self) -> dict[str, Any]:
        """Return the deaths as data for machines."""
        return {
            "while_watching": self.while_watching,
            "jobs": [
                {
                    "id": record.id,
                    "name": record.name,
                    "queue": record.queue,
                    "attempts": record.attempts,
                    "crashes": record.crashes,
                    "died_at": record.finished_at,
                    "reason": record.reason,
                    "error": last_error(record),
                }
                for record in self.jobs
            ],
            "workers": [
                {
                    "owner": gone.worker.owner,
                    "host": gone.worker.host,
                    "pid": gone.worker.pid,
                    "gone_at": gone.at,
                    "cause": gone.cause,
                }
                for gone in self.gone
            ],
        }


class DeathWatch:
    """Compares each look with the one before."""

    def __init__(self, get: Callable[[str], JobRecord | None]) -> None:
        self._get = get
        self._dead: int | None = None
        self._while_watching = 0
        self._workers: Mapping[str, SessionRecord] = {}
        self._running: Sequence[JobRecord] = ()
        self._gone: deque[GoneWorker] = deque(maxlen=_REMEMBERED)

    def look(
        self,
        at: datetime,
        *,
        counts: Mapping[State, int],
        dead: Sequence[JobRecord],
        workers: Sequence[SessionRecord],
        running: Sequence[JobRecord],
    ) -> Deaths:
        number = counts[State.DISCARDED]
        if self._dead is not None:
            self._while_watching += max(0, number - self._dead)  # it goes back when jobs are removed or replayed
        there = {worker.owner: worker for worker in workers}
        for owner, worker in self._workers.items():
            if owner not in there:
                self._gone.appendleft(GoneWorker(worker, at, self._cause(worker)))
        self._dead, self._workers, self._running = number, there, running
        jobs = sorted(dead, key=lambda record: record.finished_at or record.enqueued_at, reverse=True)
        gone = [each for each in self._gone if at - each.at < (_ENDED_FOR if each.cause is None else _DIED_FOR)]
        return Deaths(jobs, self._while_watching, gone)

    def _cause(self, worker: SessionRecord) -> str | None:
        """Return why a worker is gone: a process that died leaves a crash on a job that it ran, one that ended does not."""
        held = [record for record in self._running if record.owner == worker.owner]
        for before in held[:_ASKED]:
            now = self._get(before.id)
            if now is not None and now.crashes > before.crashes:
                crashes = [error.message for error in now.errors if error.kind == CRASH]
                return crashes[-1] if crashes else "its process died"
        return None if worker.alive else "its session expired"


def last_error(record: JobRecord) -> str:
    """Return why a job is dead, in one line."""
    if not record.errors:
        return record.reason or ""
    last = record.errors[-1]
    return f"{last.kind}: {last.message}"


def _has_crashed(record: JobRecord) -> bool:
    return bool(record.errors) and record.errors[-1].kind == CRASH
