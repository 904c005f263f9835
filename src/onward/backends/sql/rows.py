"""From rows to values: `pick`, `runs_of` and `sessions` have the same columns, in the same order, in every dialect."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from onward.backend import TOMBSTONE, Pruned, Query, QueuePage, Run, SessionState, StoredJob
from onward.backends.sql.limits import lane_shown
from onward.backends.sql.statements import NamedSteps, ask
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.contract.values import CONTINUATION
from onward.job.ran_by import RanBy
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
    "showing",
    "stored_jobs",
    "until",
]

Row = tuple[Any, ...]

_TOMBSTONE = round(TOMBSTONE.total_seconds() * SECOND)


def stored_jobs(picked: Sequence[Row], runs: Iterable[Row]) -> list[StoredJob]:
    """Return jobs from rows of `pick`, with the rows of `runs_of` that belong to them."""
    runs_of = runs_by_job(runs)
    return [_stored_job(row, tuple(runs_of[row[0]])) for row in picked]


def showing(job_id: str) -> NamedSteps[StoredJob | None]:
    """Look at one job, on any connection: some drivers give bytes as a view of their memory."""
    picked = live_before_finished(map(_in_bytes, (yield from ask("pick", ids=[job_id]))))
    if not picked:
        return None
    runs = yield from ask("runs_of", ids=[job_id])
    return stored_jobs(picked, map(tuple, runs))[0]


def _in_bytes(row: Sequence[Any]) -> Row:
    return tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)


def live_before_finished(picked: Iterable[Row]) -> list[Row]:
    """Return rows of `pick`, each job once: the live row of a job that also has a finished one."""
    found: dict[str, Row] = {}
    for row in picked:
        found.setdefault(row[0], row)
    return list(found.values())


def runs_by_job(runs: Iterable[Row]) -> defaultdict[str, list[Run]]:
    """Return records from rows of `runs_of`, by the job they belong to."""
    runs_of: defaultdict[str, list[Run]] = defaultdict(list)
    for job_id, token, attempt, move, state, at, duration_ms, owner, by, *failure in runs:
        run = Run(
            token=token,
            attempt=attempt,
            move=move,
            to=state_named(state),
            failure=Failure(*failure),
            at=at,
            duration_ms=duration_ms,
            owner=owner,
            by=RanBy.decoded(by),
        )
        runs_of[job_id].append(run)
    return runs_of


def _stored_job(row: Row, runs: tuple[Run, ...]) -> StoredJob:
    values: dict[str, Any] = dict(zip(_PICKED if len(row) == len(_PICKED) else _PICKED_WITH_FLOW, row, strict=True))
    sealed = values["data"]
    values |= {
        "data": sealed or b"",
        "state": state_named(values["state"]),
        "priority": -values["priority"],
        "key_held": bool(values["key_held"]),
        "idempotency_ttl": 0 if values["idempotency_key"] is None else values["idempotency_ttl"],
        "lane": lane_shown(values["lane"]),
    }
    if sealed is None:
        values = {name: value for name, value in values.items() if name not in CONTINUATION}
    return StoredJob(**values, tombstone=sealed is None, runs=runs)


_FIELDS = StoredJob.__struct_fields__
_PICKED = _FIELDS[: _FIELDS.index("tombstone")]  # what follows is in no column of `pick`
_PICKED_WITH_FLOW = (*_PICKED, "flow", "node")  # of stores that keep flows


def session_state(row: Row) -> SessionState:
    owner, lease_for, host, pid, version, expires_at, leases, description = row
    return SessionState(
        owner=owner,
        lease_for=timedelta(microseconds=lease_for),
        host=host,
        pid=pid,
        version=version,
        expires_at=expires_at,
        leases=leases,
        description=bytes(description),
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
            job_id: Doomed(name, state_named(word), own[0] if own else finished_at)
            for job_id, name, word, finished_at, tombstone, now, *own in page
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


def until(query: Query, ids: list[str]) -> list[str]:
    """Return these ids without those that are beyond the last one of a query."""
    return ids if query.until is None else [job_id for job_id in ids if job_id <= query.until]


def ids_named(query: Query, ids: Iterable[str]) -> list[str]:
    """Return these ids in the order of the query's pages, from where its page begins."""
    ordered = until(query, sorted(set(ids), reverse=query.newest_first))
    if query.after is None:
        return ordered
    return [job_id for job_id in ordered if (job_id < query.after if query.newest_first else job_id > query.after)]
