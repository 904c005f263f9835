"""Looking at the jobs of a file, and what people ask of them."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from onward.backends.sql import rows
from onward.backends.sql.inspection import EVERY_STATE, Unfindable
from onward.backends.sqlite import holds, overview
from onward.backends.sqlite.enqueueing import cancel_waiting
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.contract.backend import (
    Hold,
    Lease,
    Overview,
    Pruned,
    Query,
    QueuePage,
    QueueState,
    Replayed,
    SessionState,
    StoredJob,
)
from onward.job.states import FINISHED, LIVE, State, state_named

__all__ = ["SqliteInspection"]

_REPLAYABLE = frozenset({State.DISCARDED, State.CANCELLED})
_BEFORE_ALL, _AFTER_ALL = "", b""  # SQLite sorts every blob after every text


class SqliteInspection:
    """The `Inspection` half of the backend."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _tidy(self) -> None: ...

    def get(self, job_id: str) -> StoredJob | None:
        found = self.get_many([job_id])
        return found[0] if found else None

    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        with self._reading() as tx:
            return _stored(tx, rows.live_before_finished(tx.rows("pick", (as_json(ids),))))

    @abstractmethod
    def set_aside(self) -> int: ...

    def list(self, query: Query) -> Sequence[StoredJob]:
        with self._reading() as tx:
            try:
                return _stored(tx, _matching(tx, query, within=EVERY_STATE, whole=True))
            except Unfindable:
                pass
        # Whoever walks the pages ends at one that is short: a row that cannot be shown must not hide those behind it.
        self.set_aside()
        with self._reading() as tx:
            return _stored(tx, _matching(tx, query, within=EVERY_STATE))

    def counts(self, queue: str | None = None) -> dict[State, int]:
        with self._reading() as tx:
            counts = dict.fromkeys(State, 0)
            counts |= {state_named(word): number for word, number in tx.rows("count_live", (queue,))}
            finished = tx.row("count_finished") if queue is None else tx.row("count_finished_of_queue", (queue,))
            assert finished is not None
            everything, discarded, cancelled, tombstones = finished
            counts[State.DISCARDED] = discarded
            counts[State.CANCELLED] = cancelled
            counts[State.COMPLETED] = everything - discarded - cancelled - tombstones
            return counts

    def queues(self) -> Sequence[QueueState]:
        with self._reading() as tx:
            live: Counter[str] = Counter()
            for name, number in tx.rows("live_by_queue"):
                live[name] += number
            paused = {name for (name,) in tx.rows("paused_queues")}
            names = sorted(live.keys() | paused)
            return [QueueState(name=name, paused=name in paused, live=live[name]) for name in names]

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        with self._reading() as tx:
            return rows.queue_page(
                tx.rows("queues_with_work", (prefix, after, rows.beyond(prefix), tx.now, limit)), limit
            )

    def overview(self, *, at_most: int = 10_000) -> Overview:
        with self._reading() as tx:
            return overview.overview(tx, at_most)

    def sessions(self) -> Sequence[SessionState]:
        with self._reading() as tx:
            return [rows.session_state(row) for row in tx.rows("sessions")]

    def cancel(self, ids: Sequence[str], reason: str) -> Sequence[State | None]:
        with self._writing() as tx:
            found = {job_id: (rowid, state) for rowid, job_id, state in tx.rows("states_of", (as_json(ids),))}
            waiting = [rowid for rowid, state in found.values() if state != State.EXECUTING]
            running = [rowid for rowid, state in found.values() if state == State.EXECUTING]
            if waiting:
                cancel_waiting(tx, waiting, reason)
            if running:
                tx.run("ask_to_cancel", (as_json(running), reason))
            # A waiting job can be cancelled once: named a second time, there is nothing left to cancel.
            return [_cancelled(found, job_id) for job_id in ids]

    def retry(self, ids: Sequence[str]) -> Sequence[bool]:
        with self._writing() as tx:
            later = {
                job_id: rowid
                for rowid, job_id, state in tx.rows("states_of", (as_json(ids),))
                if state in (State.SCHEDULED, State.RETRYABLE)
            }
            if later:
                tx.wakes = True
                tx.run("make_due", (as_json(list(later.values())), tx.now))
            return [later.pop(job_id, None) is not None for job_id in ids]

    def replay(self, query: Query) -> Replayed:
        with self._writing() as tx:
            named = tx.rows("tombstones_among", (as_json(query.ids or ()),))
            replayed = Replayed(ids=[], skipped={job_id: "tombstone" for (job_id,) in named})
            ids = [row[0] for row in _matching(tx, query, within=_REPLAYABLE)]
            for job_id, expires_at, unique_key in tx.rows("replayable", (as_json(ids),)):
                if expires_at is not None and expires_at <= tx.now:
                    replayed.skipped[job_id] = "expired"
                elif tx.run("revive", (job_id, tx.now)):
                    replayed.ids.append(job_id)
                else:
                    holder = tx.row("key_holder", (unique_key,))
                    replayed.skipped[job_id] = f"key held by {holder[1] if holder else job_id}"
            if replayed.ids:
                tx.wakes = True
                tx.run("forget_finished", (as_json(replayed.ids),))
            return replayed

    def purge(self, query: Query) -> int:
        with self._writing() as tx:
            return _forget(tx, [row[0] for row in _matching(tx, query, within=FINISHED)])

    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        if dry_run:
            with self._reading() as tx:
                batch = rows.PruneBatch.of(tx.rows("next_finished", (after, limit, tx.now)), cutoffs, queue, limit)
                return batch.pruned(batch.doomed)
        with self._writing() as tx:
            tx.run("drop_spent_holds", (tx.now, limit))
            batch = rows.PruneBatch.of(tx.rows("next_finished", (after, limit, tx.now)), cutoffs, queue, limit)
            _forget(tx, list(batch.doomed))
        self._tidy()
        return batch.pruned(batch.doomed)

    def forget_key(self, key: str) -> tuple[Hold, str | None]:
        with self._writing() as tx:
            return holds.forget(tx, key)

    def pause(self, queue: str, *, paused: bool = True) -> bool:
        with self._writing() as tx:
            if paused:
                return tx.run("pause", (queue, tx.now)) == 1
            tx.wakes = True
            return tx.run("resume", (queue,)) == 1

    def progress(self, lease: Lease, progress: bytes) -> bool:
        with self._writing() as tx:
            return tx.run("progress", (lease.envelope.id, lease.token, lease.owner, progress)) == 1


