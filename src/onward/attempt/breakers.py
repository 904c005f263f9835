"""The breakers of an application's jobs: what a run that has ended means for the others of its job."""

from __future__ import annotations

import threading

import msgspec

from onward.attempt.attempt import Attempt
from onward.backend import Backend, KeepsLimits
from onward.base import forks
from onward.base.clock import SECOND, Clock
from onward.base.durations import spoken
from onward.base.logs import get_logger
from onward.errors import BackendError
from onward.flow.breaker import Breaker, RecentRuns, Verdict
from onward.flow.lanes import group_of
from onward.flow.room import FOREVER
from onward.job.lease import Lease
from onward.job.registry import Registry
from onward.job.settlement import GateChange, Settlement

__all__ = ["Breakers", "opened_by"]

logger = get_logger("onward.job")

_LOOK_EVERY = SECOND  # microseconds between two looks whether another process has shut the job


class Breakers:
    """Counts the runs of jobs that have a breaker, and lets their settlements shut and open the job."""

    def __init__(self, backend: Backend, registry: Registry, clock: Clock) -> None:
        self._backend = backend
        self._registry = registry
        self._clock = clock
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, RecentRuns] = {}
        self._looked_at: dict[str, int] = {}

    def applied(self, attempt: Attempt, settlement: Settlement) -> Settlement:
        """Count an attempt.  Returns its settlement: with a gate, or a snooze in its place while the job is shut."""
        if attempt.blamed is None or attempt.letter is None:
            return settlement
        entry = self._registry.find(attempt.letter.job)
        breaker = None if entry is None else entry.definition.breaker
        if entry is None or breaker is None:
            return settlement
        lease, job, now = attempt.lease, entry.definition.name, self._clock.micros()
        with self._lock:
            runs = self._runs.get(job)
            if runs is None or runs.breaker is not breaker:
                runs = self._runs[job] = RecentRuns(breaker)
        if attempt.blamed and not lease.probe:
            self._look(job, runs, now)
        with self._lock:
            verdict = runs.judge(blamed=attempt.blamed, probe=lease.probe, now=now)
            if verdict.shut_for is not None:
                self._looked_at[job] = now  # this process knows best for a moment
        if verdict.snooze is not None:
            return Settlement.snooze(lease, verdict.snooze)
        return settlement if verdict.shut_for is None else _changing_its_gate(job, breaker, settlement, verdict)

    def _look(self, job: str, runs: RecentRuns, now: int) -> None:
        """Read whether the job is shut, by another process or no longer: once in a while, and only after a failure."""
        with self._lock:
            if 0 <= now - self._looked_at.get(job, -_LOOK_EVERY) < _LOOK_EVERY:
                return
            self._looked_at[job] = now
        assert isinstance(self._backend, KeepsLimits)
        try:
            states = self._backend.limits()
        except BackendError:
            return  # what this process knows itself counts
        until = next((state.shut_until for state in states if (state.row.kind, state.row.name) == ("job", job)), None)
        runs.shut_until = 0 if until is None or until >= FOREVER else until  # shut by hand: failures count as ever


def _changing_its_gate(job: str, breaker: Breaker, settlement: Settlement, verdict: Verdict) -> Settlement:
    assert verdict.shut_for is not None
    if verdict.opens:
        logger.info("job %s is open again: its probe succeeded", job)
    else:
        failed = f"{breaker.failures} of its last {breaker.of} runs failed"
        why = "its probe failed" if settlement.lease.probe else failed
        logger.warning("job %s is shut for %s in all workers: %s", job, spoken(verdict.shut_for), why)
    gate = GateChange(_group(settlement.lease, job), verdict.shut_for, probes=not verdict.opens)
    return msgspec.structs.replace(settlement, gate=gate)


def opened_by(lease: Lease) -> GateChange | None:
    """Return what a probe that succeeds does, however it is settled; None for any other run."""
    return GateChange(group_of(lease.lane), 0) if lease.probe and lease.lane is not None else None


def _group(lease: Lease, job: str) -> str:
    """Return the lanes to shut: those of the name under which the job was enqueued."""
    return f"{job}/" if lease.lane is None or lease.lane.startswith("/") else group_of(lease.lane)
