"""Flows in a MySQL or MariaDB database.

The jobs of a flow stand in a table of their own, `onward_members`: there are no partial indexes.  Whoever has locked a job's
row writes its row there, and under the lock of a flow no transaction waits for either (`lock_members`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from onward.backend import COUNTED, NEVER, Enqueued, Envelope
from onward.backends.damage import set_aside_and_repeat
from onward.backends.mysql import enqueueing
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.flow_verbs import SqlFlows
from onward.backends.sql.flows import FlowSteps, Looked, touch
from onward.backends.sql.statements import NamedSteps, ask
from onward.contract.transactions import Rows
from onward.job.states import State, state_named

__all__ = ["MySQLFlowSteps", "MySQLFlows", "forget_members"]


class MySQLFlowSteps(FlowSteps):
    def lock(self, flows: list[str]) -> NamedSteps[None]:
        yield from ask("lock_flows", flows=flows)

    def open(self, jobs: list[Any]) -> NamedSteps[Rows]:
        free = yield from _lock(jobs)
        return (yield from ask("open_members", jobs=list(free), never=NEVER)) if free else ()

    def ask_to_cancel(self, jobs: list[Any], reason: str) -> NamedSteps[Collection[str]]:
        running = [job_id for job_id, state in (yield from _lock(jobs)).items() if state == State.EXECUTING]
        if running:
            yield from ask("ask_to_cancel", jobs=running, reason=reason)
        return running

    def cancel(self, jobs: list[Any], reason: str) -> NamedSteps[int]:
        waiting = [job_id for job_id, state in (yield from _lock(jobs)).items() if state != State.EXECUTING]
        if waiting:
            yield from ask("cancel_waiting", cancelled=[[job_id, reason] for job_id in waiting])
            yield from ask("end_members", ids=waiting)
        return len(waiting)

    def revive(self, ids: list[str]) -> NamedSteps[int]:
        locked = [job_id for (job_id,) in (yield from ask("lock_revivable", ids=ids))]
        if not locked:
            return 0
        revived = [job_id for (job_id,) in (yield from ask("revive_members", ids=locked, never=NEVER))]
        if revived:
            yield from ask("forget_finished", ids=revived)
        return len(revived)


def _lock(jobs: list[Any]) -> NamedSteps[dict[str, str]]:
    """Lock members; return the state of each that no other transaction has locked."""
    return {row[0]: row[1] for row in (yield from ask("lock_members", jobs=jobs))}


class MySQLFlows(SqlFlows):
    """The `KeepsFlows` half of the backend."""

    @set_aside_and_repeat
    def member_counts(self, flow_id: str, *, at_most: int = COUNTED) -> dict[str, dict[State, int]]:
        def look(tx: Transaction) -> dict[str, dict[State, int]]:
            nodes = [name for (name,) in tx.ask("node_names", flow=flow_id).rows()]
            asked = {
                name: [
                    tx.ask(each, flow=flow_id, node=name, at_most=at_most) for each in ("live_members", "ended_members")
                ]
                for name in nodes
            }
            return {name: _counts(live.rows(), ended.rows()[0]) for name, (live, ended) in asked.items()}

        return self._read(look)

    def _add(self, tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool) -> list[Enqueued]:
        return enqueueing.enqueue(tx, envelopes, retried=retried)

    def _opened(self, tx: Transaction, looked: Looked) -> None:
        tx.wakes |= {job.queue for job in looked.opened}
        tx.woken |= {job.id for job in looked.opened}

    def _ended(self, tx: Transaction, row: Mapping[str, Any]) -> None:
        if row["flow"] is not None:
            tx.ask("end_damaged_member", flow=row["flow"], node=row["node"] or "", id=row["id"])
            touch(tx.touched, [(row["flow"], row["node"])])


def _counts(live: Iterable[Sequence[Any]], ended: Sequence[int]) -> dict[State, int]:
    counts = {state_named(word): number for word, number in live}
    counts |= dict(zip((State.COMPLETED, State.DISCARDED, State.CANCELLED), ended, strict=True))
    return {state: number for state, number in counts.items() if number}


def forget_members(tx: Transaction, gone: Sequence[tuple[str, str, str]]) -> None:
    """Remove members, given as (flow, node, id), and the flows that are over and have none any more."""
    tx.ask("forget_members", gone=list(gone))
    flows = sorted({flow for flow, _, _ in gone})
    empty = [flow for (flow,) in tx.ask("lock_empty_flows", flows=flows).rows()]
    if empty:
        tx.ask("drop_flows", flows=empty)
