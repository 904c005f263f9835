"""Looking at the jobs of a database, and what people ask of them."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from onward.backend import (
    TOMBSTONE,
    Lease,
    Overview,
    Pruned,
    Query,
    QueueState,
    Replayed,
    SessionState,
    StoredJob,
)
from onward.backends.postgres import glancing
from onward.backends.postgres.transaction import Row, Transaction
from onward.backends.sql import rows
from onward.clock import SECOND
from onward.states import FINISHED, LIVE, State

__all__ = ["PostgresInspection"]

Result = TypeVar("Result")

_TOMBSTONE = round(TOMBSTONE.total_seconds() * SECOND)
_FINISHED_AT = 13  # the column of `pick`
_REPLAYABLE = frozenset({State.DISCARDED, State.CANCELLED})


class PostgresInspection:
    """The `Inspection` half of the backend."""

    @abstractmethod
    def _read(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _write(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _ask(self, name: str, **parameters: object) -> Sequence[Row]: ...

    @abstractmethod
    def _wake(self, queues: Collection[str]) -> None: ...

    def get(self, job_id: str) -> StoredJob | None:
        found = self._read(lambda tx: _stored(tx, tx.ask("pick", ids=[job_id]).rows()[:1]))
        return found[0] if found else None

    def list(self, query: Query) -> Sequence[StoredJob]:
        return self._read(lambda tx: _stored(tx, _matching(tx, query, within=frozenset(State))))

    def counts(self, queue: str | None = None) -> dict[State, int]:
        def count(tx: Transaction) -> dict[State, int]:
            replies = tx.ask("count_live", queue=queue), tx.ask("count_finished", queue=queue)
            found = {State(word): number for reply in replies for word, number in reply.rows()}
            return {**dict.fromkeys(State, 0), **found}

        return self._read(count)

    def queues(self) -> Sequence[QueueState]:
        def look(tx: Transaction) -> list[QueueState]:
            counted, stopped = tx.ask("live_by_queue"), tx.ask("paused_queues")
            live: dict[str, int] = dict(counted.rows())
            paused = {name for (name,) in stopped.rows()}
            names = sorted(live.keys() | paused)
            return [QueueState(name=name, paused=name in paused, live=live.get(name, 0)) for name in names]

        return self._read(look)

    def overview(self, *, at_most: int = 10_000) -> Overview:
        return self._read(lambda tx: glancing.overview(tx, at_most))

    def sessions(self) -> Sequence[SessionState]:
        return [rows.session_state(row) for row in self._ask("sessions")]

    def cancel(self, ids: Sequence[str], reason: str) -> Sequence[State | None]:
        wanted = sorted(set(ids))
        states = self._ask("cancel", ids=wanted, reasons=[reason] * len(wanted), replaced=False)
        found = {job_id: State(word) for job_id, word in states}
        # A waiting job can be cancelled once: named a second time, there is nothing left to cancel.
        return [_cancelled(found, job_id) for job_id in ids]

    def retry(self, ids: Sequence[str]) -> Sequence[bool]:
        made_due = self._ask("make_due", ids=sorted(set(ids)))
        self._wake({queue for _, queue in made_due})
        due = {job_id for job_id, _ in made_due}
        return [_once(due, job_id) for job_id in ids]

    def replay(self, query: Query) -> Replayed:
        return self._write(lambda tx: _replay(tx, query))

    def purge(self, query: Query) -> int:
        def act(tx: Transaction) -> int:
            picked = _matching(tx, query, within=FINISHED)
            return len(_forget(tx, {row[0]: row[_FINISHED_AT] for row in picked}))

        return self._write(act)

    def prune(self, cutoffs: Mapping[State, int], *, after: str = "", limit: int = 500) -> Pruned:
        def act(tx: Transaction) -> Pruned:
            tx.ask("drop_spent_holds", limit=limit)
            tx.ask("forget_waiters")
            page = tx.ask("next_finished", after=after, limit=limit).rows()
            doomed = {
                job_id: (State(word), finished_at)
                for job_id, word, finished_at, tombstone, now in page
                if finished_at < (now - _TOMBSTONE if tombstone else cutoffs.get(State(word), 0))
            }
            gone = _forget(tx, {job_id: finished_at for job_id, (_, finished_at) in doomed.items()})
            removed = Counter(doomed[job_id][0] for job_id in gone)
            return Pruned(removed=dict(removed), next=page[-1][0] if len(page) == limit else None)

        return self._write(act)

    def pause(self, queue: str, *, paused: bool = True) -> bool:
        changed = self._ask("pause" if paused else "resume", queue=queue)
        if not paused:
            self._wake([queue])
        return bool(changed)

    def progress(self, lease: Lease, progress: bytes) -> bool:
        return bool(
            self._ask("progress", id=lease.envelope.id, token=lease.token, owner=lease.owner, progress=progress)
        )


def _matching(tx: Transaction, query: Query, *, within: frozenset[State]) -> list[Row]:
    """The rows of a page, in its order.  Tombstones are never among them."""
    states = within if query.states is None else within & query.states
    if not states or query.limit <= 0:
        return []
    ids = _page(tx, query, states) if query.ids is None else rows.ids_named(query, query.ids)
    found: dict[str, Row] = {}
    for row in tx.ask("pick", ids=ids).rows():
        job_id, queue, job, sealed, state, *_ = row
        if sealed is not None and state in states and query.queue in (None, queue) and query.job in (None, job):
            found.setdefault(job_id, row)
    return [found[job_id] for job_id in ids if job_id in found][: query.limit]


def _page(tx: Transaction, query: Query, states: frozenset[State]) -> list[str]:
    if states == {State.EXECUTING}:  # those are few, and have an index: no need to walk along all that waits
        running = tx.ask("running", queue=query.queue, job=query.job).rows()
        return rows.ids_named(query, [job_id for (job_id,) in running])[: query.limit]
    parameters = {
        "live": not states.isdisjoint(LIVE),
        "states": sorted(states & LIVE),
        "completed": State.COMPLETED in states,
        "discarded": State.DISCARDED in states,
        "cancelled": State.CANCELLED in states,
        "queue": query.queue,
        "job": query.job,
        "after": query.after if query.after is not None or query.newest_first else "",
        "limit": query.limit,
    }
    return [job_id for (job_id,) in tx.ask("page_newest" if query.newest_first else "page_oldest", **parameters).rows()]


def _stored(tx: Transaction, picked: Sequence[Row]) -> list[StoredJob]:
    return rows.stored_jobs(picked, tx.ask("runs_of", ids=[row[0] for row in picked]).rows())


def _cancelled(found: dict[str, State], job_id: str) -> State | None:
    state = found.get(job_id)
    if state is None or state is State.EXECUTING:
        return state
    del found[job_id]
    return State.CANCELLED


def _once(due: set[str], job_id: str) -> bool:
    if job_id not in due:
        return False
    due.remove(job_id)
    return True


def _replay(tx: Transaction, query: Query) -> Replayed:
    named = tx.ask("tombstones_among", ids=list(query.ids or ()))
    skipped = {job_id: "tombstone" for (job_id,) in named.rows()}
    ids = [row[0] for row in _matching(tx, query, within=_REPLAYABLE)]
    found = {row[0]: row[1:] for row in tx.ask("replayable", ids=ids).rows()}
    fresh = [job_id for job_id in found if not found[job_id][-1]]
    alive = tx.ask("revive", ids=fresh).rows()
    revived = {job_id for job_id, _ in alive}
    tx.wakes |= {queue for _, queue in alive}
    # The records of its old runs stay.
    tx.ask("forget_finished", ids=sorted(revived), finished_at=[found[job_id][0] for job_id in sorted(revived)])
    held = [job_id for job_id in fresh if job_id not in revived]
    holders: dict[str, str] = dict(tx.ask("key_holders", keys=[found[job_id][1] for job_id in held]).rows())
    for job_id in found:
        if job_id not in fresh:
            skipped[job_id] = "expired"
        elif job_id not in revived:
            skipped[job_id] = f"key held by {holders.get(found[job_id][1], job_id)}"
    return Replayed(ids=[job_id for job_id in fresh if job_id in revived], skipped=skipped)


def _forget(tx: Transaction, doomed: Mapping[str, int]) -> list[str]:
    """Remove these, if they still are what was seen; gives the ids of what is gone."""
    if not doomed:
        return []
    ids = sorted(doomed)
    forgotten = tx.ask("forget_finished", ids=ids, finished_at=[doomed[job_id] for job_id in ids]).rows()
    gone = [job_id for (job_id,) in forgotten]
    tx.ask("forget_runs", ids=gone)
    return gone
