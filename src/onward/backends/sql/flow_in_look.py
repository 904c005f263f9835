"""One flow while it is looked at, under its lock: what the rules change in it, and what of that is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.backend import FlowRow
from onward.backends.sql.flow_rows import as_json, flow_row, nodes_by_flow
from onward.backends.sql.statements import NamedSteps, ask
from onward.base.logs import get_logger
from onward.errors import BackendRefused
from onward.flow.graph import Node, NodeState, advance, is_stopped

__all__ = [
    "COUNTED_REPLAY",
    "LIVE_NODES",
    "NOT_NEEDED",
    "REPLAY",
    "FlowInLook",
    "advance_flow",
    "read_flows",
    "write_flows",
]

logger = get_logger("onward")

LIVE_NODES = (NodeState.WAITING, NodeState.OPEN)
NOT_NEEDED = (NodeState.PASSED_OVER, NodeState.SKIPPED)
REPLAY, COUNTED_REPLAY = 1, 2  # the failed jobs of a node are replayed; a retry of the flow counts them


class FlowInLook:
    """One flow while it is looked at."""

    def __init__(self, row: FlowRow, swept: dict[str, str], live: set[str], replays: dict[str, int]) -> None:
        self.row = row
        self.id = row.id
        self.nodes = {node.name: node for node in row.nodes}
        self.swept = swept  # nodes with jobs that are not as its state says, and up to which id they are
        self.live = live  # nodes with live jobs
        self.replays = replays  # those of `swept` whose failed jobs are replayed first
        self.stopped, self.cancelled, self.over = row.stopped, row.cancelled, row.over_at is not None
        flow, nodes = self.columns()
        # Of a node that is not over, whether a job has failed was read from the jobs: its row may not say so yet.
        unnoted = {
            name: (state, False, *others)
            for name, (state, _, *others) in nodes.items()
            if NodeState(state) in LIVE_NODES
        }
        self.before = flow, nodes | unnoted

    def ends(self, node: Node) -> bool:
        """Return whether all jobs of a node are to end."""
        return self.cancelled is not None or (self.stopped and is_stopped(node))

    def has_live(self, name: str) -> bool:
        """Return whether a node is not over yet.  One whose failed jobs are being replayed is not, whatever has ended."""
        return name in self.live or name in self.replays

    def sweep(self, name: str) -> None:
        """Have the jobs of a node written as its state says, from the first; after the replay, if there is one."""
        if name not in self.replays:
            self.swept[name] = ""

    def replay(self, name: str, how: int) -> None:
        """Have the failed jobs of a node replayed, from the first."""
        self.replays[name], self.swept[name] = how, ""

    def begin_anew(self) -> None:
        self.stopped, self.cancelled, self.over = False, None, False

    def columns(self) -> tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
        flow = self.stopped, self.cancelled, self.over, bool(self.swept)
        return flow, {
            name: (node.state.value, node.failed, self.swept.get(name), self.replays.get(name, 0))
            for name, node in self.nodes.items()
        }


def read_flows(flow_ids: list[str]) -> NamedSteps[list[FlowInLook]]:
    """Read flows to look at them.  One that is damaged stays as it is: jobs beside its own go on."""
    rows = yield from ask("flows_among", flows=flow_ids)
    nodes = nodes_by_flow((yield from ask("nodes_now", flows=flow_ids)))
    flows: list[FlowInLook] = []
    for row in rows:
        mine = nodes[row[0]]
        try:
            flow = flow_row(row, [(*node[:7], 0) for node in mine])
        except BackendRefused as error:
            logger.critical("flow %s cannot go on: %s", row[0], error)
            continue
        swept = {node[2]: node[7] for node in mine if node[7] is not None}
        replays = {node[2]: node[9] for node in mine if node[9] and node[2] in swept}
        flows.append(FlowInLook(flow, swept, {node[2] for node in mine if node[8]}, replays))
    return flows


def advance_flow(flow: FlowInLook) -> bool:
    """Apply the rules once; return whether a node has changed."""
    if flow.row.stop_on_failure and not flow.stopped and any(node.failed for node in flow.nodes.values()):
        flow.stopped = True
        for node in filter(is_stopped, flow.nodes.values()):
            flow.sweep(node.name)
    moved = advance(tuple(flow.nodes.values()), flow.has_live, closed=flow.row.closed)
    for node in moved:
        flow.nodes[node.name] = node
        if node.name in flow.live:
            flow.sweep(node.name)
    # A running job may have added to a node that is not needed any more.
    unneeded = {name for name, node in flow.nodes.items() if node.state in NOT_NEEDED and name in flow.live}
    flow.swept |= {name: "" for name in unneeded if name not in flow.swept}
    return bool(moved)


def write_flows(flows: Sequence[FlowInLook]) -> NamedSteps[bool]:
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
