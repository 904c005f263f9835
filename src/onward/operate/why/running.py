"""Rules for jobs that a worker has claimed."""

from __future__ import annotations

from onward.base.durations import spoken
from onward.job.states import State
from onward.operate.why.acts import by_whom, facts_of, last_act
from onward.operate.why.case import Case, Described
from onward.operate.why.reason import Reason, at, moment

__all__ = ["cancelling", "running", "worker_gone", "worker_silent"]

_STUCK = 10  # times as long as usual


def worker_gone(case: Case) -> Reason | None:
    if not _runs(case) or _session(case) is not None:
        return None
    return Reason(
        code="worker_gone",
        text=f"Its worker (session {case.job.owner}) is gone.  The next sweep of any worker gives the job back, within "
        f"{spoken(case.settings.reaped_every)} if one runs.",
        fix="onward reap",
        facts={"owner": case.job.owner},
    )


def worker_silent(case: Case) -> Reason | None:
    held = _session(case)
    if not _runs(case) or held is None or held.session.expires_at > case.now:
        return None
    silent = (case.now - held.session.expires_at) / 1_000_000
    renewed = held.session.expires_at - round(held.session.lease_for.total_seconds() * 1_000_000)
    return Reason(
        code="worker_silent",
        text=f"Its worker ({held.place}) was last heard of at {moment(renewed)}: its session expired {spoken(silent)} ago, "
        f"and the next sweep gives the job back.  That worker starts nothing until the store has answered it again.",
        fix="onward reap",
        facts={"owner": case.job.owner, "host": held.session.host, "pid": held.session.pid, "renewed_at": renewed},
    )


def cancelling(case: Case) -> Reason | None:
    if not _runs(case) or case.job.cancel_reason is None:
        return None
    entry = last_act(case.besides.acts, "cancel")
    return Reason(
        code="cancelling",
        text=f"It runs, and was asked to stop{by_whom(entry, why=False)}: {case.job.cancel_reason}.  It stops at its next "
        f"byte-code or await, unless it holds interruptions back.",
        fix=f"wait; `onward job stack {case.job.id}` shows where it is",
        facts={"reason": case.job.cancel_reason, "owner": case.job.owner, **facts_of(entry)},
    )


def running(case: Case) -> Reason | None:
    if not _runs(case):
        return None
    held, started = _session(case), case.job.started_at or case.now
    where = f" on {held.place}" if held is not None else ""
    progress = case.record.progress if case.record is not None else None
    so_far = "" if progress is None else f"; it reports {progress.fraction:.0%}"
    took, usual = max(0, case.now - started) / 1_000_000, case.besides.usual_run
    compared = "" if usual is None else f"  95 of 100 runs of this job take less than {spoken(usual)}"
    is_stuck = usual is not None and took > _STUCK * usual
    return Reason(
        code="running",
        text=f"It has been running for {spoken(took)}{where}, since {moment(started)}{so_far}."
        f"{compared and compared + ('.  Is it stuck?' if is_stuck else '.')}",
        fix=f"onward job stack {case.job.id}",
        facts={
            "owner": case.job.owner,
            "started_at": at(started),
            "attempt": case.job.attempts + 1,
            "usual_run": usual,
            "stuck": is_stuck,
        },
    )


def _runs(case: Case) -> bool:
    return case.is_there and case.job.state is State.EXECUTING


def _session(case: Case) -> Described | None:
    return next((each for each in case.sessions if each.session.owner == case.job.owner), None)
