"""What people do by hand to jobs and queues: the half of an application's API that steers.

Every method that changes something takes ``by``, who does it, and a reason: they are kept in the audit trail
(`onward.client.auditing`).  Without ``by`` no entry is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onward.base.clock import SECOND
from onward.base.durations import Duration, seconds
from onward.base.lazy import asyncio
from onward.client.auditing import BY_REQUEST, Auditor, AuditRecord
from onward.client.bound_job import Job
from onward.client.client import Client
from onward.client.record import NoteRecord
from onward.job.states import State
from onward.operate.acts import Act
from onward.operate.bulk import COUNTED, Bulk, BulkProgress, Preview
from onward.operate.finding import Found, Until
from onward.operate.inspector import Inspector
from onward.operate.series.points import Series, SeriesReader, TimedMeasures
from onward.operate.signalling import Signaller
from onward.operate.why.explaining import Explainer
from onward.operate.why.reason import Reason

__all__ = ["SteersJobs"]


class SteersJobs:
    """Explains, cancels, retries and signals one job; finds jobs by a filter, and changes all that match; pauses queues;
    shows the audit trail.
    """

    client: Client
    _auditor: Auditor
    _inspector: Inspector
    _signaller: Signaller
    _explainer: Explainer
    _bulk: Bulk
    _series: SeriesReader

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
        return self._bulk.finder.find(filter, limit=limit, after=after, queues=queues)

    async def afind(self, filter: str, *, limit: int = 100, after: str | None = None) -> Found:  # noqa: A002
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.find, filter, limit=limit, after=after)

    def preview(
        self,
        act: Act,
        filter: str,  # noqa: A002
        *,
        samples: int = 3,
        at_most: int | None = COUNTED,
        limit: int | None = None,
        queues: Sequence[str] | None = None,
    ) -> Preview:
        """Return what a bulk act would change: how many jobs, some of them, and the newest, beyond which it must not go.

        It counts up to ``at_most`` and for at most a second; all of them, if that is None.
        """
        return self._bulk.preview(act, filter, samples=samples, at_most=at_most, limit=limit, queues=queues)

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
        return self._bulk.run(act, filter, until=until, limit=limit, fresh=fresh, queues=queues, by=by, reason=reason)

    def why(self, job_id: str) -> Reason:
        """Return why a job is where it is: the one reason that binds, what to type, and when it passes by itself."""
        return self._explainer.why(job_id)

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
        return self._series.series(last, queue, job, queues)

    def measures(self, last: Duration = "1h") -> Sequence[TimedMeasures]:
        """Return what workers have counted in the last time, minute by minute, by queue and job."""
        return self._series.measures(round(seconds(last, "last") * SECOND))

    def last_minutes(self) -> Sequence[TimedMeasures]:
        """Return what workers have counted in each of the last five full minutes, by queue and job."""
        return self._series.last_minutes()

    async def aseries(self, last: Duration = "3h", *, queue: str | None = None, job: str | None = None) -> Series:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.series, last, queue=queue, job=job)

    async def awhy(self, job_id: str) -> Reason:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.why, job_id)

    def cancel(self, job_id: str, reason: str = BY_REQUEST, *, by: str | None = None) -> State | None:
        """Cancel a waiting job, ask a running one to stop.  None if there was nothing to cancel."""
        return self._inspector.cancel(job_id, reason, by=by)

    def retry(self, job_id: str, *, by: str | None = None, reason: str = "") -> bool:
        """Run a waiting job now, or put a discarded or cancelled one back in its queue."""
        return self._inspector.retry(job_id, by=by, reason=reason)

    def signal(
        self, job_id: str, name: str, value: Any = None, *, again: bool = False, by: str | None = None, reason: str = ""
    ) -> bool:
        """Tell a job what it waits for with ``ctx.wait_for(name)``, or will: the first value stays, unless ``again``.

        False if it was told nothing: it is over, or had been told before.  For no job at all it raises `JobNotFound`.
        """
        return self._signaller.signal(job_id, name, value, again=again, by=by, reason=reason)

    async def asignal(
        self, job_id: str, name: str, value: Any = None, *, again: bool = False, by: str | None = None, reason: str = ""
    ) -> bool:
        """The same without blocking the event loop."""
        return await asyncio.to_thread(self.signal, job_id, name, value, again=again, by=by, reason=reason)

    def pause(self, queue: str, *, by: str | None = None, reason: str = "") -> bool:
        """Stop claims from a queue, everywhere and across restarts.  Running jobs go on.  True if it was not paused."""
        return self._inspector.pause(queue, paused=True, by=by, reason=reason)

    def resume(self, queue: str, *, by: str | None = None, reason: str = "") -> bool:
        """Allow claims from a queue again."""
        return self._inspector.pause(queue, paused=False, by=by, reason=reason)

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
        name = job.name if isinstance(job, Job) else job
        stored = self.client.letters.idempotency_key(key, name)
        return self._inspector.forget(key, name, stored, by=by, reason=reason)

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
        return self._auditor.list(job=job, who=who, ref=ref, act=act, before=before, limit=limit)

    def notes(self, job_id: str) -> Sequence[NoteRecord]:
        """Return what a job has noted, in the order of time: its steps, sleeps and waits, and the signals that came."""
        return self._signaller.notes(job_id)
