"""What people ask of the jobs of a database."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from onward.backend import TOMBSTONE, Lease, Overview, Pruned, Query, Replayed
from onward.backends.mysql import glancing
from onward.backends.mysql.enqueueing import cancel
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.inspection import FINISHED_AT, REPLAYABLE, SqlInspection, cancelled, matching, once
from onward.clock import SECOND
from onward.states import FINISHED, State, state_named

__all__ = ["MySQLInspection"]

Result = TypeVar("Result")

_TOMBSTONE = round(TOMBSTONE.total_seconds() * SECOND)
_LATER = (State.SCHEDULED, State.RETRYABLE)


class MySQLInspection(SqlInspection):
    """The `Inspection` half of the backend."""

    @abstractmethod
    def _read(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _write(self, act: Callable[[Transaction], Result]) -> Result: ...

    def overview(self, *, at_most: int = 10_000) -> Overview:
        return self._read(lambda tx: glancing.overview(tx, at_most))

    def cancel(self, ids: Sequence[str], reason: str) -> Sequence[State | None]:
        found = self._write(lambda tx: cancel(tx, dict.fromkeys(ids, reason)))
        return [cancelled(found, job_id) for job_id in ids]

    def retry(self, ids: Sequence[str]) -> Sequence[bool]:
        def act(tx: Transaction) -> set[str]:
            later = {
                job_id: queue
                for job_id, state, queue in tx.ask("lock_jobs", ids=sorted(set(ids))).rows()
                if state in _LATER
            }
            if later:
                tx.ask("make_due", ids=sorted(later))
                tx.wakes |= set(later.values())
            return set(later)

        due = self._write(act)
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
        def act(tx: Transaction) -> bool:
            if not paused:
                tx.wakes.add(queue)
            return tx.ask("pause" if paused else "resume", queue=queue).count == 1

        return self._write(act)

    def progress(self, lease: Lease, progress: bytes) -> bool:
        def act(tx: Transaction) -> bool:
            noted = tx.ask("progress", id=lease.envelope.id, token=lease.token, owner=lease.owner, progress=progress)
            return noted.count == 1

        return self._write(act)


def _replay(tx: Transaction, query: Query) -> Replayed:
    named = tx.ask("tombstones_among", ids=list(query.ids or ()))
    skipped = {job_id: "tombstone" for (job_id,) in named.rows()}
    ids = [row[0] for row in matching(tx, query, within=REPLAYABLE)]
    found = {row[0]: row[1:] for row in tx.ask("replayable", ids=ids).rows()} if ids else {}
    keys = [key for _, key, _, _ in found.values() if key is not None]
    holders: dict[str, str] = dict(tx.ask("lock_key_holders", keys=keys).rows()) if keys else {}
    live = {job_id for (job_id,) in tx.ask("live_among", ids=ids).rows()} if ids else set()
    revived: dict[str, str] = {}
    for job_id in (job_id for job_id in ids if job_id in found):
        _, key, queue, expired = found[job_id]
        if expired:
            skipped[job_id] = "expired"
        elif job_id in live or key in holders:
            skipped[job_id] = f"key held by {holders.get(key, job_id)}"
        else:
            revived[job_id] = queue
            if key is not None:
                holders[key] = job_id
    if revived:
        tx.ask("revive", ids=list(revived))
        tx.wakes |= set(revived.values())
        # The records of its old runs stay.
        tx.ask("forget_finished", ids=sorted(revived))
    return Replayed(ids=list(revived), skipped=skipped)


def _forget(tx: Transaction, doomed: Mapping[str, int]) -> Collection[str]:
    """Remove these, if they still are what was seen; gives the ids of what is gone."""
    if not doomed:
        return []
    gone = [job_id for (job_id,) in tx.ask("lock_finished", seen=sorted(doomed.items())).rows()]
    if gone:
        tx.ask("forget_finished", ids=gone)
        tx.ask("forget_runs", ids=gone)
    return gone
