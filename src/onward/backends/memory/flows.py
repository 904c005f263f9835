"""Flows in memory: the look at a flow whose jobs have ended, and the verbs of `KeepsFlows`."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice

from onward.backend import (
    AWAITS_NODE,
    COUNTED,
    LEFT_OPEN,
    Audit,
    Enqueued,
    Envelope,
    FlowRow,
    Lease,
    due_now,
    never_due,
)
from onward.backends.memory.flow_tables import MemoryFlow
from onward.backends.memory.store import MemoryJob, MemoryStore
from onward.base.clock import SECOND
from onward.base.logs import get_logger
from onward.flow.graph import Node, NodeState, advance, all_over, is_stopped, planned, reset, why_not_needed
from onward.job.membership import FlowPlan
from onward.job.states import State

__all__ = ["MemoryFlows", "add_waiting", "look", "replayed", "sweep"]

logger = get_logger("onward")

_LEFT_OPEN = round(LEFT_OPEN.total_seconds() * SECOND)


def add_waiting(store: MemoryStore, envelope: Envelope, now: int) -> bool:
    """Store the flow of a new member, if it comes with one, and the member if its node waits.  False: it is due."""
    if envelope.plan is not None and envelope.flow not in store.flows.rows:
        _start(store, envelope.flow or "", envelope.plan, now)
    flow = store.flows.of(envelope)
    if flow is None:
        return False
    node = flow.nodes[envelope.node or ""]
    flow.change(node.name, total=node.total + 1)
    flow.added_at = now
    store.flows.touched.add(flow.id)
    if node.state is NodeState.OPEN:
        return False
    store.add(MemoryJob(envelope, State.SCHEDULED, never_due(envelope), awaits=AWAITS_NODE))
    return True


def _start(store: MemoryStore, flow_id: str, plan: FlowPlan, now: int) -> None:
    store.flows.rows[flow_id] = MemoryFlow(
        id=flow_id,
        name=plan.name,
        nodes={node.name: node for node in planned(plan.nodes)},
        stop_on_failure=plan.stop_on_failure,
        closed=plan.closed,
        created_at=now,
        added_at=now,
    )


def look(store: MemoryStore, now: int) -> None:
    """Look at every flow that was touched: open what may open, cancel what is not needed, note what is over."""
    while store.flows.touched:
        flow = store.flows.rows.get(store.flows.touched.pop())
        if flow is not None:
            _look(store, flow, now)


def _look(store: MemoryStore, flow: MemoryFlow, now: int) -> bool:
    """Look at one flow; return whether anything changed."""
    changed = False
    while _step(store, flow, now):
        changed = True
    if flow.over_at is None and flow.closed and all_over(flow.nodes.values()):
        flow.over_at = now
        changed = True
    return changed


def _step(store: MemoryStore, flow: MemoryFlow, now: int) -> bool:
    if flow.stop_on_failure and not flow.stopped:
        flow.stopped = any(node.failed for node in flow.nodes.values())
    live = store.flows.live
    moved = advance(tuple(flow.nodes.values()), lambda name: (flow.id, name) in live, closed=flow.closed)
    flow.nodes |= {node.name: node for node in moved}
    waiting = [node for node in flow.nodes.values() if (flow.id, node.name) in live]
    swept = sum(_sweep_node(store, flow, node, now) for node in waiting)
    return swept > 0 or bool(moved)


def _sweep_node(store: MemoryStore, flow: MemoryFlow, node: Node, now: int) -> bool:
    """Make the waiting jobs of a node due, or cancel them, as its state says; return whether there were any."""
    place = flow.id, node.name
    stopped = flow.stopped and is_stopped(node)
    if flow.cancelled is not None or stopped:
        reason = flow.cancelled or "its flow stopped: a job failed"
        jobs = [store.live[job_id] for job_id in sorted(store.flows.live[place])]
        return sum(_end(store, job, reason, now) for job in jobs) > 0
    jobs = [store.live[job_id] for job_id in sorted(store.flows.waiting.get(place, ()))]
    if node.state is NodeState.WAITING or not jobs:
        return False
    for job in jobs:
        if node.state is NodeState.OPEN:
            store.open_member(job, due_now(job.available_at, now), now)
        else:
            store.finish(job, State.CANCELLED, now, why_not_needed(flow.nodes, node))
    return True


def _end(store: MemoryStore, job: MemoryJob, reason: str, now: int) -> bool:
    """Cancel a job that waits, ask one that runs; return whether it has ended."""
    if job.state is State.EXECUTING:
        job.cancel_reason = job.cancel_reason or reason
        return False
    store.finish(job, State.CANCELLED, now, reason)
    return True


def replayed(store: MemoryStore, ids: Sequence[str], now: int) -> dict[str, str]:
    """Let the nodes of jobs that were replayed, and those behind them, go by the rules anew.

    Returns why some of them have ended again: the nodes before theirs have failed, or theirs is not needed.
    """
    nodes: dict[str, set[str]] = {}
    for job_id in ids:
        envelope = store.live[job_id].envelope
        if store.flows.knows(envelope):
            nodes.setdefault(envelope.flow or "", set()).add(envelope.node or "")
    for flow_id, names in nodes.items():
        _begin_anew(store, store.flows.rows[flow_id], names, now)
    if nodes:
        look(store, now)
    return {job_id: store.finished[job_id].reason or "" for job_id in ids if job_id not in store.live}


def _begin_anew(store: MemoryStore, flow: MemoryFlow, names: set[str], now: int) -> None:
    """Reset these nodes; replay what was cancelled in those behind them that are not over any more."""
    behind = [node.name for node in reset(tuple(flow.nodes.values()), names, lambda _: False)]
    for name in set(behind) - names:
        _revive_all(store, flow, name, now)
    for node in reset(tuple(flow.nodes.values()), names, lambda name: _has_failed(store, flow, name)):
        flow.nodes[node.name] = node
    flow.over_at, flow.stopped, flow.cancelled = None, False, None
    store.flows.touched.add(flow.id)


def _revive_all(store: MemoryStore, flow: MemoryFlow, node: str, now: int) -> int:
    ended = [store.finished[job_id] for job_id in sorted(store.flows.finished.get((flow.id, node), ()))]
    again = [
        job for job in ended if job.state is not State.COMPLETED and not job.expired(now) and job.id not in store.live
    ]
    for job in again:
        store.revive(job, now)
    return len(again)


def _has_failed(store: MemoryStore, flow: MemoryFlow, node: str) -> bool:
    ids = store.flows.finished.get((flow.id, node), ())
    return any(store.finished[job_id].state is not State.COMPLETED for job_id in ids)


def sweep(store: MemoryStore, now: int) -> None:
    """Close what was left open, and look at every flow: one that changes now was overlooked."""
    for flow in [flow for flow in store.flows.rows.values() if flow.over_at is None]:
        if not flow.closed and flow.added_at + _LEFT_OPEN <= now:
            logger.warning(
                "flow %s %s got no more jobs for 24 hours and is closed: was the process that filled it killed?",
                flow.name,
                flow.id,
            )
            flow.closed = True
            store.flows.touched.add(flow.id)
        elif _look(store, flow, now):
            logger.error("flow %s %s should have gone on before: a job of it ended without a look", flow.name, flow.id)


class MemoryFlows:
    """The `KeepsFlows` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    @abstractmethod
    def _add(self, envelope: Envelope, now: int, *, retried: bool = False) -> Enqueued: ...

    def flow(self, flow_id: str) -> FlowRow | None:
        with self._writing():
            flow = self._store.flows.rows.get(flow_id)
            return None if flow is None else flow.row()

    def flows(
        self, *, name: str | None = None, running: bool = False, after: str | None = None, limit: int = 100
    ) -> Sequence[FlowRow]:
        with self._writing():
            found = (
                flow.row()
                for flow_id, flow in sorted(self._store.flows.rows.items(), reverse=True)
                if name in (None, flow.name)
                and (flow.over_at is None or not running)
                and (after is None or flow_id < after)
            )
            return list(islice(found, limit))

    def member_counts(self, flow_id: str, *, at_most: int = COUNTED) -> dict[str, dict[State, int]]:
        with self._writing():
            flow = self._store.flows.rows.get(flow_id)
            names = () if flow is None else flow.nodes
            return {name: self._counts(flow_id, name, at_most) for name in names}

    def _counts(self, flow_id: str, node: str, at_most: int) -> dict[State, int]:
        tables, place = self._store.flows, (flow_id, node)
        live = (self._store.live[job_id] for job_id in islice(tables.live.get(place, ()), at_most))
        ended = (self._store.finished[job_id] for job_id in islice(tables.finished.get(place, ()), at_most))
        return dict(Counter(job.state for jobs in (live, ended) for job in jobs))

    def extend_flow(
        self, flow_id: str, envelopes: Sequence[Envelope], *, retried: bool = False
    ) -> list[Enqueued] | None:
        with self._writing() as now:
            flow = self._store.flows.rows.get(flow_id)
            if flow is None or flow.closed:
                return None
            return [self._add(envelope, now, retried=retried) for envelope in envelopes]

    def grow(self, lease: Lease, envelopes: Sequence[Envelope]) -> list[Enqueued] | None:
        with self._writing() as now:
            job = self._store.live.get(lease.envelope.id)
            if job is None or (job.state, job.delivery, job.owner) != (State.EXECUTING, lease.token, lease.owner):
                return None
            return [self._add(envelope, now, retried=True) for envelope in envelopes]

    def close_flow(self, flow_id: str) -> bool:
        with self._writing():
            flow = self._store.flows.rows.get(flow_id)
            if flow is None or flow.closed:
                return False
            flow.closed = True
            self._store.flows.touched.add(flow_id)
            return True

    def cancel_flow(self, flow_id: str, reason: str, *, audit: Audit = ()) -> bool:
        with self._writing():
            flow = self._store.flows.rows.get(flow_id)
            if flow is None or flow.over_at is not None:
                return False
            flow.cancelled = flow.cancelled or reason
            flow.closed = True
            self._store.flows.touched.add(flow_id)
            self._store.audit.add(audit, ())
            return True

    def retry_flow(self, flow_id: str, *, audit: Audit = ()) -> int | None:
        with self._writing() as now:
            flow = self._store.flows.rows.get(flow_id)
            if flow is None:
                return None
            if flow.row().state == "completed":
                return 0
            nodes = [node for node in flow.nodes.values() if node.state is not NodeState.COMPLETED]
            again = {node.name: _revive_all(self._store, flow, node.name, now) for node in nodes}
            _begin_anew(self._store, flow, set(again), now)
            self._store.audit.add(audit, ())
            return sum(again[node.name] for node in nodes if node.state is not NodeState.SKIPPED)
