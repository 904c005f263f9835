"""Looking at the jobs of a file, and the requests of people."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from onward.backend import Audit, Hold, Lease, Pruned, Query, QueuePage, Replayed
from onward.backends.sql import rows
from onward.backends.sql.audit import whether
from onward.backends.sql.flows import FlowSteps
from onward.backends.sql.holds import HoldKey
from onward.backends.sql.inspection import REPLAYABLE, SqlInspection, cancelled, matching, once, was_done
from onward.backends.sql.overview import SqlOverview
from onward.backends.sql.samples import SqlSamples
from onward.backends.sqlite import holds
from onward.backends.sqlite.enqueueing import cancel_waiting
from onward.backends.sqlite.transaction import Transaction, Transactions, as_json
from onward.contract.snapshot import LOOK_SECONDS
from onward.job.states import State, state_named

__all__ = ["SqliteInspection"]

Result = TypeVar("Result")

_LATER = (State.SCHEDULED, State.RETRYABLE)


class SqliteInspection(SqlSamples[Transaction], SqlInspection[Transaction], SqlOverview[Transaction]):
    """The `Inspection` half of the backend."""

    _transactions: Transactions
    _flow_steps: FlowSteps

    @abstractmethod
    def _shrink(self) -> None:
        """Keep the file and its log small."""

    @abstractmethod
    def _drop_idle_gates(self, tx: Transaction, limit: int) -> None:
        """Remove gates that say nothing any more."""

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        def look(tx: Transaction) -> Sequence[rows.Row]:
            return tx.rows("queues_with_work", (prefix, after, rows.beyond(prefix), tx.now, limit))

        return rows.queue_page(self._read(look), limit)

    def _read_briefly(self, act: Callable[[Transaction], Result], seconds: float = LOOK_SECONDS) -> Result:
        with self._transactions.reading_briefly(seconds) as tx:
            return act(tx)

    def _hold_rows(self, tx: Transaction, keys: Sequence[HoldKey]) -> Sequence[rows.Row]:
        return tx.rows("holds", (as_json(keys),))

    def cancel(self, ids: Sequence[str], reason: str, *, audit: Audit = ()) -> Sequence[State | None]:
        asked: list[str] = []

        def act(tx: Transaction) -> dict[str, State]:
            found = tx.rows("states_of", (as_json(ids),))
            if audit:
                asked[:] = [job_id for (job_id,) in tx.ask("asked_among", ids=list(ids)).rows()]
            waiting = [rowid for rowid, _, state, _ in found if state != State.EXECUTING]
            running = [rowid for rowid, _, state, _ in found if state == State.EXECUTING]
            if waiting:
                cancel_waiting(tx, waiting, reason)
            if running:
                tx.ask("ask_to_cancel", jobs=running, reason=reason)
            return {job_id: state_named(state) for _, job_id, state, _ in found}

        states = self._write(self._audited(act, audit, lambda found: [*(found.keys() - asked)] or None))
        return [cancelled(states, job_id) for job_id in ids]

    def retry(self, ids: Sequence[str], *, audit: Audit = ()) -> Sequence[bool]:
        def act(tx: Transaction) -> set[str]:
            found = tx.rows("states_of", (as_json(ids),))
            later = {job_id: rowid for rowid, job_id, state, waits in found if state in _LATER and not waits}
            if later:
                tx.wakes = True
                tx.run("make_due", (as_json(list(later.values())), tx.now))
            return set(later)

        due = self._write(self._audited(act, audit, lambda due: sorted(due) or None))
        return [once(due, job_id) for job_id in ids]

    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        def act(tx: Transaction, left: set[str]) -> Replayed:
            return _replay(tx, query, lambda members: self._replayed(tx, members, left), fresh=fresh)

        return self._finish_replay(act, audit)

    def _replayed(self, tx: Transaction, members: Mapping[str, tuple[str, str]], left: set[str]) -> dict[str, str]:
        """Let members wait in their nodes, and look; return why some have ended again."""
        opened, ended_again = tx.run_steps(self._flow_steps.replayed(members, left))
        tx.woken += [job.id for job in opened]
        return ended_again

    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        pruned = super().prune(cutoffs, queue=queue, dry_run=dry_run, after=after, limit=limit)
        if not dry_run:
            self._shrink()
        return pruned

    def _tidy(self, tx: Transaction, limit: int) -> None:
        tx.run("drop_spent_holds", (tx.now, limit))
        self._drop_idle_gates(tx, limit)

    def _forget(self, tx: Transaction, doomed: Mapping[str, int]) -> Collection[str]:
        if doomed:
            gone = tx.rows("forget_finished", (as_json(list(doomed)),))
            if ended := sorted({flow for (flow,) in gone if flow is not None}):
                over = [flow for (flow,) in tx.rows("drop_flows", (as_json(ended),))]
                tx.run("drop_nodes", (as_json(over),))
            tx.ask("forget_runs", ids=list(doomed))
            tx.ask("forget_notes", ids=list(doomed))
            tx.ask("forget_audit", ids=list(doomed))
        return doomed

    def forget_key(self, key: str, *, audit: Audit = ()) -> tuple[Hold, str | None]:
        return self._write(self._audited(lambda tx: holds.forget(tx, key), audit, was_done))

    def pause(self, queue: str, *, paused: bool = True, audit: Audit = ()) -> bool:
        def act(tx: Transaction) -> bool:
            if paused:
                return tx.run("pause", {"queue": queue, "now": tx.now}) == 1
            tx.wakes = True
            return tx.run("resume", {"queue": queue}) == 1

        changed = self._write(self._audited(act, audit, whether))
        return changed or (not paused and self._refuse_reserved(queue))

    def progress(self, lease: Lease, progress: bytes) -> bool:
        noted = (lease.envelope.id, lease.token, lease.owner, progress)
        return self._write(lambda tx: tx.run("progress", noted) == 1)


_Replayed = Callable[[Mapping[str, tuple[str, str]]], dict[str, str]]


def _replay(tx: Transaction, query: Query, replayed_members: _Replayed, *, fresh: bool) -> Replayed:
    named = tx.rows("tombstones_among", (as_json(query.ids or ()),))
    replayed = Replayed(ids=[], skipped={job_id: "tombstone" for (job_id,) in named})
    ids = [row[0] for row in matching(tx, query, within=REPLAYABLE)]
    members: dict[str, tuple[str, str]] = {}
    for job_id, expires_at, unique_key, flow, node in tx.rows("replayable", (as_json(ids),)):
        if expires_at is not None and expires_at <= tx.now:
            replayed.skipped[job_id] = "expired"
        elif tx.run("revive", (job_id, tx.now)):
            replayed.ids.append(job_id)
            if flow is not None:
                members[job_id] = flow, node or ""
            if fresh:
                tx.run("drop_notes", (job_id,))
        else:
            holder = tx.row("key_holder", (unique_key,))
            replayed.skipped[job_id] = f"key held by {holder[1] if holder else job_id}"
    if replayed.ids:
        tx.wakes = True
        tx.rows("forget_finished", (as_json(replayed.ids),))
    if members:
        ended_again = replayed_members(members)
        kept = [job_id for job_id in replayed.ids if job_id not in ended_again]
        return Replayed(ids=kept, skipped=replayed.skipped | ended_again)
    return replayed
