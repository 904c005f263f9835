"""Looking at jobs, the part that all SQL stores share: the statements have the same names in every dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

from onward.backend import Audit, Hold, Pruned, Query, QueueState, Replayed, SessionState, StoredJob
from onward.backends.sql import deaths, rows
from onward.backends.sql.audit import SqlAudit, drop_old_audit, whether
from onward.backends.sql.rows import PruneBatch, Row
from onward.backends.sql.statements import SqlTransaction
from onward.contract.snapshot import LOOK_SECONDS
from onward.errors import QueueReserved
from onward.job.states import FINISHED, LIVE, State, state_named

__all__ = [
    "EVERY_STATE",
    "REPLAYABLE",
    "SqlInspection",
    "Unfindable",
    "cancelled",
    "matching",
    "once",
    "page",
    "was_done",
]

Tx = TypeVar("Tx", bound=SqlTransaction)
Result = TypeVar("Result")

FINISHED_AT = 13  # the column of `pick`
REPLAYABLE = frozenset({State.DISCARDED, State.CANCELLED})
EVERY_STATE = frozenset(State)


class SqlInspection(SqlAudit, Generic[Tx]):
    """The methods of `Inspection` that are the same in every dialect."""

    @abstractmethod
    def _read(self, act: Callable[[Tx], Result]) -> Result: ...

    @abstractmethod
    def _read_briefly(self, act: Callable[[Tx], Result], seconds: float = LOOK_SECONDS) -> Result:
        """Run it in one snapshot; raise `BackendUnavailable` if it takes longer."""

    @abstractmethod
    def set_aside(self) -> int:
        """Set aside rows that no worker wrote; return how many there were."""

    @abstractmethod
    def _write(self, act: Callable[[Tx], Result]) -> Result: ...

    @abstractmethod
    def _finish_replay(self, act: Callable[[Tx, set[str]], Replayed], audit: Audit) -> Replayed:
        """Replay jobs in one transaction, and then, in steps, what was cancelled behind members of flows."""

    @abstractmethod
    def _tidy(self, tx: Tx, limit: int) -> None:
        """Remove other rows that are of no use any more.  Every batch of a prune calls this."""

    @abstractmethod
    def _forget(self, tx: Tx, doomed: Mapping[str, int]) -> Collection[str]:
        """Remove these jobs, if they have not changed since; return the ids of those that are gone."""

    def get(self, job_id: str) -> StoredJob | None:
        found = self.get_many([job_id])
        return found[0] if found else None

    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        def look(tx: SqlTransaction) -> Sequence[StoredJob]:
            return _stored(tx, rows.live_before_finished(tx.ask("pick", ids=[*ids]).rows()))

        return self._read(look)

    def list(self, query: Query) -> Sequence[StoredJob]:
        def look(tx: SqlTransaction) -> Sequence[StoredJob] | None:
            try:
                return _stored(tx, matching(tx, query, within=EVERY_STATE, whole=True))
            except Unfindable:
                return None

        def look_again(tx: SqlTransaction) -> Sequence[StoredJob]:
            return _stored(tx, matching(tx, query, within=EVERY_STATE))

        found = self._read(look) if query.within is None else self._read_briefly(look, query.within)
        if found is not None:
            return found
        # A caller that walks the pages stops at a short one: a row that cannot be shown must not hide those after it.
        self.set_aside()
        return self._read(look_again)

    def counts(self, queue: str | None = None) -> dict[State, int]:
        def count(tx: SqlTransaction) -> dict[State, int]:
            replies = tx.ask("count_live", queue=queue), tx.ask("count_finished", queue=queue)
            found = {state_named(word): number for reply in replies for word, number in reply.rows()}
            return {**dict.fromkeys(State, 0), **found}

        return self._read(count)

    def queues(self) -> Sequence[QueueState]:
        def look(tx: SqlTransaction) -> Sequence[QueueState]:
            counted, stopped, reservations = tx.ask("live_by_queue"), tx.ask("paused_queues"), tx.ask("reservations")
            live: dict[str, int] = dict(counted.rows())
            paused = {name for (name,) in stopped.rows()}
            reserved: dict[str, str] = dict(reservations.rows())
            return [
                QueueState(name=name, paused=name in paused, live=live.get(name, 0), reserved_for=reserved.get(name))
                for name in sorted(live.keys() | paused)
            ]

        return self._read(look)

    def _refuse_reserved(self, queue: str) -> bool:
        """Raise if a queue was not resumed because a transfer has reserved it; else it was open, so nothing changed."""
        for (reserved_for,) in self._write(lambda tx: tx.ask("reservation", queue=queue).rows()):
            if reserved_for is not None:
                raise QueueReserved(queue, reserved_for)
        return False

    def purge(self, query: Query, *, audit: Audit = ()) -> int:
        def act(tx: Tx) -> int:
            picked = matching(tx, query, within=FINISHED)
            return len(self._forget(tx, {row[0]: row[FINISHED_AT] for row in picked}))

        return self._write(self._audited(act, audit, whether))

    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        def look(tx: SqlTransaction) -> PruneBatch:
            return PruneBatch.of(tx.ask("next_finished", after=after, limit=limit).rows(), cutoffs, queue, limit)

        def remove(tx: Tx) -> Pruned:
            batch = look(tx)
            gone = self._forget(tx, batch.seen())
            drop_old_audit(tx, limit)
            self._tidy(tx, limit)  # last: every transaction locks keys after jobs
            return batch.pruned(gone)

        if dry_run:
            batch = self._read(look)
            return batch.pruned(batch.doomed)
        return self._write(remove)

    def sessions(self) -> Sequence[SessionState]:
        def look(tx: SqlTransaction) -> Sequence[SessionState]:
            return [rows.session_state(row) for row in tx.ask("sessions").rows()]

        return self._read(look)


class Unfindable(Exception):
    """A page has an id by which no row is found: its bytes are no text."""


def matching(tx: SqlTransaction, query: Query, *, within: frozenset[State], whole: bool = False) -> list[Row]:
    """Return the rows of a page, in its order, without tombstones.  ``whole``: raise if an id has no row."""
    states = within if query.states is None else within & query.states
    if query.fingerprint is not None:
        states &= {State.DISCARDED}
    if not states or query.limit <= 0:
        return []
    everything = states == EVERY_STATE
    ids = page(tx, query, states) if query.ids is None else _named(tx, query)
    found: dict[str, Row] = {}
    picked = tx.ask("pick", ids=ids).rows()
    if whole and query.ids is None and len(picked) < len(ids):
        raise Unfindable
    for row in picked:
        job_id, queue, job, sealed, state, *_ = row
        if sealed is None or query.queue not in (None, queue) or query.job not in (None, job):
            continue
        if query.flow is not None and not _is_member(row, query):
            continue
        if everything or state in states:
            found.setdefault(job_id, row)
    return [found[job_id] for job_id in ids if job_id in found][: query.limit]


def page(tx: SqlTransaction, query: Query, states: frozenset[State]) -> list[str]:
    """Return the ids of a page, in its order."""
    after = query.after if query.after is not None or query.newest_first else ""
    if query.until is not None and query.newest_first:
        after = min(f"{query.until}{deaths.BEHIND}", after or f"{query.until}{deaths.BEHIND}")
    if query.fingerprint is not None:
        return rows.until(query, deaths.page_of_group(tx, query, after))
    if query.flow is None and states == {
        State.EXECUTING
    }:  # these are few, and have an index: no need to walk past all waiting jobs
        running = tx.ask("running", queue=query.queue, job=query.job).rows()
        return rows.ids_named(query, [job_id for (job_id,) in running])[: query.limit]
    parameters = {
        "everything": states == EVERY_STATE,  # unknown states, too
        "live": not states.isdisjoint(LIVE),
        "states": sorted(states & LIVE),
        "completed": State.COMPLETED in states,
        "discarded": State.DISCARDED in states,
        "cancelled": State.CANCELLED in states,
        "queue": query.queue,
        "job": query.job,
        "after": after,
        "limit": query.limit,
    }
    if query.flow is not None:
        return rows.until(query, _page_of_flow(tx, query, parameters))
    asked = tx.ask("page_newest" if query.newest_first else "page_oldest", **parameters)
    return rows.until(query, [job_id for (job_id,) in asked.rows()])


def _named(tx: SqlTransaction, query: Query) -> list[str]:
    """Return the ids that a query names, in its order; of a group, those that are in it."""
    ids = rows.ids_named(query, query.ids or ())
    return ids if query.fingerprint is None else deaths.dead_among(tx, ids, query)


def _page_of_flow(tx: SqlTransaction, query: Query, parameters: Mapping[str, object]) -> list[str]:
    """Return the ids of a page of members: a page of each node, merged."""
    statement = "page_of_node_newest" if query.newest_first else "page_of_node_oldest"
    nodes = [query.node]
    if query.node is None:
        nodes = [name for (name,) in tx.ask("node_names", flow=query.flow).rows()]
    found = {
        job_id for node in nodes for (job_id,) in tx.ask(statement, flow=query.flow, node=node, **parameters).rows()
    }
    return sorted(found, reverse=query.newest_first)[: query.limit]


def _is_member(row: Row, query: Query) -> bool:
    *_, flow, node = row
    return flow == query.flow and query.node in (None, node)


def _stored(tx: SqlTransaction, picked: Sequence[Row]) -> list[StoredJob]:
    return rows.stored_jobs(picked, tx.ask("runs_of", ids=[row[0] for row in picked]).rows())


def cancelled(found: dict[str, State], job_id: str) -> State | None:
    """Return the answer for one id, and forget it: a waiting job can be cancelled once."""
    state = found.get(job_id)
    if state is None or state is State.EXECUTING:
        return state
    del found[job_id]
    return State.CANCELLED


def once(due: set[str], job_id: str) -> bool:
    if job_id not in due:
        return False
    due.remove(job_id)
    return True


def was_done(found: tuple[Hold, str | None]) -> Sequence[str] | None:
    """Return what a call of `forget_key` changed, from its answer."""
    return whether(found[0] is Hold.DONE)
