"""Asking the store what the rules need, and no more: one look, the sessions, and for some jobs one thing besides."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import (
    AWAITS_NODE,
    AuditQuery,
    Backend,
    FlowRow,
    Inspection,
    KeepsFlows,
    Look,
    Notes,
    Query,
    StoredJob,
)
from onward.base.clock import SECOND
from onward.client.auditing import Auditor, AuditRecord
from onward.client.record import Records
from onward.contract.deaths import fingerprint_of
from onward.contract.description import WorkerDescription
from onward.errors import EnvelopeError, OptionError
from onward.flow.lanes import group_of
from onward.job.envelope import Sealed, open_sealed
from onward.job.states import State
from onward.job.steps import SLEEP, WAIT
from onward.operate.series.points import SeriesReader, ended_per_second, run_percentile
from onward.operate.why.case import Besides, Case, DeadGroup, Described, KnownSettings
from onward.operate.why.gates import limited
from onward.operate.why.reason import Reason
from onward.operate.why.rules import why

__all__ = ["Explainer"]

_RUNS = 20  # that are named
_USUAL = 25 * 3600 * SECOND  # of a nightly job, too, there was a run
_LIKE_IT = 1_000  # dead jobs of a group, that are counted
_ACTS = 100  # of people, that are looked at


class Explainer:
    """Explains jobs of one store."""

    def __init__(
        self,
        backend: Backend,
        inspection: Inspection,
        records: Records,
        settings: KnownSettings,
        auditor: Auditor | None = None,
    ) -> None:
        self._backend = backend
        self._inspection = inspection
        self._records = records
        self._settings = settings
        self._series = SeriesReader(inspection)
        self._auditor = auditor if backend.capabilities.audit else None

    def why(self, job_id: str) -> Reason:
        """Return why a job is where it is."""
        return why(self.case(job_id))

    def case(self, job_id: str) -> Case:
        """Return all that is known of a job."""
        if not isinstance(job_id, str):
            raise OptionError(f"a job is named by its id, as in jobs.why(handle.id), not by {type(job_id).__name__}")
        acts = None if self._auditor is None else AuditQuery(job_id=job_id, limit=_ACTS)
        seen = self._inspection.look(Look(counts=True, place_of=job_id, audit=acts))
        sessions = [
            Described(session, WorkerDescription.decoded(session.description))
            for session in self._inspection.sessions()
        ]
        case = Case(
            job_id,
            seen.now,
            seen.place,
            None if seen.place is None else self._records.record(seen.place.job),
            queues=() if seen.overview is None else seen.overview.queues,
            sessions=sessions,
            settings=self._settings,
        )
        if case.waits:
            case.besides = self._besides(case)
        elif case.is_there and case.job.state is State.EXECUTING:
            case.besides = Besides(usual_run=self._usual_run(case))
        elif case.is_there and case.job.state is State.DISCARDED:
            case.besides = Besides(group=self._group(case.job))
        if self._auditor is not None:
            acted = self._auditor.records(seen.audit)
            case.besides = case.besides._replace(acts=acted, other_acts=self._other_acts(case))
        return case

    def _other_acts(self, case: Case) -> Sequence[AuditRecord]:
        """Return what people did to its queue, if that is paused; or, if the job is gone, what they purged."""
        assert self._auditor is not None
        if not case.is_there:
            return self._auditor.list(job="", act="purge", limit=_ACTS)
        queue = case.queues.get(case.job.queue)
        if not case.waits or queue is None or not queue.paused:
            return ()
        return self._auditor.list(job="", act="pause", ref=case.job.queue, limit=1)

    def _besides(self, case: Case) -> Besides:
        trouble, key_id = _sealed(case.job) if case.job.parked_since is not None else ("", "")
        return Besides(
            flow=self._flow(case.job),
            sleeps=self._sleeps(case),
            running=self._running(case),
            trouble=trouble,
            key_id=key_id,
            ended_per_second=self._rate(case),
        )

    def _rate(self, case: Case) -> float | None:
        """Return how many jobs of its queue ended in a second, if jobs stand before it."""
        if case.place.ahead == 0:
            return None
        return ended_per_second(self._series.last_minutes(case.now), case.job.queue)

    def _usual_run(self, case: Case) -> float | None:
        """Return how long runs of the job take at most, but for 5 of 100."""
        return run_percentile(self._series.measures(_USUAL, case.now), case.job.job, 0.95)

    def _group(self, job: StoredJob) -> DeadGroup | None:
        """Return the group of a dead job; its own number only, if the store has more groups than a look shows."""
        if not self._backend.capabilities.groups_deaths or job.tombstone:
            return None
        fingerprint = fingerprint_of(job.runs)
        for group in self._inspection.look(Look(deaths=True, at_most=_LIKE_IT)).deaths:
            if (group.job, group.fingerprint) == (job.job, fingerprint):
                since = min(group.first.at, group.last.at)  # the first may have been replayed, and died again
                return DeadGroup(job.job, fingerprint, group.count, group.count >= _LIKE_IT, since)
        return DeadGroup(job.job, fingerprint)

    def _flow(self, job: StoredJob) -> FlowRow | None:
        if job.awaits != AWAITS_NODE or job.flow is None or not isinstance(self._backend, KeepsFlows):
            return None
        return self._backend.flow(job.flow)

    def _sleeps(self, case: Case) -> list[str]:
        """Return the names of the sleeps of a job, the latest last, if it may sleep."""
        job = case.job
        may_sleep = job.state is State.SCHEDULED and job.delivery > 0 and job.waits == 0 and job.available_at > case.now
        if not may_sleep or not self._backend.capabilities.notes or not isinstance(self._backend, Notes):
            return []
        notes = sorted(self._backend.notes(job.id), key=lambda note: note.at)
        begun = [note.name for note in notes if note.name.startswith(SLEEP) and not note.name.startswith(WAIT)]
        # Its last note is a sleep, or it has woken from that and snoozed itself since.
        return [name.removeprefix(SLEEP) for name in begun] if begun and notes[-1].name == begun[-1] else []

    def _running(self, case: Case) -> list[StoredJob]:
        """Return the runs that take the slots of the limit that is reached, or of its queue."""
        reason, job = limited(case), case.job
        if reason is None and case.place.ahead == 0 and case.overdue == 0:
            return []
        kind = "queue" if reason is None else reason.facts["kind"]
        of_job = kind != "queue"
        query = Query(states=frozenset({State.EXECUTING}), queue=None if of_job else job.queue, limit=500)
        runs = self._inspection.list(query)
        if of_job and job.lane is not None:
            runs = [run for run in runs if run.lane and _shares(run.lane, job.lane, by_key=kind == "key")]
        return list(runs)[:_RUNS]


def _shares(lane: str, other: str, *, by_key: bool) -> bool:
    return lane == other if by_key else group_of(lane) == group_of(other)


def _sealed(job: StoredJob) -> tuple[str, str]:
    """Return why an envelope cannot be opened here, and with which key it is encrypted."""
    try:
        letter = open_sealed(Sealed(job.id, job.queue, job.data))
    except EnvelopeError as error:
        return str(error), ""
    return "", letter.enc.partition(" ")[2] if letter.enc else ""
