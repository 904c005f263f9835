"""Looking at the jobs of a database, and the requests of people."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onward.backend import Audit, DeathGroup, Hold, Lease, Overview, Query, QueuePage, Replayed
from onward.backends.mysql import overview
from onward.backends.mysql.deaths import death_groups
from onward.backends.mysql.enqueueing import cancel
from onward.backends.mysql.flows import forget_members
from onward.backends.mysql.lanes import restore_stripes
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.audit import whether
from onward.backends.sql.flows import FlowSteps
from onward.backends.sql.holds import ONCE, HoldKey, standing
from onward.backends.sql.inspection import REPLAYABLE, SqlInspection, cancelled, matching, once, was_done
from onward.backends.sql.limits import drop_idle_gates
from onward.backends.sql.overview import SqlOverview
from onward.backends.sql.rows import Row
from onward.flow.room import Scope
from onward.job.states import State

__all__ = ["MySQLInspection"]

_FIRST = Scope("", "")
_LATER = (State.SCHEDULED, State.RETRYABLE)


class MySQLInspection(SqlInspection[Transaction], SqlOverview[Transaction]):
    """The `Inspection` half of the backend."""

    _flow_steps: FlowSteps
    _gates_after = _FIRST  # where the next look for idle gates goes on

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        return self._read(lambda tx: overview.queues_with_work(tx, prefix, after, limit))

    def _overview(self, tx: Transaction, at_most: int, now: int) -> Overview:
        return overview.overview(tx, at_most, now)

    def _deaths(self, tx: Transaction, at_most: int) -> list[DeathGroup]:
        return death_groups(tx, at_most)

    def _hold_rows(self, tx: Transaction, keys: Sequence[HoldKey]) -> Sequence[Row]:
        return tx.ask("holds", keys=keys).rows()

    def cancel(self, ids: Sequence[str], reason: str, *, audit: Audit = ()) -> Sequence[State | None]:
        asked: list[str] = []

        def act(tx: Transaction) -> dict[str, State]:
            if audit and ids:
                asked[:] = [job_id for (job_id,) in tx.ask("asked_among", ids=sorted(set(ids))).rows()]
            return cancel(tx, dict.fromkeys(ids, reason))

        found = self._write(self._audited(act, audit, lambda found: sorted(found.keys() - asked) or None))
        return [cancelled(found, job_id) for job_id in ids]

    def retry(self, ids: Sequence[str], *, audit: Audit = ()) -> Sequence[bool]:
        def act(tx: Transaction) -> set[str]:
            later = {
                job_id: queue
                for job_id, state, queue, _, awaits_node in tx.ask("lock_jobs", ids=sorted(set(ids))).rows()
                if state in _LATER and not (awaits_node and state == State.SCHEDULED)
            }
            if later:
                tx.ask("make_due", ids=sorted(later))
                tx.wakes |= set(later.values())
            return set(later)

        due = self._write(self._audited(act, audit, lambda due: sorted(due) or None))
        return [once(due, job_id) for job_id in ids]

    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        def act(tx: Transaction, left: set[str]) -> Replayed:
            replayed, members = _replay(tx, query, fresh=fresh)
            if not members:
                return replayed
            ended_again = self._replayed(tx, members, left)
            kept = [job_id for job_id in replayed.ids if job_id not in ended_again]
            return Replayed(ids=kept, skipped={**replayed.skipped, **ended_again})

        return self._finish_replay(act, audit)

    def _replayed(self, tx: Transaction, members: Mapping[str, tuple[str, str]], left: set[str]) -> dict[str, str]:
        """Let members wait in their nodes, and look; return why some have ended again."""
        # Flows are locked last: every transaction locks jobs before them.
        tx.run_steps(self._flow_steps.lock(sorted({flow for flow, _ in members.values()})))
        opened, ended_again = tx.run_steps(self._flow_steps.replayed(members, left))
        tx.woken |= {job.id for job in opened}
        return ended_again

    def _tidy(self, tx: Transaction, limit: int) -> None:
        if keys := sorted(tx.ask("spent_holds", limit=limit).rows()):  # in their order, like a claim
            tx.ask("drop_spent_holds", keys=keys)
        if restore_stripes(tx):
            now = tx.ask("clock").value()
            self._gates_after = drop_idle_gates(tx, self._gates_after, now, limit=limit) or _FIRST

    def _forget(self, tx: Transaction, doomed: Mapping[str, int]) -> Collection[str]:
        if not doomed:
            return []
        found = tx.ask("lock_finished", seen=sorted(doomed.items())).rows()
        gone = [job_id for job_id, _, _ in found]
        if gone:
            tx.ask("forget_finished", ids=gone)
            tx.ask("forget_runs", ids=gone)
            tx.ask("forget_notes", ids=gone)
            tx.ask("forget_audit", ids=gone)
        if members := [(flow, node, job_id) for job_id, flow, node in found if flow is not None]:
            forget_members(tx, members)
        return gone

    def forget_key(self, key: str, *, audit: Audit = ()) -> tuple[Hold, str | None]:
        def act(tx: Transaction) -> tuple[Hold, str | None]:
            # Locked before it is read: a job that begins or succeeds now is seen before or after that, not in between.
            locked = tx.ask("lock_hold", key=key).rows()
            found = standing(tx.ask("holds", keys=[(ONCE, key)]).rows(), locked[0][0]) if locked else (Hold.FREE, None)
            if found[0] is Hold.DONE:
                tx.ask("forget_hold", key=key)
            return found

        return self._write(self._audited(act, audit, was_done))

    def pause(self, queue: str, *, paused: bool = True, audit: Audit = ()) -> bool:
        def act(tx: Transaction) -> bool:
            if not paused:
                tx.wakes.add(queue)
            return tx.ask("pause" if paused else "resume", queue=queue).count == 1

        changed = self._write(self._audited(act, audit, whether))
        return changed or (not paused and self._refuse_reserved(queue))

    def progress(self, lease: Lease, progress: bytes) -> bool:
        def act(tx: Transaction) -> bool:
            noted = tx.ask("progress", id=lease.envelope.id, token=lease.token, owner=lease.owner, progress=progress)
            return noted.count == 1

        return self._write(act)


def _replay(tx: Transaction, query: Query, *, fresh: bool) -> tuple[Replayed, dict[str, tuple[str, str]]]:
    """Put jobs back; return also which of them are members of flows, and of which nodes."""
    named = tx.ask("tombstones_among", ids=list(query.ids or ()))
    skipped = {job_id: "tombstone" for (job_id,) in named.rows()}
    ids = [row[0] for row in matching(tx, query, within=REPLAYABLE)]
    found = {row[0]: row[1:] for row in tx.ask("replayable", ids=sorted(ids)).rows()} if ids else {}
    keys = [key for _, key, *_ in found.values() if key is not None]
    holders: dict[str, str] = dict(tx.ask("key_holders", keys=keys).rows()) if keys else {}
    live = {job_id for (job_id,) in tx.ask("live_among", ids=ids).rows()} if ids else set()
    revived: dict[str, str] = {}
    members: dict[str, tuple[str, str]] = {}
    for job_id in (job_id for job_id in ids if job_id in found):
        _, key, queue, expired, flow, node = found[job_id]
        if expired:
            skipped[job_id] = "expired"
        elif job_id in live or key in holders:
            skipped[job_id] = f"key held by {holders.get(key, job_id)}"
        else:
            revived[job_id] = queue
            if flow is not None:
                members[job_id] = flow, node or ""
            if key is not None:
                holders[key] = job_id
    if revived:
        tx.ask("revive", ids=list(revived))
        tx.wakes |= set(revived.values())
        # The records of the job's old runs stay.
        tx.ask("forget_finished", ids=sorted(revived))
        if fresh:
            tx.ask("drop_notes", ids=list(revived))
    return Replayed(ids=list(revived), skipped=skipped), members