def _matching(tx: Transaction, query: Query, *, within: frozenset[State], whole: bool = False) -> list[Row]:
    """The rows of a page, in its order.  Tombstones are never among them.  ``whole``: raise if an id has no row."""
    states = within if query.states is None else within & query.states
    if not states or query.limit <= 0:
        return []
    everything = states == EVERY_STATE
    ids = _page(tx, query, states) if query.ids is None else rows.ids_named(query, query.ids)
    found: dict[str, Row] = {}
    picked = tx.rows("pick", (as_json(ids),))
    if whole and query.ids is None and len(picked) < len(ids):
        raise Unfindable
    for row in picked:
        job_id, queue, job, sealed, state, *_ = row
        if sealed is None or query.queue not in (None, queue) or query.job not in (None, job):
            continue
        if everything or state in states:
            found.setdefault(job_id, row)
    return [found[job_id] for job_id in ids if job_id in found][: query.limit]


def _page(tx: Transaction, query: Query, states: frozenset[State]) -> list[str]:
    if states == {State.EXECUTING}:  # those are few, and have an index: no need to walk along all that waits
        return rows.ids_named(query, [job_id for (job_id,) in tx.rows("running", (query.queue, query.job))])[
            : query.limit
        ]
    parameters = {
        "everything": states == EVERY_STATE,  # those that are none of ours, too
        "live": not states.isdisjoint(LIVE),
        "states": as_json(sorted(states & LIVE)),
        "completed": State.COMPLETED in states,
        "discarded": State.DISCARDED in states,
        "cancelled": State.CANCELLED in states,
        "queue": query.queue,
        "job": query.job,
        "after": query.after if query.after is not None else _AFTER_ALL if query.newest_first else _BEFORE_ALL,
        "limit": query.limit,
    }
    return [job_id for (job_id,) in tx.rows("page_newest" if query.newest_first else "page_oldest", parameters)]


def _stored(tx: Transaction, picked: Sequence[Row]) -> list[StoredJob]:
    return rows.stored_jobs(picked, tx.rows("runs_of", (as_json([row[0] for row in picked]),)))


def _cancelled(found: dict[str, tuple[int, str]], job_id: str) -> State | None:
    _, state = found.get(job_id, (0, None))
    if state is None:
        return None
    if state == State.EXECUTING:
        return State.EXECUTING
    del found[job_id]
    return State.CANCELLED


def _forget(tx: Transaction, ids: Sequence[str]) -> int:
    if not ids:
        return 0
    listed = as_json(ids)
    forgotten = tx.run("forget_finished", (listed,))
    tx.run("forget_runs", (listed,))
    return forgotten
