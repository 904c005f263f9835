"""Flows in a database, the part that all dialects share: the look at flows in which jobs have ended.

Every statement that moves a job to the finished tells of which node it was a member.  A transaction gathers that
(`Touched`), and looks last, when it has made all other writes (`FlowSteps.looking`).  All of it is steps by name, so that
it runs in a caller's transaction as well.

A look makes at most `STEP` jobs of a flow due, or cancels so many.  What is left is noted in the node's row (`swept`), and
the next look at this flow, or the next sweep, goes on there.  So it is with jobs that another transaction has locked.

**What a dialect supplies.**  A subclass of `FlowSteps` says how rows of flows are locked (`lock`: in the order of their ids,
and every statement of the look comes after it, so that it sees what the lock has waited for) and how members that wait are
cancelled (`cancel`).  The statements have the same names in every dialect.  Lists of values are given as the
dialect's transaction takes them, lists of rows as JSON text, and ``:now`` as everywhere:

- ``flows_to_look_at(places)``: of ``[[flow, node, job], …]``, rows of (flow, node, a live job, whether something changes):
  no job of the node is live, one has failed and the node does not say so, or the flow has a step left.  ``job`` was live
  when this process last asked: where versions pile up it is looked for first.  Places that do not change may be left out.
- ``flows_among(flows)``: (id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at), of those there are.
- ``nodes_of(flows)``: (flow, place, name, comes_after, opens_when, state, failed, total).
- ``nodes_now(flows)``: the same without the total, and (swept, whether a job is live), which may be left out of nodes that
  have run and have no step left; `failed` is read from the finished jobs for nodes that are not over.
- ``live_nodes(flow, nodes)`` and ``failed_nodes(flow, nodes)``: the names of those with a live, or a failed, job.
- ``waiting_members(flow, node, after, limit)``: (key, id) of jobs that wait for their node; ``members_to_end``: (key, id,
  state) of jobs that wait or run and were not asked to cancel.  By id, without locks.  A key is what the next ones take.
- ``open_members(jobs, never)`` makes jobs due, see `due_now`: (id, state, queue); ``ask_to_cancel(jobs, reason)``: ids.
  Both leave out jobs that other transactions have locked: what is not answered is done by the next look.
- ``change_nodes(nodes)``: ``[[flow, name, state, failed, swept], …]``; ``change_flows(flows)``: ``[[id, stopped, cancelled,
  over, unswept], …]``, where a flow that is over keeps its time or gets the present one.
- ``revive_members(flow, node, never)``: the ids of members that failed and may still run, of which there is a live row now,
  which waits; ``forget_revived(ids)`` drops the finished rows; ``await_node(ids, never)``, ``reasons_of(ids)``: `replayed`.
- ``flows_that_stand_still(left_open, limit)``: (id, name, unswept, whether it was left open for so long).

The verbs (`onward.backends.sql.flow_verbs`) and the storing of members (`flow_members`) name theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from onward.backend import LEFT_OPEN, NEVER, FlowRow
from onward.backends.sql.flow_rows import as_json, flow_row, nodes_by_flow
from onward.backends.sql.statements import NamedSteps, ask
from onward.base.clock import SECOND
from onward.base.logs import get_logger
from onward.contract.transactions import Rows
from onward.errors import BackendRefused
from onward.flow.graph import OVER, Node, NodeState, advance, all_over, is_stopped, reset, why_not_needed
from onward.job.states import State

__all__ = ["STEP", "DueMember", "FlowSteps", "Looked", "Touched", "touch"]

logger = get_logger("onward")

STEP = 1_000
LEFT_OPEN_FOR = round(LEFT_OPEN.total_seconds() * SECOND)
_LIVE = (NodeState.WAITING, NodeState.OPEN)
_NOT_NEEDED = (NodeState.PASSED_OVER, NodeState.SKIPPED)
_HAS_RUN = (NodeState.COMPLETED, NodeState.FAILED)
_REMEMBERED = 1_000  # nodes

Touched = set[
    tuple[str, str | None]
]  # flows to look at, and the nodes of which jobs have ended; None: look in any case

_replace = msgspec.structs.replace


class DueMember(NamedTuple):
    """A job whose node a look has opened: it is due, or will be when its delay has passed."""

    id: str
    queue: str


class Looked(NamedTuple):
    """What a look at flows has done."""

    opened: list[DueMember]
    swept: int = 0  # jobs that were made due, cancelled or asked to cancel
    changed: bool = False
    unswept: bool = False  # a step is left


def touch(touched: Touched, ended: Iterable[Sequence[Any]]) -> None:
    """Note the nodes whose jobs have ended, from rows of (flow, node); plain jobs have none."""
    touched.update((flow, node or "") for flow, node in ended if flow is not None)


class _Flow:
    """One flow while it is looked at."""

    def __init__(self, row: FlowRow, swept: dict[str, str], live: set[str]) -> None:
        self.row = row
        self.id = row.id
        self.nodes = {node.name: node for node in row.nodes}
        self.swept = swept  # nodes with jobs that are not as its state says, and up to which id they are
        self.live = live  # nodes with live jobs
        self.stopped, self.cancelled, self.over = row.stopped, row.cancelled, row.over_at is not None
        flow, nodes = self.columns()
        # Of a node that is not over, whether a job has failed was read from the jobs: its row may not say so yet.
        unnoted = {name: (state, False, to) for name, (state, _, to) in nodes.items() if NodeState(state) in _LIVE}
        self.before = flow, nodes | unnoted

    def ends(self, node: Node) -> bool:
        """Return whether all jobs of a node are to end."""
        return self.cancelled is not None or (self.stopped and is_stopped(node))

    def begin_anew(self) -> None:
        self.stopped, self.cancelled, self.over = False, None, False

    def columns(self) -> tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
        flow = self.stopped, self.cancelled, self.over, bool(self.swept)
        return flow, {
            node.name: (node.state.value, node.failed, self.swept.get(node.name)) for node in self.nodes.values()
        }


class _Swept(NamedTuple):
    """What was done to a page of members."""

    seen: int = 0
    done: int = 0
    ended: int = 0
    opened: Sequence[DueMember] = ()


class FlowSteps(ABC):
    """Steps of one store.  What is abstract is for the dialect to say."""

    def __init__(self) -> None:
        self._alive: OrderedDict[tuple[str, str], str] = (
            OrderedDict()
        )  # a live job of a node, when it was last looked at

    @abstractmethod
    def lock(self, flows: list[str]) -> NamedSteps[None]:
        """Lock the rows of these flows until the commit, in this order."""

    @abstractmethod
    def cancel(self, jobs: list[Any], reason: str) -> NamedSteps[int]:
        """Cancel members that wait, by their keys, but those that other transactions have locked.  Return how many."""

    def open(self, jobs: list[Any]) -> NamedSteps[Rows]:
        """Make members due, by their keys, but those that other transactions have locked: (id, state, queue)."""
        return (yield from ask("open_members", jobs=jobs, never=NEVER))

    def ask_to_cancel(self, jobs: list[Any], reason: str) -> NamedSteps[Collection[Any]]:
        """Ask members that run to cancel, but those that other transactions have locked.  Return one thing for each."""
        return (yield from ask("ask_to_cancel", jobs=jobs, reason=reason))

    def looking(self, touched: Touched) -> NamedSteps[Looked]:
        """Look at these flows, and apply the rules to those in which something changes."""
        ended = sorted((flow, node) for flow, node in touched if node is not None)
        wanted = {flow for flow, node in touched if node is None}
        yield from self.lock(sorted({flow for flow, _ in touched}))
        changed: set[str] = set()
        if ended:
            changed = yield from self._changed(ended)
        return (yield from self._look(changed | wanted, anew=wanted))

    def _changed(self, ended: Sequence[tuple[str, str]]) -> NamedSteps[set[str]]:
        """Return the flows in which something changes by the end of jobs in these nodes."""
        places = as_json((flow, node, self._alive.pop((flow, node), None)) for flow, node in ended)
        changed: set[str] = set()
        for flow, node, alive, changes in (yield from ask("flows_to_look_at", places=places)):
            if alive is not None:
                self._alive[flow, node] = alive
            if changes:
                changed.add(flow)
        while len(self._alive) > _REMEMBERED:
            self._alive.popitem(last=False)
        return changed

    def _look(self, flow_ids: Collection[str], *, anew: Collection[str] = ()) -> NamedSteps[Looked]:
        """Look at flows that are locked.  ``anew``: those of which all jobs that are to end have to be looked for."""
        if not flow_ids:
            return Looked([])
        flows = yield from self._read(sorted(flow_ids))
        opened: list[DueMember] = []
        swept = 0
        for flow in flows:
            if flow.id in anew:
                yield from _look_for_late(flow)
            done = yield from self._apply(flow)
            opened += done.opened
            swept += done.done
        changed = yield from _write(flows)
        return Looked(opened, swept, changed, any(flow.swept for flow in flows))

    def _read(self, flow_ids: list[str]) -> NamedSteps[list[_Flow]]:
        """Read flows to look at them.  One that is damaged stays as it is: jobs beside its own go on."""
        rows = yield from ask("flows_among", flows=flow_ids)
        nodes = nodes_by_flow((yield from ask("nodes_now", flows=flow_ids)))
        flows: list[_Flow] = []
        for row in rows:
            mine = nodes[row[0]]
            try:
                flow = flow_row(row, [(*node[:7], 0) for node in mine])
            except BackendRefused as error:
                logger.critical("flow %s cannot go on: %s", row[0], error)
                continue
            swept = {node[2]: node[7] for node in mine if node[7] is not None}
            flows.append(_Flow(flow, swept, {node[2] for node in mine if node[8]}))
        return flows

    def _apply(self, flow: _Flow) -> NamedSteps[_Swept]:
        """Apply the rules: open what may open, cancel what is not needed, note what is over."""
        opened: list[DueMember] = []
        room = STEP
        swept = 0
        goes_on = True
        while goes_on:
            goes_on = _advance(flow)
            ending = []
            for name in [name for name in flow.nodes if name in flow.swept]:
                done = yield from self._sweep_node(flow, flow.nodes[name], room)
                room -= done.seen
                swept += done.done
                opened += done.opened
                if done.ended and flow.nodes[name].state in _LIVE:
                    ending.append(name)
            if ending:
                goes_on = True
                rows = yield from ask("live_nodes", flow=flow.id, nodes=ending)
                flow.live = flow.live.difference(ending).union(name for (name,) in rows)
        flow.over = flow.row.closed and not flow.swept and all_over(flow.nodes.values())
        return _Swept(0, swept, 0, opened)

    def _sweep_node(self, flow: _Flow, node: Node, room: int) -> NamedSteps[_Swept]:
        """Make jobs of a node due, or cancel them, as its state says."""
        ends = flow.ends(node)
        if node.name not in flow.live or (node.state is NodeState.WAITING and not ends):
            del flow.swept[node.name]
            return _Swept()
        if room <= 0:
            return _Swept()
        page = {"flow": flow.id, "node": node.name, "after": flow.swept[node.name], "limit": room}
        rows = yield from ask("members_to_end" if ends else "waiting_members", **page)
        swept = yield from self._swept(flow, node, rows)
        if swept.done == len(rows) and len(rows) < room:
            del flow.swept[node.name]
            if node.state in OVER:
                flow.live.discard(node.name)
        elif swept.done == len(rows):
            flow.swept[node.name] = rows[-1][1]
        return swept  # if jobs were left out, the next look begins with them

    def _swept(self, flow: _Flow, node: Node, rows: Rows) -> NamedSteps[_Swept]:
        if not rows:
            return _Swept()
        keys = [row[0] for row in rows]
        if flow.ends(node):
            return (yield from self._end(flow, node, rows))
        if node.state is NodeState.OPEN:
            due = yield from self.open(keys)
            opened = [DueMember(job_id, queue) for job_id, _, queue in due]  # those with a delay, too
            return _Swept(len(rows), len(due), 0, opened)
        cancelled = yield from self.cancel(keys, why_not_needed(flow.nodes, node))
        return _Swept(len(rows), cancelled, cancelled)

    def _end(self, flow: _Flow, node: Node, rows: Rows) -> NamedSteps[_Swept]:
        """Cancel the jobs that wait, ask those that run."""
        reason = flow.cancelled or "its flow stopped: a job failed"
        waiting = [key for key, _, state in rows if state != State.EXECUTING]
        running = [key for key, _, state in rows if state == State.EXECUTING]
        ended = asked = 0
        if waiting:
            ended = yield from self.cancel(waiting, reason)
            if ended and node.state in _LIVE:
                flow.nodes[node.name] = _replace(node, failed=True)
        if running:
            asked = len((yield from self.ask_to_cancel(running, reason)))
        return _Swept(len(rows), ended + asked, ended)

    # What people ask for

    def revive(self, flow_id: str, node: str) -> NamedSteps[int]:
        """Replay every job of a node that failed and may still run; return how many."""
        revived = [job_id for (job_id,) in (yield from ask("revive_members", flow=flow_id, node=node, never=NEVER))]
        if revived:
            yield from ask("forget_revived", ids=revived)
        return len(revived)

    def begin_anew(self, flow_id: str, names: Collection[str]) -> NamedSteps[Looked]:
        """Let nodes of which jobs were replayed, and those behind them, go by the rules anew.  The flow is locked."""
        flows = yield from self._read([flow_id])
        for flow in flows:
            nodes = flow.row.nodes
            changing = {node.name for node in reset(nodes, names, lambda _: False)}
            for name in sorted(changing.difference(names)):
                yield from self.revive(flow_id, name)
            rows = yield from ask("failed_nodes", flow=flow_id, nodes=sorted(changing))
            failed = {name for (name,) in rows}
            for node in reset(nodes, names, failed.__contains__):
                flow.nodes[node.name] = node
                flow.swept[node.name] = ""
            flow.begin_anew()
        yield from _write(flows)
        return (yield from self._look([flow.id for flow in flows]))

    def replayed(self, members: Mapping[str, tuple[str, str]]) -> NamedSteps[tuple[list[DueMember], dict[str, str]]]:
        """Let members that were replayed wait in their nodes, and look at their flows, which are locked.

        Returns the jobs that are due, and why some of the members have ended again: the nodes before theirs have failed,
        or theirs is not needed.
        """
        ids = list(members)
        yield from ask("await_node", ids=ids, never=NEVER)
        nodes: dict[str, set[str]] = {}
        for flow_id, node in members.values():
            nodes.setdefault(flow_id, set()).add(node)
        opened: list[DueMember] = []
        for flow_id, names in sorted(nodes.items()):
            opened += (yield from self.begin_anew(flow_id, names)).opened
        rows = yield from ask("reasons_of", ids=ids)
        return opened, dict(map(tuple, rows))

    def sweeping(self, still: Sequence[Any]) -> NamedSteps[Looked]:
        """Close a flow that was left open, take its next step, or do what should have been done.

        ``still``: a row of `flows_that_stand_still`.
        """
        flow_id, name, unswept, left_open = still
        yield from self.lock([flow_id])
        if left_open:
            logger.warning(
                "flow %s %s got no more jobs for 24 hours and is closed: was the process that filled it killed?",
                name,
                flow_id,
            )
            yield from ask("close_flow", flow=flow_id)
        looked = yield from self._look([flow_id])
        if looked.changed and not unswept and not left_open:
            logger.error("flow %s %s should have gone on before: a job of it ended without a look", name, flow_id)
        return looked


def _look_for_late(flow: _Flow) -> NamedSteps[None]:
    """Have all jobs looked for that are to end: of a flow that ends, from the first one on, and of nodes that have run."""
    over = [node.name for node in flow.nodes.values() if node.state in _HAS_RUN]
    rows = (yield from ask("live_nodes", flow=flow.id, nodes=over)) if over else ()
    late = {name for (name,) in rows}
    flow.live |= late
    flow.swept |= {
        name: "" for name, node in flow.nodes.items() if name in flow.live and (name in late or flow.ends(node))
    }


def _advance(flow: _Flow) -> bool:
    """Apply the rules once; return whether a node has changed."""
    if flow.row.stop_on_failure and not flow.stopped and any(node.failed for node in flow.nodes.values()):
        flow.stopped = True
        flow.swept |= {node.name: "" for node in flow.nodes.values() if is_stopped(node)}
    moved = advance(tuple(flow.nodes.values()), flow.live.__contains__, closed=flow.row.closed)
    for node in moved:
        flow.nodes[node.name] = node
        if node.name in flow.live:
            flow.swept[node.name] = ""
    # A running job may have added to a node that is not needed any more.
    unneeded = {name for name, node in flow.nodes.items() if node.state in _NOT_NEEDED and name in flow.live}
    flow.swept |= {name: "" for name in unneeded if name not in flow.swept}
    return bool(moved)


def _write(flows: Sequence[_Flow]) -> NamedSteps[bool]:
    """Write what has changed; return whether anything has."""
    nodes: list[Sequence[object]] = []
    rows: list[Sequence[object]] = []
    for flow in flows:
        (old_flow, old_nodes), (now, nodes_now) = flow.before, flow.columns()
        nodes += [(flow.id, name, *columns) for name, columns in nodes_now.items() if old_nodes[name] != columns]
        if now != old_flow:
            rows.append((flow.id, *now))
        flow.before = now, nodes_now
    if nodes:
        yield from ask("change_nodes", nodes=as_json(nodes))
    if rows:
        yield from ask("change_flows", flows=as_json(rows))
    return bool(nodes or rows)
