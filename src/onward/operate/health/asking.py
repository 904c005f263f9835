"""Asking the store what the checks need: a bounded number of questions, each with a bounded answer.

One look, the sessions, the jobs that run, the live jobs that were enqueued first and last, the schedules; and only if
something is wrong, why some of these jobs are where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from onward.backend import (
    Backend,
    Check,
    DeathGroup,
    Health,
    Inspection,
    Look,
    Query,
    ScheduleRow,
    Schedules,
    Snapshot,
    StoredJob,
)
from onward.base.clock import SECOND, Clock
from onward.base.lazy import platform
from onward.client.auditing import Auditor, AuditRecord
from onward.client.schedules import ScheduleWriter
from onward.contract.description import WorkerDescription
from onward.errors import EnvelopeError, Unsupported
from onward.flow.schedule import timetable_of
from onward.job.envelope import Sealed, open_sealed
from onward.job.registry import Registry
from onward.job.states import LIVE, State
from onward.operate.health.findings import DyingGroup, Findings, HealthSettings, ScheduleFinding
from onward.operate.health.queues import is_forgotten
from onward.operate.health.rules import checks
from onward.operate.series.measured import Measured
from onward.operate.series.points import SeriesReader, run_percentile
from onward.operate.why.case import Described
from onward.operate.why.explaining import Explainer
from onward.operate.why.reason import Reason

__all__ = ["HealthChecker"]

_RUNS = 500  # jobs that run
_ENDS = 100  # live jobs that are looked at, at each end
_EXPLAINED = 3  # late queues, and names of parked jobs
_SCHEDULES = 500
# Where samples are looked for: a worker with a long lease sends few, and the clock of this host may be behind.
_BEFORE, _AFTER = 1800 * SECOND, 300 * SECOND
_USUAL = 3600 * SECOND  # the time whose runs say how long one usually takes


class HealthChecker:
    """Checks one store and the workers on it."""

    def __init__(
        self,
        backend: Backend,
        inspection: Inspection,
        explainer: Explainer,
        registry: Registry,
        schedules: ScheduleWriter,
        *,
        auditor: Auditor,
        clock: Clock,
        settings: HealthSettings,
    ) -> None:
        self._backend = backend
        self._inspection = inspection
        self._explainer = explainer
        self._registry = registry
        self._schedules = schedules
        self._auditor = auditor
        self._clock = clock
        self._settings = settings
        self._series = SeriesReader(inspection)

    def checks(self, *, store: bool = True, fleet: bool = True) -> list[Check]:
        """Return the checks of the store and of its fleet; of a broker that shows nothing, its own."""
        return [*(self.of_store() if store else ()), *(self.of_fleet() if fleet else ())]

    def of_store(self) -> list[Check]:
        """Return the store's own checks.  Some of them read much: a file is looked through."""
        return self._backend.health() if isinstance(self._backend, Health) else []

    def of_fleet(self) -> list[Check]:
        """Return the checks of queues, jobs, workers and schedules: cheap enough for every minute."""
        try:
            return checks(self.findings())
        except Unsupported:
            return []

    def findings(self) -> Findings:
        """Return what the checks need, and no more."""
        asked = self._clock.micros()
        look = Look(
            counts=True,
            deaths=self._backend.capabilities.groups_deaths,
            series=(asked - _BEFORE, asked + _AFTER),
        )
        seen = self._inspection.look(look)
        answered = self._clock.micros()
        measured = [Measured.decoded(row.data) or Measured() for row in seen.series]
        running = self._list(_RUNS, {State.EXECUTING})
        first, last = self._list(_ENDS, LIVE), self._list(_ENDS, LIVE, newest_first=True)
        waiting = list({job.id: job for job in (*first, *last) if job.state is not State.EXECUTING}.values())
        found = Findings(
            now=seen.now,
            here=(asked + answered) // 2,
            asked_for=answered - asked,
            host=platform.node(),
            queues=() if seen.overview is None else seen.overview.queues,
            sessions=[
                Described(session, WorkerDescription.decoded(session.description))
                for session in self._inspection.sessions()
            ],
            running=running,
            timeouts={job.id: timeout for job in running if (timeout := self._timeout(job)) is not None},
            p99=self._usual(running, seen.now),
            waiting=waiting,
            schedules=self._schedules_found(),
            dying=self._dying(seen),
            sampled_at=max((row.at for row in seen.series), default=None),
            unverified=sum(map(_unverified, measured)),
            events_dropped=sum(each.events_dropped for each in measured),
            settings=self._settings,
        )
        return replace(found, explained=self._explained(found), pauses=self._pauses(found))

    def _list(
        self, limit: int, states: set[State] | frozenset[State], *, newest_first: bool = False
    ) -> list[StoredJob]:
        query = Query(states=frozenset(states), limit=limit, newest_first=newest_first)
        return list(self._inspection.list(query))

    def _usual(self, running: Sequence[StoredJob], now: int) -> dict[str, float]:
        """Return what 99 of 100 runs took, in the last hour, of jobs of which one runs for long."""
        since = now - round(self._settings.stuck_after * SECOND)
        jobs = {job.job for job in running if job.started_at is not None and job.started_at < since}
        measures = self._series.measures(_USUAL) if jobs else ()
        found = {job: run_percentile(measures, job, 0.99) for job in jobs}
        return {job: usual for job, usual in found.items() if usual is not None}

    def _timeout(self, job: StoredJob) -> float | None:
        """Return the time-out of a job that runs, as far as it is known here."""
        try:
            letter = open_sealed(Sealed(job.id, job.queue, job.data))
        except EnvelopeError:
            return None
        if letter.timeout is not None:
            return letter.timeout
        entry = self._registry.find(job.job)
        return None if entry is None else entry.definition.timeout

    def _explained(self, found: Findings) -> dict[str, Reason]:
        """Return why the first due job of each late queue waits, and why one job of each parked name does."""
        ids = [*islice(_first_of_late(found), _EXPLAINED), *islice(_first_parked(found), _EXPLAINED)]
        return {job_id: self._explainer.why(job_id) for job_id in ids}

    def _dying(self, seen: Snapshot) -> list[DyingGroup]:
        """Return the largest groups of deaths to which one was added lately, each with how many of its last died lately."""
        since = seen.now - round(self._settings.died_within * SECOND)
        lately = sorted((each for each in seen.deaths if each.last.at >= since), key=lambda each: -each.count)
        return [self._group(each, since) for each in lately[:_EXPLAINED]]

    def _group(self, group: DeathGroup, since: int) -> DyingGroup:
        query = Query(
            states=frozenset({State.DISCARDED}),
            job=group.job,
            fingerprint=group.fingerprint,
            limit=_ENDS,
            newest_first=True,
        )
        last = self._inspection.list(query)
        first = self._inspection.get_many([group.first.id])
        ran_by = first[0].runs[-1].by if first and first[0].runs else None
        return DyingGroup(
            group=group,
            lately=sum((job.finished_at or 0) >= since for job in last),
            looked_at=len(last),
            kind=last[0].runs[-1].failure.kind if last and last[0].runs else "",
            build="" if ran_by is None else ran_by.build,
        )

    def _pauses(self, found: Findings) -> dict[str, AuditRecord]:
        """Return who has paused the queues that have been paused for long, where a store keeps an audit trail."""
        forgotten = [queue.name for queue in found.queues if is_forgotten(found, queue)][:_EXPLAINED]
        if not self._backend.capabilities.audit:
            return {}
        acts = {name: self._auditor.list(job="", act="pause", ref=name, limit=1) for name in forgotten}
        return {name: entries[0] for name, entries in acts.items() if entries}

    def _schedules_found(self) -> list[ScheduleFinding]:
        if not self._backend.capabilities.schedules or not isinstance(self._backend, Schedules):
            return []
        return [self._schedule(row) for row in self._backend.schedules().rows[:_SCHEDULES] if row.paused_at is None]

    def _schedule(self, row: ScheduleRow) -> ScheduleFinding:
        found = ScheduleFinding(row.name, row.origin, row.seen_at)
        if row.damage is not None:
            return found._replace(problem=row.damage)
        try:
            ticks = timetable_of(self._schedules.open(row))
        except EnvelopeError as error:
            return found._replace(problem=str(error))
        return found._replace(unbooked=next(ticks.after(row.booked_until), None))


def _unverified(measured: Measured) -> int:
    return sum(numbers.counters.get("jobs_unverified", 0) for numbers in measured.numbers.values())


def _first_of_late(found: Findings) -> Iterator[str]:
    """Yield one due job of each late queue that is served, if one is at hand."""
    due: dict[str, StoredJob] = {}
    for job in sorted(found.waiting, key=lambda job: job.available_at):
        if job.state is State.AVAILABLE or job.available_at <= found.now:
            due.setdefault(job.queue, job)
    for queue in found.queues:
        is_late = queue.oldest_due is not None and found.age(queue.oldest_due) > found.settings.late_in(queue.name)
        if is_late and not queue.paused and queue.name in due and found.servers(queue.name):
            yield due[queue.name].id


def _first_parked(found: Findings) -> Iterator[str]:
    seen: set[str] = set()
    for job in found.waiting:
        if job.parked_since is not None and job.state is State.SCHEDULED and job.job not in seen:
            seen.add(job.job)
            yield job.id
