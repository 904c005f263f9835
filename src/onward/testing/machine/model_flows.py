"""The flows of the model: the four rules once more, as loops over all nodes until nothing changes.

It shares no code with `onward.flow.graph`: that is what stores ask.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from onward.backend import LEFT_OPEN, NEVER, Enqueued, FlowRow, Lease, never_due
from onward.base.clock import SECOND
from onward.flow.graph import Node, NodeState
from onward.job.envelope import Envelope
from onward.job.states import State
from onward.testing.machine.model_job import ModelJob

__all__ = ["ModelFlow", "ModelFlows", "ModelNode", "state_of_waiting"]

_LEFT_OPEN = round(LEFT_OPEN.total_seconds() * SECOND)
_UNDECIDED = ("waiting", "open")
_FAILED = ("failed", "passed_over")


@dataclass
class ModelNode:
    """What the model knows of one node."""

    after: tuple[str, ...]
    when: str
    state: str
    failed: bool = False
    total: int = 0

    @property
    def over(self) -> bool:
        return self.state not in _UNDECIDED


@dataclass
class ModelFlow:
    """What the model knows of one flow; its nodes stand in such an order that each comes after those that it names."""

    id: str
    name: str
    nodes: dict[str, ModelNode]
    stop_on_failure: bool
    closed: bool
    created_at: int
    added_at: int
    stopped: bool = False
    cancelled: str | None = None
    over_at: int | None = None
    late: dict[str, str] = field(default_factory=dict)  # jobs that were added to a node that is over; by which node

    def ends(self, name: str) -> bool:
        """Return whether the jobs of a node are to end, those that run too."""
        return self.cancelled is not None or (self.stopped and self.nodes[name].when == "succeeded")

    def takes(self, name: str) -> bool:
        """Return whether a job that is added to a node may ever run."""
        return not self.ends(name) and not self.nodes[name].over

    def behind(self, names: Collection[str]) -> set[str]:
        """Return the nodes that come after one of these, directly or not."""
        found: set[str] = set()
        for name, node in self.nodes.items():
            if any(before in found or before in names for before in node.after):
                found.add(name)
        return found

    def row(self) -> FlowRow:
        return FlowRow(
            id=self.id,
            name=self.name,
            nodes=tuple(_node(name, node) for name, node in self.nodes.items()),
            created_at=self.created_at,
            stop_on_failure=self.stop_on_failure,
            closed=self.closed,
            stopped=self.stopped,
            cancelled=self.cancelled,
            over_at=self.over_at,
        )


def _node(name: str, node: ModelNode) -> Node:
    return Node(
        name=name,
        after=node.after,
        when=node.when,  # type: ignore[arg-type]
        state=NodeState(node.state),
        failed=node.failed,
        total=node.total,
    )


class ModelFlows:
    """The verbs of `KeepsFlows`, for the model."""

    live: dict[str, ModelJob]
    finished: dict[str, ModelJob]
    events: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.flow_rows: dict[str, ModelFlow] = {}

    @property
    @abstractmethod
    def now(self) -> int: ...

    @abstractmethod
    def _add(self, envelope: Envelope, *, retried: bool = False) -> Enqueued: ...

    @abstractmethod
    def finish(self, job: ModelJob, state: State, reason: str | None) -> None: ...

    @abstractmethod
    def holds_lease(self, lease: Lease, owner: str) -> bool: ...

    def flow_of(self, envelope: Envelope) -> ModelFlow | None:
        """Return the flow of a member; None: the job is a plain one."""
        return self.flow_rows.get(envelope.flow or "")

    # Enqueueing.

    def add_member(self, envelope: Envelope) -> ModelJob | None:
        """Count a new member, and return it if its node waits."""
        if envelope.plan is not None and envelope.flow is not None and envelope.flow not in self.flow_rows:
            self._start(envelope)
        flow = self.flow_of(envelope)
        if flow is None:
            return None
        node = flow.nodes[envelope.node or ""]
        node.total += 1
        flow.added_at = self.now
        if node.state == "open":
            return None
        return ModelJob(envelope, State.SCHEDULED, never_due(envelope), awaits="")

    def _start(self, first: Envelope) -> None:
        assert first.plan is not None
        assert first.flow is not None
        self.flow_rows[first.flow] = ModelFlow(
            id=first.flow,
            name=first.plan.name,
            nodes={
                node.name: ModelNode(node.after, node.when, "waiting" if node.after else "open")
                for node in first.plan.nodes
            },
            stop_on_failure=first.plan.stop_on_failure,
            closed=first.plan.closed,
            created_at=self.now,
            added_at=self.now,
        )

    def note_end(self, job: ModelJob) -> None:
        """Note in its node that a member has failed, before it is decided what becomes of the node."""
        flow = self.flow_of(job.envelope)
        if flow is not None and job.state is not State.COMPLETED and not flow.nodes[job.node].over:
            flow.nodes[job.node].failed = True

    # The rules.

    def look(self) -> None:
        """Apply the rules to every flow until nothing changes."""
        for flow in self.flow_rows.values():
            while self._apply_rules(flow) or self._end_and_open(flow):
                pass
            if flow.over_at is None and flow.closed and all(node.over for node in flow.nodes.values()):
                flow.over_at = self.now
                self.events[f"flow {flow.row().state}"] += 1

    def _apply_rules(self, flow: ModelFlow) -> bool:
        """Rules 1, 2 and 4; return whether a node has changed."""
        if flow.stop_on_failure and any(node.failed for node in flow.nodes.values()):
            flow.stopped = True
        before = [node.state for node in flow.nodes.values()]
        for name, node in flow.nodes.items():
            if node.state == "waiting":
                node.state = state_of_waiting(node.when, [flow.nodes[each].state for each in node.after])
            if node.state == "open" and flow.closed and not self.members(flow, name):
                node.state = "failed" if node.failed else "completed"
        after = [node.state for node in flow.nodes.values()]
        self.events.update(f"node {new}" for old, new in zip(before, after, strict=True) if old != new)
        return before != after

    def members(self, flow: ModelFlow, name: str) -> list[ModelJob]:
        """Return the live jobs of a node."""
        return [job for _, job in sorted(self.live.items()) if job.place_in_flow == (flow.id, name)]

    def _end_and_open(self, flow: ModelFlow) -> bool:
        """Rules 3 and 4: write the jobs as their nodes say; return whether one has ended."""
        ended = False
        for name, node in flow.nodes.items():
            for job in [job for job in self.members(flow, name) if job.id not in flow.late]:
                if flow.ends(name):
                    ended |= self._stop(job, flow.cancelled or "its flow stopped: a job failed")
                elif job.awaits_node and node.over:
                    self.finish(job, State.CANCELLED, _why(flow, name))
                    ended = True
                elif job.awaits_node and node.state == "open":
                    self._make_due(job)
        return ended

    def _stop(self, job: ModelJob, reason: str) -> bool:
        if job.waiting:
            self.finish(job, State.CANCELLED, reason)
            return True
        job.asked = job.asked or reason
        return False

    def _make_due(self, job: ModelJob) -> None:
        """Let a job start: its delay counts from now, unless it was replayed."""
        envelope, again = job.envelope, job.available_at == NEVER
        due = self.now + envelope.delay if envelope.not_before is None else max(self.now, envelope.not_before)
        job.awaits, job.available_at = None, self.now if again else due
        job.state = State.AVAILABLE if job.available_at <= self.now else State.SCHEDULED

    # Replaying.

    def replay_member(self, job: ModelJob) -> None:
        """Let a finished job of a flow wait in its node; a plain one is due."""
        again = ModelJob(job.envelope, State.AVAILABLE, self.now, job.envelope.unique_key, delivery=job.delivery)
        if self.flow_of(job.envelope) is not None:
            again.state, again.available_at, again.awaits = State.SCHEDULED, NEVER, ""
        del self.finished[job.id]
        self.live[job.id] = again

    def replayed(self, ids: Sequence[str]) -> dict[str, str]:
        """Apply the rules anew from the nodes of these jobs on; return why some have ended again."""
        nodes: dict[str, set[str]] = {}
        for job_id in ids:
            flow = self.flow_of(self.live[job_id].envelope)
            if flow is not None:
                nodes.setdefault(flow.id, set()).add(self.live[job_id].node)
        for flow_id, names in nodes.items():
            self._begin_anew(self.flow_rows[flow_id], names)
        self.look()
        return {job_id: self.finished[job_id].reason or "" for job_id in ids if job_id in self.finished}

    def _begin_anew(self, flow: ModelFlow, names: Collection[str]) -> None:
        anew = {name for name in names if flow.nodes[name].state != "open"}
        anew |= {name for name in flow.behind(names) if flow.nodes[name].state in ("passed_over", "skipped")}
        for name in sorted(anew - set(names)):
            self._replay_all(flow, name)
        for name in anew | set(names):
            flow.nodes[name].failed = bool(self._failures(flow, name))
        for name in anew:
            flow.nodes[name].state = "waiting"
        flow.over_at, flow.stopped, flow.cancelled = None, False, None

    def _failures(self, flow: ModelFlow, name: str) -> list[ModelJob]:
        """Return the jobs of a node that ended without success."""
        ended = [job for _, job in sorted(self.finished.items()) if job.place_in_flow == (flow.id, name)]
        return [job for job in ended if job.state is not State.COMPLETED]

    def _replay_all(self, flow: ModelFlow, name: str) -> int:
        again = [job for job in self._failures(flow, name) if not job.expired(self.now)]
        for job in again:
            self.replay_member(job)
        return len(again)

    # Retention.

    def retention_begins(self, job: ModelJob) -> float:
        """Return when a finished job begins to age: a member not before its flow is over."""
        assert job.finished_at is not None
        flow = self.flow_of(job.envelope)
        if flow is None:
            return job.finished_at
        return float("inf") if flow.over_at is None else max(job.finished_at, flow.over_at)

    def forget_flow(self, job: ModelJob) -> None:
        """Forget the flow of a job that is gone, if it is over and that was its last."""
        flow = self.flow_of(job.envelope)
        if flow is None or flow.over_at is None:
            return
        if not any(each.envelope.flow == flow.id for each in self.finished.values()):
            del self.flow_rows[flow.id]

    # The verbs.

    def flow(self, flow_id: str) -> FlowRow | None:
        return self.flow_rows[flow_id].row() if flow_id in self.flow_rows else None

    def flows(self, *, name: str | None = None, running: bool = False) -> list[FlowRow]:
        rows = [self.flow_rows[flow_id].row() for flow_id in sorted(self.flow_rows, reverse=True)]
        return [row for row in rows if name in {None, row.name} and (row.over_at is None or not running)]

    def member_counts(self, flow_id: str) -> dict[str, dict[State, int]]:
        jobs = [*self.live.values(), *self.finished.values()]
        return {
            name: dict(Counter(job.state for job in jobs if job.place_in_flow == (flow_id, name)))
            for name in (self.flow_rows[flow_id].nodes if flow_id in self.flow_rows else ())
        }

    def extend_flow(
        self, flow_id: str, envelopes: Sequence[Envelope], *, retried: bool = False
    ) -> list[Enqueued] | None:
        if flow_id not in self.flow_rows or self.flow_rows[flow_id].closed:
            return None
        return self._add_all(envelopes, retried=retried)

    def grow(self, lease: Lease, envelopes: Sequence[Envelope], *, waiting: Collection[str]) -> list[Enqueued] | None:
        """``waiting``: those that the backend left waiting.  Of nodes that are over it may, until the own node is."""
        if not self.holds_lease(lease, lease.owner):
            return None
        parent = self.live[lease.envelope.id]
        flow = self.flow_of(parent.envelope)
        if flow is not None:
            flow.late |= {each.id: parent.node for each in envelopes if self._is_late(flow, each, waiting)}
        return self._add_all(envelopes, retried=True)

    def _is_late(self, flow: ModelFlow, envelope: Envelope, waiting: Collection[str]) -> bool:
        known = envelope.id in self.live or envelope.id in self.finished
        return envelope.id in waiting and not known and not flow.takes(envelope.node or "")

    def _add_all(self, envelopes: Sequence[Envelope], *, retried: bool) -> list[Enqueued]:
        answers = [self._add(envelope, retried=retried) for envelope in envelopes]
        self.look()
        return answers

    def close_flow(self, flow_id: str) -> bool:
        if flow_id not in self.flow_rows or self.flow_rows[flow_id].closed:
            return False
        self.flow_rows[flow_id].closed = True
        self.look()
        return True

    def cancel_flow(self, flow_id: str, reason: str) -> bool:
        if flow_id not in self.flow_rows or self.flow_rows[flow_id].over_at is not None:
            return False
        flow = self.flow_rows[flow_id]
        flow.cancelled, flow.closed = flow.cancelled or reason, True
        self.look()
        return True

    def retry_flow(self, flow_id: str) -> int | None:
        if flow_id not in self.flow_rows:
            return None
        flow = self.flow_rows[flow_id]
        if flow.row().state == "completed":
            return 0
        names = [name for name, node in flow.nodes.items() if node.state != "completed"]
        wanted = [name for name in names if flow.nodes[name].state != "skipped"]
        again = {name: self._replay_all(flow, name) for name in names}
        self._begin_anew(flow, names)
        self.look()
        return sum(again[name] for name in wanted)

    def left_open_until(self) -> list[int]:
        return [flow.added_at + _LEFT_OPEN for flow in self.flow_rows.values() if not flow.closed]

    def close_left_open(self) -> None:
        """What a sweep does to flows: those to which no job was added for a day are closed."""
        for flow in self.flow_rows.values():
            if not flow.closed and flow.added_at + _LEFT_OPEN <= self.now:
                flow.closed = True
                self.events["closed by a sweep"] += 1


def state_of_waiting(when: str, ends: Sequence[str]) -> str:
    """Return what becomes of a node that waits, by the states of those before it: rule 2."""
    one_failed = any(end in _FAILED for end in ends)
    if when == "succeeded" and one_failed:
        return "passed_over"
    if any(end in _UNDECIDED for end in ends):
        return "waiting"
    fits = {"succeeded": all(end == "completed" for end in ends), "failed": one_failed, "finished": True}
    return "open" if fits[when] else "skipped"


def _why(flow: ModelFlow, name: str) -> str:
    """Return why a job of a node that is over never runs."""
    if flow.nodes[name].state == "skipped":
        return "not needed"
    failed = [before for before in flow.nodes[name].after if flow.nodes[before].state in _FAILED]
    return f"node {(failed or [name])[0]} failed"
