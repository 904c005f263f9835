"""Looking at the jobs of a database, and the requests of people."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from onward.backend import Audit, Hold, Lease, Query, QueuePage, Replayed
from onward.backends.postgres.enqueueing import rivalry, touch_cancelled
from onward.backends.postgres.flows import PostgresFlowSteps, drop_ended
from onward.backends.postgres.transaction import Row, Transaction
from onward.backends.sql import rows
from onward.backends.sql.audit import of_jobs, whether
from onward.backends.sql.flows import FlowSteps
from onward.backends.sql.holds import HoldKey
from onward.backends.sql.inspection import REPLAYABLE, SqlInspection, cancelled, matching, once, was_done
from onward.backends.sql.overview import SqlOverview
from onward.contract.snapshot import LOOK_SECONDS
from onward.job.states import State, state_named

__all__ = ["PostgresInspection"]

Result = TypeVar("Result")


class PostgresInspection(SqlInspection[Transaction], SqlOverview[Transaction]):
    """The `Inspection` half of the backend."""

    _flow_steps: PostgresFlowSteps

    @abstractmethod
    def _ask(self, name: str, **parameters: object) -> Sequence[Row]: ...

    @abstractmethod
    def _wake(self, queues: Collection[str]) -> None: ...

    @abstractmethod
    def _drop_idle_gates(self, tx: Transaction, limit: int) -> None: ...

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        found = self._ask("queues_with_work", prefix=prefix, after=after, beyond=rows.beyond(prefix), limit=limit)
        return rows.queue_page(found, limit)

    def _read_briefly(self, act: Callable[[Transaction], Result], seconds: float = LOOK_SECONDS) -> Result:
        def limited(tx: Transaction) -> Result:
            tx.ask("limit_reading", milliseconds=round(seconds * 1000))
            return act(tx)

        return self._read(limited)

    def _hold_rows(self, tx: Transaction, keys: Sequence[HoldKey]) -> Sequence[Row]:
        return tx.ask("holds", kinds=[kind for kind, _ in keys], keys=[key for _, key in keys]).rows()

    def cancel(self, ids: Sequence[str], reason: str, *, audit: Audit = ()) -> Sequence[State | None]:
        states: list[Row] = []
        wanted = sorted(set(ids))
        if len(wanted) > 1:  # a turn may hold one of them and wait for another: locked jobs are cancelled one by one
            states, audit = self._cancel_audited(lambda tx: _free(tx, wanted), reason, audit)
            done = {job_id for job_id, *_ in states}
            left = self._ask("live_among", ids=[job_id for job_id in wanted if job_id not in done])
            wanted = [job_id for (job_id,) in left]
        for job_id in wanted:
            if audit:
                one, audit = self._cancel_audited(partial(_named, job_id), reason, audit)
                states += one
            else:
                states += self._cancel_one(job_id, reason)
        found = {job_id: state_named(word) for job_id, word, *_ in states}
        # A waiting job can be cancelled once: if it is named again, there is nothing left to cancel.
        return [cancelled(found, job_id) for job_id in ids]

    def _cancel_audited(
        self, choose: Callable[[Transaction], Sequence[str]], reason: str, audit: Audit
    ) -> tuple[list[Row], Audit]:
        """Cancel jobs that are chosen in the transaction, and store the entries for those that were not asked to before.

        Returns the states in which they were found, and the entries that another transaction of the same act stores.
        """

        def act(tx: Transaction) -> tuple[list[Row], list[str]]:
            ids = choose(tx)
            asked = {job_id for job_id, is_asked in _asked(tx, ids) if is_asked} if audit and ids else set()
            states = _cancel(tx, ids, reason) if ids else []
            return states, [job_id for job_id, *_ in states if job_id not in asked]

        states, changed = self._write(self._audited(act, audit, lambda done: done[1] or None))
        return states, of_jobs(audit) if changed else audit

    def _cancel_one(self, job_id: str, reason: str) -> Sequence[Row]:
        rows = self._ask("cancel", ids=[job_id], reasons=[reason], replaced=False, alone=True)
        if any(flow is not None and state != State.EXECUTING for _, state, flow, _ in rows):
            return self._write(lambda tx: _cancel(tx, [job_id], reason))  # its flow has to be looked at
        return rows

    def retry(self, ids: Sequence[str], *, audit: Audit = ()) -> Sequence[bool]:
        made_due = self._ask_audited("make_due", audit, _ids_of, ids=sorted(set(ids)))
        self._wake({queue for _, queue in made_due})
        due = {job_id for job_id, _ in made_due}
        return [once(due, job_id) for job_id in ids]

    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        def act(tx: Transaction, left: set[str]) -> Replayed:
            return _replay(tx, query, self._flow_steps, left, fresh=fresh)

        return self._finish_replay(act, audit)

    def _tidy(self, tx: Transaction, limit: int) -> None:
        tx.ask("drop_spent_holds", limit=limit)
        self._drop_idle_gates(tx, limit)
        tx.ask("forget_waiters")

    def _forget(self, tx: Transaction, doomed: Mapping[str, int]) -> Collection[str]:
        if not doomed:
            return []
        ids = sorted(doomed)
        forgotten = tx.ask("forget_finished", ids=ids, finished_at=[doomed[job_id] for job_id in ids]).rows()
        gone = [job_id for job_id, _ in forgotten]
        if flows := {flow for _, flow in forgotten if flow is not None}:
            drop_ended(tx, list(flows))
        tx.ask("forget_runs", ids=gone)
        tx.ask("forget_notes", ids=gone)
        tx.ask("forget_audit", ids=gone)
        return gone

    def forget_key(self, key: str, *, audit: Audit = ()) -> tuple[Hold, str | None]:
        return _found_of(self._ask_audited("forget_key", audit, lambda rows: was_done(_found_of(rows)), key=key))

    def pause(self, queue: str, *, paused: bool = True, audit: Audit = ()) -> bool:
        changed = self._ask_audited("pause" if paused else "resume", audit, whether, queue=queue)
        if not paused:
            self._wake([queue])
        return bool(changed) or (not paused and self._refuse_reserved(queue))

    def _ask_audited(
        self, name: str, audit: Audit, changed: Callable[[Sequence[Row]], Collection[str] | None], **parameters: object
    ) -> Sequence[Row]:
        """Run one statement; with entries about it, as a transaction of two."""
        if not audit:
            return self._ask(name, **parameters)

        def act(tx: Transaction) -> Sequence[Row]:
            return tx.ask(name, **parameters).rows()

        return self._write(self._audited(act, audit, changed))

    def progress(self, lease: Lease, progress: bytes) -> bool:
        return bool(
            self._ask("progress", id=lease.envelope.id, token=lease.token, owner=lease.owner, progress=progress)
        )


def _named(job_id: str, _: Transaction) -> list[str]:
    return [job_id]


def _asked(tx: Transaction, ids: Sequence[str]) -> Sequence[Row]:
    """Lock these jobs; return of each whether it was asked to cancel."""
    return tx.ask("asked_among", ids=ids).rows()


def _free(tx: Transaction, ids: Sequence[str]) -> list[str]:
    """Lock those of these jobs that no other transaction has locked."""
    return [job_id for (job_id,) in tx.ask("try_jobs", ids=ids).rows()]


def _ids_of(rows: Sequence[Row]) -> Sequence[str] | None:
    return [row[0] for row in rows] or None


def _found_of(rows: Sequence[Row]) -> tuple[Hold, str | None]:
    for job_id, forgotten, runs in rows:
        if forgotten or runs:
            return Hold.DONE if forgotten else Hold.BUSY, job_id
    return Hold.FREE, None


def _cancel(tx: Transaction, ids: Sequence[str], reason: str) -> list[Row]:
    rows = tx.ask("cancel", ids=ids, reasons=[reason] * len(ids), replaced=False, alone=False).rows()
    touch_cancelled(tx.touched, rows)
    return rows


def _replay(tx: Transaction, query: Query, flows: FlowSteps, left: set[str], *, fresh: bool) -> Replayed:
    named = tx.ask("tombstones_among", ids=list(query.ids or ()))
    skipped = {job_id: "tombstone" for (job_id,) in named.rows()}
    picked = matching(tx, query, within=REPLAYABLE)
    if touched := {row[-2] for row in picked if row[-2] is not None}:
        tx.run_steps(flows.lock(sorted(touched)))  # before their jobs, as a retry of the whole flow does
    ids = [row[0] for row in picked]
    locked = {row[0]: _Replayable(*row[1:]) for row in tx.ask("replayable", ids=sorted(ids)).rows()}
    found = {job_id: locked[job_id] for job_id in ids if job_id in locked}
    unexpired = [job_id for job_id in found if not found[job_id].expired]
    if rivals := rivalry(found[job_id].unique_key for job_id in unexpired):
        tx.ask("lock_unique_keys", numbers=rivals)
    alive = tx.ask("revive", ids=unexpired).rows()
    revived = {job_id for job_id, _ in alive}
    tx.wakes |= {queue for _, queue in alive}
    # The records of the job's old runs stay.
    tx.ask(
        "forget_finished", ids=sorted(revived), finished_at=[found[job_id].finished_at for job_id in sorted(revived)]
    )
    if fresh:
        tx.ask("drop_notes", ids=sorted(revived))
    held = [job_id for job_id in unexpired if job_id not in revived]
    holders: dict[str, str] = dict(tx.ask("key_holders", keys=[found[job_id].unique_key for job_id in held]).rows())
    for job_id, each in found.items():
        if job_id not in unexpired:
            skipped[job_id] = "expired"
        elif job_id not in revived:
            skipped[job_id] = f"key held by {holders.get(each.unique_key or '', job_id)}"
    members = {
        job_id: (each.flow, each.node or "") for job_id, each in found.items() if each.flow and job_id in revived
    }
    if members:
        opened, ended_again = tx.run_steps(flows.replayed(members, left))
        tx.woken.update(job.id for job in opened)
        tx.wakes.update(job.queue for job in opened)
        revived.difference_update(ended_again)
        skipped |= ended_again
    return Replayed(ids=[job_id for job_id in unexpired if job_id in revived], skipped=skipped)


class _Replayable(NamedTuple):
    """A finished job whose row is locked."""

    finished_at: int
    unique_key: str | None
    flow: str | None
    node: str | None
    expired: bool
