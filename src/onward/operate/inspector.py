"""Looking at jobs and steering them: checks names and times, and returns records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from onward.attempt.report import Reporter
from onward.backend import Backend, Hold, Inspection, Look, Overview, Query, QueueState, Reaped
from onward.base import names
from onward.base.clock import Clock
from onward.base.credentials import without_credentials
from onward.base.failure import storable
from onward.base.wording import BY_REQUEST
from onward.client.auditing import Auditor
from onward.client.record import JobRecord, Records, SessionRecord, session_record_of
from onward.errors import KeyInUse, OptionError, Unsupported
from onward.job.states import FINISHED, State
from onward.operate import pruning
from onward.operate.dead_letters import DeadLetters
from onward.operate.pruning import Age, Removed
from onward.operate.unsupported_inspection import inspection_of
from onward.telemetry import JobCancelled, QueuePaused, QueueResumed, Telemetry

__all__ = ["Inspector"]


class Inspector:
    """One method per question or request.  Every write is conditional on the state it finds."""

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Clock,
        reporter: Reporter,
        telemetry: Telemetry,
        dead_letters: DeadLetters,
        records: Records,
        retention: Mapping[State, float | None],
        auditor: Auditor,
    ) -> None:
        self._backend = backend
        self._inspection: Inspection = inspection_of(backend)
        self._auditor = auditor
        self._clock = clock
        self._reporter = reporter
        self._telemetry = telemetry
        self._dead_letters = dead_letters
        self._records = records
        self._retention = retention

    def get(self, job_id: str) -> JobRecord | None:
        stored = self._inspection.get(job_id)
        return None if stored is None else self._records.record(stored)

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
        query = Query(states=_states(state), queue=queue, job=job, limit=limit, after=after, newest_first=newest_first)
        return [self._records.record(stored) for stored in self._inspection.list(query)]

    def counts(self, queue: str | None = None) -> dict[State, int]:
        return self._inspection.counts(queue)

    def queues(self) -> Sequence[QueueState]:
        return self._inspection.queues()

    def overview(self, at_most: int) -> Overview:
        overview = self._inspection.look(Look(counts=True, at_most=at_most)).overview
        assert overview is not None
        return overview

    def sessions(self) -> Sequence[SessionRecord]:
        now = self._clock.micros()
        return [session_record_of(session, now) for session in self._inspection.sessions()]

    def cancel(self, job_id: str, reason: str, *, by: str | None = None) -> State | None:
        told = "" if by is None or reason == BY_REQUEST else reason
        reason = self._storable(job_id, reason)
        act = self._auditor.draft("cancel", by, jobs=[job_id], reason=told)
        answer = self._inspection.cancel([job_id], reason, audit=act.audit)[0]
        act.done(None if answer is None else [job_id])
        if answer is State.CANCELLED and self._telemetry.wants(JobCancelled):
            stored = self._inspection.get(job_id)
            if stored is not None:
                self._telemetry.emit(JobCancelled(id=job_id, job=stored.job, queue=stored.queue, reason=reason))
        return answer

    def _storable(self, job_id: str, reason: str) -> str:
        """Return a reason as every store accepts it, without the job's secrets.  The default reason has none."""
        if not isinstance(reason, str):
            raise OptionError(f"reason must be text, not {type(reason).__name__}")
        if reason == BY_REQUEST:
            return reason
        try:
            stored = self._inspection.get(job_id)
        except Unsupported:
            stored = None
        return storable((without_credentials if stored is None else self._records.scrubber(stored))(reason))

    def retry(self, job_id: str, *, by: str | None = None, reason: str = "") -> bool:
        act = self._auditor.draft("retry", by, jobs=[job_id], reason=reason)
        done = self._inspection.retry([job_id], audit=act.audit)[0]
        if not done:
            again = Query(ids=(job_id,), states=frozenset({State.DISCARDED, State.CANCELLED}), limit=1)
            done = bool(self._inspection.replay(again, audit=act.audit).ids)
        act.done([job_id] if done else None)
        return done

    def forget(self, key: str, job: str | None, stored: str, *, by: str | None = None, reason: str = "") -> bool:
        """Forget that a key's work was done.  ``stored``: the key as the store has it."""
        act = self._auditor.draft("forget-key", by, ref=stored, reason=reason)
        hold, job_id = self._inspection.forget_key(stored, audit=act.audit)
        act.done(() if hold is Hold.DONE else None)
        if hold is Hold.BUSY:
            raise KeyInUse(key, job, job_id or "")
        return hold is Hold.DONE

    def pause(self, queue: str, *, paused: bool, by: str | None = None, reason: str = "") -> bool:
        act = self._auditor.draft("pause" if paused else "resume", by, ref=names.queue_name(queue), reason=reason)
        changed = self._inspection.pause(queue, paused=paused, audit=act.audit)
        act.done(() if changed else None)
        if changed:
            self._telemetry.emit(QueuePaused(queue=queue) if paused else QueueResumed(queue=queue))
        return changed

    def reap(self, queue: str | None = None) -> Sequence[Reaped]:
        reaped = self._backend.reap(queue=None if queue is None else names.queue_name(queue))
        self.rescued(reaped)
        return reaped

    def rescued(self, reaped: Sequence[Reaped]) -> None:
        """Count and publish jobs that were given back, and copy dead letters."""
        self._reporter.reaped(reaped)
        self._dead_letters.copy_crashed(reaped)

    def prune(
        self,
        *,
        older_than: Age | None = None,
        completed_before: datetime | None = None,
        queue: str | None = None,
        state: State | str | Sequence[State | str] | None = None,
        dry_run: bool = False,
    ) -> Removed:
        """Remove completed jobs of an age, or those in the states named; without an age, those past their retention."""
        if completed_before is not None:
            if older_than is not None or state is not None:
                raise OptionError("completed_before says an age and a state already: leave out older_than and state")
            older_than, state = completed_before, State.COMPLETED
        states = _finished(state)
        if older_than is None:
            before = pruning.cutoffs(self._retention, self._clock.micros())
            before = before if states is None else {each: at for each, at in before.items() if each in states}
        else:
            before = dict.fromkeys(states or {State.COMPLETED}, pruning.cutoff(older_than, self._clock))
        only = None if queue is None else names.queue_name(queue)
        return pruning.total(pruning.prune(self._inspection, before, queue=only, dry_run=dry_run))


def _finished(asked: State | str | Sequence[State | str] | None) -> frozenset[State] | None:
    states = _states(asked)
    if states is not None and states - FINISHED:
        raise OptionError(
            f"prune removes finished jobs, which are {', '.join(sorted(FINISHED))}, not those that are "
            f"{min(states - FINISHED)}: jobs.cancel(id) ends a job that waits"
        )
    return states


def _states(asked: State | str | Sequence[State | str] | None) -> frozenset[State] | None:
    if asked is None:
        return None
    words = [asked] if isinstance(asked, str) else asked
    for word in words:
        if word not in list(State):
            raise OptionError(f"there is no state {word!r}{names.suggestion(str(word), State)}")
    return frozenset(State(word) for word in words)
