"""The tables of flows in memory: their rows, and which jobs are in which node.

Where a job comes in or goes out these sets follow; `touched` names the flows that are to be looked at before the lock is
released.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import msgspec

from onward.backend import FlowRow
from onward.flow.graph import Node, NodeState
from onward.job.envelope import Envelope

__all__ = ["FlowTables", "MemoryFlow", "Place"]

Place = tuple[str, str]  # flow and node


@dataclass(slots=True)
class MemoryFlow:
    """One flow, with its nodes in their order."""

    id: str
    name: str
    nodes: dict[str, Node]
    stop_on_failure: bool
    closed: bool
    created_at: int
    added_at: int  # when the last job was added
    stopped: bool = False
    cancelled: str | None = None
    over_at: int | None = None

    def change(self, node: str, **fields: object) -> None:
        """Write columns of a node's row."""
        self.nodes[node] = msgspec.structs.replace(self.nodes[node], **fields)

    def row(self) -> FlowRow:
        return FlowRow(
            id=self.id,
            name=self.name,
            nodes=tuple(self.nodes.values()),
            created_at=self.created_at,
            stop_on_failure=self.stop_on_failure,
            closed=self.closed,
            stopped=self.stopped,
            cancelled=self.cancelled,
            over_at=self.over_at,
        )


@dataclass
class FlowTables:
    rows: dict[str, MemoryFlow] = field(default_factory=dict)
    live: dict[Place, set[str]] = field(default_factory=lambda: defaultdict(set))
    waiting: dict[Place, set[str]] = field(default_factory=lambda: defaultdict(set))  # those of them whose node waits
    finished: dict[Place, set[str]] = field(default_factory=lambda: defaultdict(set))
    touched: set[str] = field(default_factory=set)

    def of(self, envelope: Envelope) -> MemoryFlow | None:
        """Return the flow of a member; None if it is gone, or has no such node: then the job is a plain one."""
        flow = self.rows.get(envelope.flow or "")
        return flow if flow is not None and envelope.node in flow.nodes else None

    def knows(self, envelope: Envelope) -> bool:
        return envelope.flow is not None and self.of(envelope) is not None

    def begun(self, envelope: Envelope, job_id: str) -> None:
        """Note a member that is live now."""
        self.live[_place(envelope)].add(job_id)

    def waits(self, envelope: Envelope, job_id: str) -> None:
        """Note a member whose node waits."""
        self.waiting[_place(envelope)].add(job_id)

    def waits_no_more(self, envelope: Envelope, job_id: str) -> None:
        """Note that the node of a member has opened, or that the member has ended."""
        _discard(self.waiting, _place(envelope), job_id)

    def left(self, envelope: Envelope, job_id: str) -> None:
        """Note that a member is not live any more."""
        _discard(self.live, _place(envelope), job_id)

    def ended(self, envelope: Envelope, job_id: str, *, succeeded: bool) -> None:
        """Note a member that has ended: its flow is looked at before the lock is released."""
        flow = self.of(envelope)
        if flow is None:
            return
        self.finished[_place(envelope)].add(job_id)
        self.touched.add(flow.id)
        node = flow.nodes[envelope.node or ""]
        if not succeeded and node.state in (NodeState.WAITING, NodeState.OPEN):
            flow.change(node.name, failed=True)

    def revived(self, envelope: Envelope, job_id: str) -> bool:
        """Note that a finished member is replayed.  False: it is a plain job now."""
        _discard(self.finished, _place(envelope), job_id)
        return self.knows(envelope)

    def forgotten(self, envelope: Envelope, job_id: str) -> None:
        """Note that a finished member is gone.  The rows of a flow that is over go with the last of them."""
        flow = self.of(envelope) if envelope.flow is not None else None
        if flow is None:
            return
        _discard(self.finished, _place(envelope), job_id)
        if flow.over_at is not None and not any(self.finished.get((flow.id, node)) for node in flow.nodes):
            del self.rows[flow.id]

    def ended_at(self, envelope: Envelope, finished_at: int) -> int | float:
        """Return from when the retention of a finished job counts: of a member, from the end of its flow."""
        flow = self.of(envelope) if envelope.flow is not None else None
        if flow is None:
            return finished_at
        return float("inf") if flow.over_at is None else max(finished_at, flow.over_at)


def _place(envelope: Envelope) -> Place:
    return envelope.flow or "", envelope.node or ""


def _discard(table: dict[Place, set[str]], place: Place, job_id: str) -> None:
    if place in table:
        table[place].discard(job_id)
        if not table[place]:
            del table[place]
