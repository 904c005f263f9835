"""What people ask of the jobs of a database."""

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
    Replayed,
)
from onward.backends.postgres import glancing
from onward.backends.postgres.transaction import Row, Transaction
from onward.backends.sql.inspection import FINISHED_AT, REPLAYABLE, SqlInspection, cancelled, matching, once
from onward.clock import SECOND
from onward.states import FINISHED, State, state_named

__all__ = ["PostgresInspection"]

Result = TypeVar("Result")

_TOMBSTONE = round(TOMBSTONE.total_seconds() * SECOND)


class PostgresInspection(SqlInspection):
    """The `Inspection` half of the backend."""

    @abstractmethod
    def _read(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _write(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _ask(self, name: str, **parameters: object) -> Sequence[Row]: ...

    @abstractmethod
    def _wake(self, queues: Collection[str]) -> None: ...

    def overview(self, *, at_most: int = 10_000) -> Overview:
        return self._read(lambda tx: glancing.overview(tx, at_most))

    def cancel(self, ids: Sequence[str], reason: str) -> Sequence[State | None]:
        wanted = sorted(set(ids))
        states = self._ask("cancel", ids=wanted, reasons=[reason] * len(wanted), replaced=False)
        found = {job_id: state_named(word) for job_id, word in states}
        # A waiting job can be cancelled once: named a second time, there is nothing left to cancel.
        return [cancelled(found, job_id) for job_id in ids]

    def retry(self, ids: Sequence[str]) -> Sequence[bool]:
        made_due = self._ask("make_due", ids=sorted(set(ids)))
        self._wake({queue for _, queue in made_due})
        due = {job_id for job_id, _ in made_due}
        return [once(due, job_id) for job_id in ids]

    def replay(self, query: Query) -> Replayed:
        return self._write(lambda tx: _replay(tx, query))

    def purge(self, query: Query) -> int:
        def act(tx: Transaction) -> int:
            picked = matching(tx, query, within=FINISHED)
            return len(_forget(tx, {row[0]: row[FINISHED_AT] for row in picked}))

        return self._write(act)

    def prune(self, cutoffs: Mapping[State, int], *, after: str = "", limit: int = 500) -> Pruned:
        def act(tx: Transaction) -> Pruned:
            tx.ask("drop_spent_holds", limit=limit)
            tx.ask("forget_waiters")
            page = tx.ask("next_finished", after=after, limit=limit).rows()
            doomed = {
                job_id: (state_named(word), finished_at)
                for job_id, word, finished_at, tombstone, now in page
                if finished_at < (now - _TOMBSTONE if tombstone else cutoffs.get(state_named(word), 0))
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


def _replay(tx: Transaction, query: Query) -> Replayed:
    named = tx.ask("tombstones_among", ids=list(query.ids or ()))
    skipped = {job_id: "tombstone" for (job_id,) in named.rows()}
    ids = [row[0] for row in matching(tx, query, within=REPLAYABLE)]
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
