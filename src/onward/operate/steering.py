"""What people ask about jobs and queues, and what they do to them by hand: the half of an application's API that steers.

Every method that changes something takes ``by``, who does it, and a reason: they are kept in the audit trail
(`onward.client.auditing`).  Without ``by`` no entry is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from onward.base.clock import SECOND
from onward.base.durations import Duration, seconds
from onward.base.lazy import asyncio
from onward.base.wording import BY_REQUEST

if TYPE_CHECKING:  # an application is imported before what it is made of
    from datetime import datetime

    from onward.backend import Check, Overview, QueueState, Reaped
    from onward.client.auditing import Auditor, AuditRecord
    from onward.client.bound_job import Job
    from onward.client.client import Client
    from onward.client.record import JobRecord, NoteRecord, SessionRecord
    from onward.job.states import State
    from onward.operate.acts import Act
    from onward.operate.bulk import Bulk, BulkProgress, Preview
    from onward.operate.dead_letters import DeadLetters
    from onward.operate.finding import Found, Until
    from onward.operate.health.asking import HealthChecker
    from onward.operate.inspector import Inspector
    from onward.operate.limits import LimitControl
    from onward.operate.pruning import Age, Removed
    from onward.operate.schedules import ScheduleControl
    from onward.operate.series.points import Series, SeriesReader, TimedMeasures
    from onward.operate.signalling import Signaller
    from onward.operate.why.explaining import Explainer
    from onward.operate.why.reason import Reason

__all__ = ["SteersJobs"]


class SteeringParts(Protocol):
    """What the methods below call.  The wiring makes it."""

    auditor: Auditor
    inspector: Inspector
    signaller: Signaller
    explainer: Explainer
    bulk: Bulk
    series: SeriesReader
    dead_letters: DeadLetters
    health: HealthChecker
    limits: LimitControl
    schedules: ScheduleControl


class SteersJobs:
    """Shows jobs, queues and workers; explains, cancels, retries and signals one job; finds jobs by a filter, and changes
    all that match; pauses queues; shows the audit trail.
    """

    client: Client

    @property
    def _operators(self) -> SteeringParts:
        raise NotImplementedError

    @property
    def dead_letters(self) -> DeadLetters:
        """The jobs that failed for good: listed, grouped, run again."""
        return self._operators.dead_letters

    @property
    def schedules(self) -> ScheduleControl:
        """The schedules of the store: shown, paused, changed, run now."""
        return self._operators.schedules

    @property
    def limits(self) -> LimitControl:
        """The limits of the store: shown, changed and lifted."""
        return self._operators.limits

    def get(self, job_id: str) -> JobRecord | None:
        """Return everything known about one job, or None."""
        return self._operators.inspector.get(job_id)

    def list(
        self,
        *,
        state: State | str | Sequence[State | str] | None = None,
        queue: str | None = None,
        job: str | None = None,
        limit: int = 100,
        after: str | None = None,
        newest_first: bool = False,
    ) -> Sequence[JobRecord]:
        """Return a page of jobs in the order they were enqueued.  The next page comes ``after`` the last id of this one."""
        return self._operators.inspector.list(
            state=state, queue=queue, job=job, limit=limit, after=after, newest_first=newest_first
        )

    def counts(self, queue: str | None = None) -> dict[State, int]:
        """Return how many jobs are in each state."""
        return self._operators.inspector.counts(queue)

    def queues(self) -> Sequence[QueueState]:
        """Return every queue that holds live jobs or is paused."""
        return self._operators.inspector.queues()

    def overview(self, at_most: int = 10_000) -> Overview:
        """Return states and queues in a summary, nothing counted beyond ``at_most``: cheap enough for every second."""
        return self._operators.inspector.overview(at_most)

    def sessions(self) -> Sequence[SessionRecord]:
        """Return every worker process, and every program with a worker inside."""
        return self._operators.inspector.sessions()

    def reap(self, queue: str | None = None) -> Sequence[Reaped]:
        """Give back the jobs of workers that died, now: all of them, or those of one queue."""
        return self._operators.inspector.reap(queue)

    def prune(
        self,
        *,
        older_than: Age | None = None,
        completed_before: datetime | None = None,
        queue: str | None = None,
        state: State | str | Sequence[State | str] | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Remove finished jobs that are past their retention; with ``older_than``, instead, completed jobs that ended so
        long ago, or before that instant.  ``completed_before`` says the latter, and of completed jobs only.

        ``queue`` and ``state`` narrow either.  With ``dry_run`` nothing is removed; the number says what would be.
        """
        return self._operators.inspector.prune(
            older_than=older_than, completed_before=completed_before, queue=queue, state=state, dry_run=dry_run
        )

    def health(self, *, store: bool = True, fleet: bool = True) -> Sequence[Check]:
        """Check store and workers: what is not ok names its fix.

        ``store=False``: without the own checks of the store.  ``fleet=False``: only those.
        """
        return self._operators.health.checks(store=store, fleet=fleet)

    def find(
        self,
        filter: str,  # noqa: A002
        *,
        limit: int = 100,
        after: str | None = None,
        queues: Sequence[str] | None = None,
    ) -> Found:
        """Return a page of the jobs that match a filter such as ``state:dead queue:mail arg.user_id:42``, newest first.

        The next page comes ``after`` what this one names as `next`.  A page looks at 2,000 jobs at most.  ``queues``: only
        jobs of these, names and patterns, whatever the filter says; `preview` and `bulk` take it, too.
        """
        return self._operators.bulk.finder.find(filter, limit=limit, after=after, queues=queues)

    async def afind(self, filter: str, *, limit: int = 100, after: str | None = None) -> Found:  # noqa: A002
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.find, filter, limit=limit, after=after)

    def preview(
        self,
        act: Act,
        filter: str,  # noqa: A002
        *,
        samples: int = 3,
        at_most: int | None = 10_000,
        limit: int | None = None,
        queues: Sequence[str] | None = None,
    ) -> Preview:
        """Return what a bulk act would change: how many jobs, some of them, and the newest, beyond which it must not go.

        It counts up to ``at_most`` and for at most a second; all of them, if that is None.
        """
        return self._operators.bulk.preview(act, filter, samples=samples, at_most=at_most, limit=limit, queues=queues)

    def bulk(
        self,
        act: Act,
        filter: str,  # noqa: A002
        *,
        until: Until | None = None,
        limit: int | None = None,
        fresh: bool = False,
        queues: Sequence[str] | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> Iterator[BulkProgress]:
        """Retry, cancel, replay or purge all jobs that match a filter, 500 in a write; to stop the iterator stops it.

        ``until``: of the preview, so that no job is changed that came later.  ``fresh``: of a replay, without notes.  ``by``
        and ``reason``: for the audit trail; that of a cancel is kept with the jobs, too.
        """
        return self._operators.bulk.run(
            act, filter, until=until, limit=limit, fresh=fresh, queues=queues, by=by, reason=reason
        )

    def why(self, job_id: str) -> Reason:
        """Return why a job is where it is: the one reason that binds, what to type, and when it passes by itself."""
        return self._operators.explainer.why(job_id)

    def series(
        self,
        last: Duration = "3h",
        *,
        queue: str | None = None,
        job: str | None = None,
        queues: Sequence[str] | None = None,
    ) -> Series:
        """Return what the workers have done in the last time, minute by minute, and how full the queues were.

        Of all jobs together, or of one queue, one job, or one job in one queue; or of these ``queues``.  After two hours a
        point is of ten minutes, and after seven days it is gone.  Times in which no worker ran have no point.
        """
        return self._operators.series.series(last, queue, job, queues)

    def measures(self, last: Duration = "1h") -> Sequence[TimedMeasures]:
        """Return what workers have counted in the last time, minute by minute, by queue and job."""
        return self._operators.series.measures(round(seconds(last, "last") * SECOND))

    def last_minutes(self) -> Sequence[TimedMeasures]:
        """Return what workers have counted in each of the last five full minutes, by queue and job."""
        return self._operators.series.last_minutes()

    async def aseries(self, last: Duration = "3h", *, queue: str | None = None, job: str | None = None) -> Series:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.series, last, queue=queue, job=job)

    async def awhy(self, job_id: str) -> Reason:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.why, job_id)

    def cancel(self, job_id: str, reason: str = BY_REQUEST, *, by: str | None = None) -> State | None:
        """Cancel a waiting job, ask a running one to stop.  None if there was nothing to cancel."""
        return self._operators.inspector.cancel(job_id, reason, by=by)

    def retry(self, job_id: str, *, by: str | None = None, reason: str = "") -> bool:
        """Run a waiting job now, or put a discarded or cancelled one back in its queue."""
        return self._operators.inspector.retry(job_id, by=by, reason=reason)

    def signal(
        self, job_id: str, name: str, value: Any = None, *, again: bool = False, by: str | None = None, reason: str = ""
    ) -> bool:
        """Tell a job what it waits for with ``ctx.wait_for(name)``, or will: the first value stays, unless ``again``.

        False if it was told nothing: it is over, or had been told before.  For no job at all it raises `JobNotFound`.
        """
        return self._operators.signaller.signal(job_id, name, value, again=again, by=by, reason=reason)

    async def asignal(
        self, job_id: str, name: str, value: Any = None, *, again: bool = False, by: str | None = None, reason: str = ""
    ) -> bool:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.signal, job_id, name, value, again=again, by=by, reason=reason)

    def pause(self, queue: str, *, by: str | None = None, reason: str = "") -> bool:
        """Stop claims from a queue, everywhere and across restarts.  Running jobs go on.  True if it was not paused."""
        return self._operators.inspector.pause(queue, paused=True, by=by, reason=reason)

    def resume(self, queue: str, *, by: str | None = None, reason: str = "") -> bool:
        """Allow claims from a queue again."""
        return self._operators.inspector.pause(queue, paused=False, by=by, reason=reason)

    def forget(
        self,
        key: str,
        *,
        job: Job[..., Any, Any, Any] | str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> bool:
        """Forget that the work of an idempotency key was done, so that it may be done again.

        The key of that job, or without one a key of ``key_scope="global"``.  False if no success is remembered under it.
        While a job that runs holds the key, this raises `KeyInUse` and changes nothing.
        """
        name = job if job is None or isinstance(job, str) else job.name
        stored = self.client.letters.idempotency_key(key, name)
        return self._operators.inspector.forget(key, name, stored, by=by, reason=reason)

    def audit(
        self,
        *,
        job: str | None = None,
        who: str | None = None,
        ref: str | None = None,
        act: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[AuditRecord]:
        """Return a page of what people did by hand, the newest first: of one job, of one person, about one ``ref`` such as
        a queue, or of one kind.  The next page comes ``before`` the ``place`` of the last entry of this one.
        """
        return self._operators.auditor.list(job=job, who=who, ref=ref, act=act, before=before, limit=limit)

    def notes(self, job_id: str) -> Sequence[NoteRecord]:
        """Return what a job has noted, in the order of time: its steps, sleeps and waits, and the signals that came."""
        return self._operators.signaller.notes(job_id)
