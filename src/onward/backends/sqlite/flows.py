"""Flows in one file: the look at a flow in which a job has ended.

Every statement that moves a job to the finished tells of which node it was a member, and `Transaction.touched` gathers that;
the transaction looks last (`looking`).  The write lock of the file serves as the lock of the flow's row.  All of it is steps
by name, so that it runs in a caller's transaction as well.

A look makes at most `STEP` jobs due, or cancels so many.  What is left is noted in the node's row (`swept`), and the next
look at this flow, or the next sweep, goes on there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from onward.backend import LEFT_OPEN, NEVER, FlowRow
from onward.backends.sql.statements import Named, NamedSteps
from onward.backends.sqlite.transaction import Row, Touched, Transaction, as_json
from onward.base.clock import SECOND
from onward.base.logs import get_logger
from onward.errors import BackendRefused
from onward.flow.graph import OVER, Node, NodeState, advance, all_over, culprit, is_stopped, reset
from onward.job.states import State

__all__ = ["STEP", "begin_anew", "look", "looking", "read_flow", "replayed", "revive", "sweep", "touch"]

logger = get_logger("onward")

STEP = 1_000
_SWEPT_AT_ONCE = 100  # flows
_LEFT_OPEN = round(LEFT_OPEN.total_seconds() * SECOND)
_LIVE = (NodeState.WAITING, NodeState.OPEN)

_first = itemgetter(0)
_replace = msgspec.structs.replace
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode


class Looked(NamedTuple):
    """What a look at one flow has done."""

    opened: list[str]  # jobs that are due now, or when their delay has passed
    changed: bool
    unswept: bool  # a step is left


class _Flow:
    """One flow while it is looked at."""

    def __init__(self, row: FlowRow, swept: dict[str, str]) -> None:
        self.row = row
        self.nodes = {node.name: node for node in row.nodes}
        self.swept = swept  # nodes with jobs that are not as its state says, and up to which id they are
        self.stopped, self.cancelled, self.over_at = row.stopped, row.cancelled, row.over_at
        self._before = self._columns()

    def ends(self, node: Node) -> bool:
        """Return whether all jobs of a node are to end."""
        return self.cancelled is not None or (self.stopped and is_stopped(node))

    def begin_anew(self) -> None:
        self.stopped, self.cancelled, self.over_at = False, None, None

    def write(self) -> NamedSteps[bool]:
        """Write what has changed; return whether anything has, but for how far a sweep came."""
        flow, nodes = self._columns()
        old_flow, old_nodes = self._before
        changed = [[name, *columns] for name, columns in nodes.items() if old_nodes[name] != columns]
        if changed:
            yield Named("change_nodes", (self.row.id, as_json(changed)))
        if flow != old_flow:
            yield Named("change_flow", (self.row.id, *flow))
        self._before = flow, nodes
        return bool(changed) or flow != old_flow

    def _columns(self) -> tuple[Row, dict[str, Row]]:
        flow = int(self.stopped), self.cancelled, self.over_at, int(bool(self.swept))
        nodes = self.nodes.values()
        return flow, {node.name: (node.state.value, int(node.failed), self.swept.get(node.name)) for node in nodes}


def touch(touched: Touched, ended: Iterable[Row]) -> None:
    """Note the nodes whose jobs have ended, from rows of (flow, node); plain jobs have none."""
    touched.update((flow, node or "") for flow, node in ended if flow is not None)


def look(tx: Transaction) -> None:
    """Look at every flow that this transaction has touched."""
    touched, tx.touched = tx.touched, set()
    opened = tx.run_steps(looking(touched, tx.now))
    if opened:
        tx.wakes = True
        tx.woken += opened


def looking(touched: Touched, now: int) -> NamedSteps[list[str]]:
    """Look at these flows, in the order of their ids; return the jobs that are due by that."""
    ended = [place for place in touched if place[1] is not None]
    wanted = {flow_id for flow_id, node in touched if node is None}
    if ended:
        wanted.update(flow_id for (flow_id,) in (yield Named("flows_to_look_at", (as_json(ended),))))
    opened: list[str] = []
    for flow_id in sorted(wanted):
        opened += (yield from _look(flow_id, now)).opened
    return opened


def read_flow(row: Row) -> NamedSteps[tuple[FlowRow, dict[str, str]]]:
    """Read the nodes of a flow, from its row; raise `BackendRefused` if no worker wrote them."""
    flow_id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at = row
    nodes: list[Node] = []
    known: set[str] = set()
    swept: dict[str, str] = {}
    for _, node, after, when, state, failed, total, swept_to in sorted(
        (yield Named("nodes_of", (flow_id,))), key=_first
    ):
        try:
            names = _decode_names(after)
            found = Node(
                name=node, after=names, when=when, state=NodeState(state), failed=bool(failed), total=int(total)
            )
        except ValueError as error:
            raise BackendRefused(f"node {node} of flow {flow_id} has a row that no worker writes: {error}") from error
        if not known.issuperset(names):
            raise BackendRefused(f"node {node} of flow {flow_id} comes after {after:.100}, which no worker writes")
        nodes.append(found)
        known.add(node)
        if swept_to is not None:
            swept[node] = swept_to
    flow = FlowRow(
        id=flow_id,
        name=name,
        nodes=tuple(nodes),
        created_at=created_at,
        stop_on_failure=bool(stop_on_failure),
        closed=bool(closed),
        stopped=bool(stopped),
        cancelled=cancelled,
        over_at=over_at,
    )
    return flow, swept


def _read(flow_id: str) -> NamedSteps[_Flow | None]:
    """Read a flow to look at it.  One that is damaged stays as it is: jobs beside its own go on."""
    rows = yield Named("flow", (flow_id,))
    if not rows:
        return None
    try:
        return _Flow(*(yield from read_flow(tuple(rows[0]))))
    except BackendRefused as error:
        logger.critical("flow %s cannot go on: %s", flow_id, error)
        return None


def _look(flow_id: str, now: int) -> NamedSteps[Looked]:
    """Look at one flow: open what may open, cancel what is not needed, note what is over."""
    flow = yield from _read(flow_id)
    if flow is None:
        return Looked([], changed=False, unswept=False)
    yield from _mark_failed(flow)
    opened: list[str] = []
    room = STEP
    goes_on = True
    while goes_on:
        moved = yield from _advance(flow)
        ended = 0
        for name in [name for name in flow.nodes if name in flow.swept]:
            done = yield from _sweep_node(flow, flow.nodes[name], now, room)
            room -= done.seen
            ended += done.ended
            opened += done.opened
        goes_on = moved or ended > 0
    if flow.over_at is None and flow.row.closed and not flow.swept and all_over(flow.nodes.values()):
        flow.over_at = now
    changed = yield from flow.write()
    return Looked(opened, changed=changed, unswept=bool(flow.swept))


def _mark_failed(flow: _Flow) -> NamedSteps[None]:
    names = [node.name for node in flow.nodes.values() if node.state in _LIVE and not node.failed]
    for (name,) in (yield Named("failed_nodes", (flow.row.id, as_json(names)))) if names else ():
        flow.nodes[name] = _replace(flow.nodes[name], failed=True)


def _advance(flow: _Flow) -> NamedSteps[bool]:
    """Apply the rules once; return whether a node has changed."""
    if flow.row.stop_on_failure and not flow.stopped and any(node.failed for node in flow.nodes.values()):
        flow.stopped = True
        flow.swept |= {node.name: "" for node in flow.nodes.values() if is_stopped(node)}
    names = [name for name, node in flow.nodes.items() if node.state not in OVER or name in flow.swept]
    rows = (yield Named("live_nodes", (flow.row.id, as_json(names)))) if names else ()
    live = {name for (name,) in rows}
    flow.swept = {name: swept for name, swept in flow.swept.items() if name in live}
    moved = advance(tuple(flow.nodes.values()), live.__contains__, closed=flow.row.closed)
    for node in moved:
        flow.nodes[node.name] = node
        if node.name in live:
            flow.swept[node.name] = ""
    return bool(moved)


class _Swept(NamedTuple):
    seen: int = 0
    ended: int = 0
    opened: Sequence[str] = ()


def _sweep_node(flow: _Flow, node: Node, now: int, room: int) -> NamedSteps[_Swept]:
    """Make jobs of a node due, or cancel them, as its state says."""
    if node.state is NodeState.WAITING and not flow.ends(node):
        del flow.swept[node.name]
        return _Swept()
    if room <= 0:
        return _Swept()
    page = flow.row.id, node.name, flow.swept[node.name], room
    rows = yield Named("members_to_end", page) if flow.ends(node) else Named("waiting_members", page)
    if len(rows) < room:
        del flow.swept[node.name]
    else:
        flow.swept[node.name] = rows[-1][1]
    if flow.ends(node):
        ended = yield from _end(flow, node, rows, now)
        return _Swept(len(rows), ended)
    listed = as_json([rowid for rowid, _ in rows])
    if not rows:
        return _Swept()
    if node.state is NodeState.OPEN:
        opened = yield Named("open_members", (listed, now, NEVER))
        return _Swept(len(rows), 0, [job_id for job_id, _ in opened])
    reason = "not needed" if node.state is NodeState.SKIPPED else f"node {culprit(flow.nodes, node)} failed"
    yield from _cancel(listed, reason, now)
    return _Swept(len(rows), len(rows))


def _end(flow: _Flow, node: Node, rows: Sequence[Sequence[object]], now: int) -> NamedSteps[int]:
    """Cancel the jobs that wait, ask those that run; return how many have ended."""
    reason = flow.cancelled or "its flow stopped: a job failed"
    waiting = [rowid for rowid, _, state in rows if state != State.EXECUTING]
    running = [rowid for rowid, _, state in rows if state == State.EXECUTING]
    if waiting:
        yield from _cancel(as_json(waiting), reason, now)
        if node.state in _LIVE:
            flow.nodes[node.name] = _replace(node, failed=True)
    if running:
        yield Named("ask_to_cancel", (as_json(running), reason))
    return len(waiting)


def _cancel(listed: str, reason: str, now: int) -> NamedSteps[None]:
    yield Named("cancel_waiting", (listed, now, reason))
    yield Named("forget_waiting", (listed,))


def revive(flow_id: str, node: str, now: int) -> NamedSteps[int]:
    """Replay every job of a node that failed and may still run; return how many."""
    revived = [job_id for (job_id,) in (yield Named("revive_members", (flow_id, node, now, NEVER)))]
    if revived:
        yield Named("forget_finished", (as_json(revived),))
    return len(revived)


def begin_anew(flow_id: str, names: Collection[str], now: int) -> NamedSteps[list[str]]:
    """Let nodes of which jobs were replayed, and those behind them, go by the rules anew; return the jobs that are due."""
    flow = yield from _read(flow_id)
    if flow is None:
        return []
    nodes = flow.row.nodes
    changing = {node.name for node in reset(nodes, names, lambda _: False)}
    for name in sorted(changing.difference(names)):
        yield from revive(flow_id, name, now)
    failed = {name for (name,) in (yield Named("failed_nodes", (flow_id, as_json(sorted(changing)))))}
    for node in reset(nodes, names, failed.__contains__):
        flow.nodes[node.name] = node
        flow.swept[node.name] = ""
    flow.begin_anew()
    yield from flow.write()
    return (yield from _look(flow_id, now)).opened


def replayed(tx: Transaction, members: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Let members that were replayed wait in their nodes, and look.

    Returns why some of them have ended again: the nodes before theirs have failed, or theirs is not needed.
    """
    listed = as_json(list(members))
    tx.run("await_node", (listed, NEVER))
    nodes: dict[str, set[str]] = {}
    for flow_id, node in members.values():
        nodes.setdefault(flow_id, set()).add(node)
    for flow_id, names in sorted(nodes.items()):
        tx.woken += tx.run_steps(begin_anew(flow_id, names, tx.now))
    return dict(tx.rows("reasons_of", (listed,)))


def sweep(tx: Transaction) -> bool:
    """Close what was left open, take the next steps, and look at every flow that should have gone on.

    Returns whether steps are left.
    """
    left = False
    found = tx.rows("flows_that_stand_still", (tx.now - _LEFT_OPEN, _SWEPT_AT_ONCE))
    for flow_id, name, unswept, left_open in found:
        if left_open:
            logger.warning(
                "flow %s %s got no more jobs for 24 hours and is closed: was the process that filled it killed?",
                name,
                flow_id,
            )
            tx.rows("close_flow", (flow_id,))
        looked = tx.run_steps(_look(flow_id, tx.now))
        tx.wakes = tx.wakes or bool(looked.opened)
        left = left or looked.unswept
        if looked.changed and not unswept and not left_open:
            logger.error("flow %s %s should have gone on before: a job of it ended without a look", name, flow_id)
    return left
