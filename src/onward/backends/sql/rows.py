"""From rows to values: `pick`, `runs_of` and `sessions` have the same columns, in the same order, in every dialect."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from onward.backend import TOMBSTONE, Pruned, Query, QueuePage, Run, SessionState, StoredJob
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.job.states import State, state_named

__all__ = [
    "PruneBatch",
    "Row",
    "before",
    "beyond",
    "ids_named",
    "live_before_finished",
    "queue_page",
    "runs_by_job",
    "session_state",
    "stored_jobs",
]

Row = tuple[Any, ...]

_TOMBSTONE = round(TOMBSTONE.total_seconds() * SECOND)


def stored_jobs(picked: Sequence[Row], runs: Iterable[Row]) -> list[StoredJob]:
    """Return jobs from rows of `pick`, with the rows of `runs_of` that belong to them."""
    runs_of = runs_by_job(runs)
    return [_stored_job(row, tuple(runs_of[row[0]])) for row in picked]


def live_before_finished(picked: Iterable[Row]) -> list[Row]:
    """Return rows of `pick`, each job once: the live row of a job that also has a finished one."""
    found: dict[str, Row] = {}
    for row in picked:
        found.setdefault(row[0], row)
    return list(found.values())


def runs_by_job(runs: Iterable[Row]) -> defaultdict[str, list[Run]]:
    """Return records from rows of `runs_of`, by the job they belong to."""
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
    available_at, enqueued_at, started_at, finished_at, owner, asked, result, reason, progress, *waiting = rest
    waits, parked_since, awaits = waiting
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
        awaits=awaits,
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


def beyond(prefix: str) -> str:
    """Return a text that sorts after every queue name with this prefix."""
    return f"{prefix}\x7f"


def before(prefix: str) -> str:
    """Return a text that sorts before every queue name with this prefix, and after every name before those."""
    return f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}\x7f" if prefix else ""


def queue_page(walked: Sequence[Row], limit: int) -> QueuePage:
    """Return a page from the rows of `queues_with_work`: of several walks, each as far as it came."""
    walks: defaultdict[str, list[str]] = defaultdict(list)
    for which, name, _ in walked:
        walks[which].append(name)
    following = min((names[-1] for names in walks.values() if len(names) >= limit), default=None)
    found = {name for _, name, has_work in walked if has_work and (following is None or name <= following)}
    return QueuePage(names=sorted(found), next=following)


class Doomed(NamedTuple):
    """A finished job that a prune removes."""

    queue: str
    state: State
    finished_at: int


class PruneBatch(NamedTuple):
    """One page of `next_finished`, and which of its jobs to remove."""

    doomed: dict[str, Doomed]
    next: str | None

    @classmethod
    def of(cls, page: Sequence[Row], cutoffs: Mapping[State, int], queue: str | None, limit: int) -> PruneBatch:
        doomed = {
            job_id: Doomed(name, state_named(word), finished_at)
            for job_id, name, word, finished_at, tombstone, now in page
            if finished_at < (now - _TOMBSTONE if tombstone else cutoffs.get(state_named(word), 0))
            and queue in (None, name)
        }
        return cls(doomed, page[-1][0] if len(page) == limit else None)

    def seen(self) -> dict[str, int]:
        """Return when each job to remove finished."""
        return {job_id: each.finished_at for job_id, each in self.doomed.items()}

    def pruned(self, gone: Iterable[str]) -> Pruned:
        """Return the answer of a prune that has removed these ids."""
        removed = Counter((self.doomed[job_id].queue, self.doomed[job_id].state) for job_id in gone)
        return Pruned(removed=dict(removed), next=self.next)


def ids_named(query: Query, ids: Iterable[str]) -> list[str]:
    """Return these ids in the order of the query's pages, from where its page begins."""
    ordered = sorted(set(ids), reverse=query.newest_first)
    if query.after is None:
        return ordered
    return [job_id for job_id in ordered if (job_id < query.after if query.newest_first else job_id > query.after)]
