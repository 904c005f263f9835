"""Rows as values: `pick`, `runs_of` and `sessions` name the same columns, in the same order, in every dialect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from onward.backend import Query, Run, SessionState, StoredJob
from onward.failure import Failure
from onward.states import state_named

__all__ = ["Row", "ids_named", "runs_by_job", "session_state", "stored_jobs"]

Row = tuple[Any, ...]


def stored_jobs(picked: Sequence[Row], runs: Iterable[Row]) -> list[StoredJob]:
    """Rows of `pick`, with the rows of `runs_of` that belong to them."""
    runs_of = runs_by_job(runs)
    return [_stored_job(row, tuple(runs_of[row[0]])) for row in picked]


def runs_by_job(runs: Iterable[Row]) -> defaultdict[str, list[Run]]:
    """Rows of `runs_of`, by the job they belong to."""
    runs_of: defaultdict[str, list[Run]] = defaultdict(list)
    for job_id, token, attempt, move, state, at, duration_ms, *failure in runs:
        run = Run(
            token=token,
            attempt=attempt,
            move=move,
            to=state_named(state),
            failure=Failure(*failure),
            at=at,
            duration_ms=duration_ms,
        )
        runs_of[job_id].append(run)
    return runs_of


def _stored_job(row: Row, runs: tuple[Run, ...]) -> StoredJob:
    job_id, queue, job, sealed, state, rank, attempts, delivery, crashes, interruptions, *rest = row
    available_at, enqueued_at, started_at, finished_at, owner, asked, result, reason, progress, waits, parked_since = (
        rest
    )
    return StoredJob(
        id=job_id,
        queue=queue,
        job=job,
        data=sealed or b"",
        state=state_named(state),
        priority=-rank,
        attempts=attempts,
        delivery=delivery,
        crashes=crashes,
        interruptions=interruptions,
        available_at=available_at,
        enqueued_at=enqueued_at,
        started_at=started_at,
        finished_at=finished_at,
        owner=owner,
        cancel_requested=bool(asked),
        result=result,
        reason=reason,
        progress=progress,
        waits=waits,
        parked_since=parked_since,
        tombstone=sealed is None,
        runs=runs,
    )


def session_state(row: Row) -> SessionState:
    owner, lease_for, host, pid, version, expires_at, leases = row
    return SessionState(
        owner=owner,
        lease_for=timedelta(microseconds=lease_for),
        host=host,
        pid=pid,
        version=version,
        expires_at=expires_at,
        leases=leases,
    )


def ids_named(query: Query, ids: Iterable[str]) -> list[str]:
    """These ids in the order of the query's pages, from where its page begins."""
    ordered = sorted(set(ids), reverse=query.newest_first)
    if query.after is None:
        return ordered
    return [job_id for job_id in ordered if (job_id < query.after if query.newest_first else job_id > query.after)]
