"""Flows in a database, the part that all dialects share: the look at flows in which jobs have ended.

Every statement that moves a job to the finished tells of which node it was a member.  A transaction gathers that
(`Touched`), and looks last, when it has made all other writes (`FlowSteps.looking`).  All of it is steps by name, so that
it runs in a caller's transaction as well.

A look makes at most `STEP` jobs of a flow due, or cancels so many.  What is left is noted in the node's row (`swept`), and
the next look at this flow, or the next sweep, goes on there.  So it is with jobs that another transaction has locked.  A
node whose failed jobs are to be replayed says so in its row (`replays`): they are replayed in the same steps, and until the
last of them is, the node is not over, and none of them is due.

**What a dialect supplies.**  A subclass of `FlowSteps` says how rows of flows are locked (`lock`: in the order of their ids,
and every statement of the look comes after it, so that it sees what the lock has waited for) and how members that wait are
cancelled (`cancel`).  The statements have the same names in every dialect.  Lists of values are given as the
dialect's transaction takes them, lists of rows as JSON text, and ``:now`` as everywhere:

- ``flows_to_look_at(places)``: of ``[[flow, node, job], …]``, rows of (flow, node, a live job, whether something changes):
  no job of the node is live, one has failed and the node does not say so, or the flow has a step left.  ``job`` was live
  when this process last asked: where versions pile up it is looked for first.  Places that do not change may be left out.
- ``flows_among(flows)``: (id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at), of those there are.
- ``nodes_of(flows)``: (flow, place, name, comes_after, opens_when, state, failed, total).
- ``nodes_now(flows)``: the same without the total, and (swept, whether a job is live, replays); the second may be left out
  of nodes that have run and have no step left; `failed` is read from the finished jobs for nodes that are not over and of
  which no job is to be replayed.
- ``live_nodes(flow, nodes)`` and ``failed_nodes(flow, nodes)``: the names of those with a live, or a failed, job.
- ``waiting_members(flow, node, after, limit)``: (key, id) of jobs that wait for their node; ``members_to_end``: (key, id,
  state) of jobs that wait or run and were not asked to cancel.  By id, without locks.  A key is what the next ones take.
- ``open_members(jobs, never)`` makes jobs due, see `due_now`: (id, state, queue); ``ask_to_cancel(jobs, reason)``: ids.
  Both leave out jobs that other transactions have locked: what is not answered is done by the next look.
- ``change_nodes(nodes)``: ``[[flow, name, state, failed, swept, replays], …]``; ``change_flows(flows)``: ``[[id, stopped,
  cancelled, over, unswept], …]``, where a flow that is over keeps its time or gets the present one.
- ``failed_members(flow, node, outcome, after, limit)``: ids of jobs that ended so; ``revive_members(ids, never)``: of those
  that may still run, the ids, of which there is a live row now, which waits; ``forget_revived(ids)`` drops the finished
  rows; ``count_replayed(flow, number, anew)``; ``await_node(ids, never)``, ``reasons_of(ids)``: `replayed`.
- ``flows_that_stand_still(left_open, limit)``: (id, name, unswept, whether it was left open for so long).

The verbs (`onward.backends.sql.flow_verbs`) and the storing of members (`flow_members`) name theirs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from onward.backend import LEFT_OPEN, NEVER
from onward.backends.sql.flow_in_look import (
    COUNTED_REPLAY,
    LIVE_NODES,
    REPLAY,
    FlowInLook,
    advance_flow,
    read_flows,
    write_flows,
)
from onward.backends.sql.flow_rows import as_json
from onward.backends.sql.statements import NamedSteps, ask
from onward.base.clock import SECOND
from onward.base.logs import get_logger
from onward.contract.transactions import Rows
from onward.flow.graph import OVER, Node, NodeState, all_over, reset, why_not_needed
from onward.job.states import State

__all__ = ["STEP", "DueMember", "FlowSteps", "Looked", "ReplayedMembers", "Touched", "touch"]

logger = get_logger("onward")

STEP = 1_000
LEFT_OPEN_FOR = round(LEFT_OPEN.total_seconds() * SECOND)
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


class ReplayedMembers(NamedTuple):
    """What has become of members that were replayed."""

    opened: list[DueMember]
    ended_again: dict[str, str]  # and why: the nodes before theirs have failed, or theirs is not needed


def touch(touched: Touched, ended: Iterable[Sequence[Any]]) -> None:
    """Note the nodes whose jobs have ended, from rows of (flow, node); plain jobs have none."""
    touched.update((flow, node or "") for flow, node in ended if flow is not None)


class _Swept(NamedTuple):
    """What was done to a page of members."""

    seen: int = 0
    done: int = 0
    ended: int = 0
    opened: Sequence[DueMember] = ()
    replayed: bool = False  # all failed jobs of the node: the rules may say more now


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
        flows = yield from read_flows(sorted(flow_ids))
        opened: list[DueMember] = []
        swept = 0
        for flow in flows:
            if flow.id in anew:
                yield from _look_for_late(flow)
            done = yield from self._apply(flow)
            opened += done.opened
            swept += done.done
        changed = yield from write_flows(flows)
        return Looked(opened, swept, changed, any(flow.swept for flow in flows))

    def _apply(self, flow: FlowInLook) -> NamedSteps[_Swept]:
        """Apply the rules: open what may open, cancel what is not needed, note what is over."""
        opened: list[DueMember] = []
        room = STEP
        swept = 0
        goes_on = True
        while goes_on:
            goes_on = advance_flow(flow)
            ending = []
            # Last those whose failed jobs are replayed: jobs that were replayed by name end again in this step, if they do.
            names = sorted((name for name in flow.nodes if name in flow.swept), key=flow.replays.__contains__)
            for name in names:
                done = yield from self._sweep_node(flow, flow.nodes[name], room)
                room -= done.seen
                swept += done.done
                opened += done.opened
                goes_on = goes_on or done.replayed
                if done.ended and flow.nodes[name].state in LIVE_NODES:
                    ending.append(name)
            if ending:
                goes_on = True
                rows = yield from ask("live_nodes", flow=flow.id, nodes=ending)
                flow.live = flow.live.difference(ending).union(name for (name,) in rows)
        flow.over = flow.row.closed and not flow.swept and all_over(flow.nodes.values())
        return _Swept(0, swept, 0, opened)

    def _sweep_node(self, flow: FlowInLook, node: Node, room: int) -> NamedSteps[_Swept]:
        """Replay the failed jobs of a node, if it is to be retried; then make its jobs due or cancel them, by its state."""
        if node.name in flow.replays:
            return (yield from self._replay_page(flow, node, room))
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

    def _swept(self, flow: FlowInLook, node: Node, rows: Rows) -> NamedSteps[_Swept]:
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

    def _end(self, flow: FlowInLook, node: Node, rows: Rows) -> NamedSteps[_Swept]:
        """Cancel the jobs that wait, ask those that run."""
        reason = flow.cancelled or "its flow stopped: a job failed"
        waiting = [key for key, _, state in rows if state != State.EXECUTING]
        running = [key for key, _, state in rows if state == State.EXECUTING]
        ended = asked = 0
        if waiting:
            ended = yield from self.cancel(waiting, reason)
            if ended and node.state in LIVE_NODES:
                flow.nodes[node.name] = _replace(node, failed=True)
        if running:
            asked = len((yield from self.ask_to_cancel(running, reason)))
        return _Swept(len(rows), ended + asked, ended)

    # What people ask for

    def _replay_page(self, flow: FlowInLook, node: Node, room: int) -> NamedSteps[_Swept]:
        """Replay the next failed jobs of a node that may still run.  None of them is due before the last is replayed."""
        if room <= 0:
            return _Swept()
        place = {"flow": flow.id, "node": node.name, "after": flow.swept[node.name], "limit": room}
        found: list[str] = []
        for outcome in (State.DISCARDED, State.CANCELLED):
            found += [job_id for (job_id,) in (yield from ask("failed_members", **place, outcome=outcome.value))]
        page = sorted(found)[:room]
        revived = (yield from self.revive(page)) if page else 0
        if revived:
            flow.live.add(node.name)
            if flow.replays[node.name] == COUNTED_REPLAY:
                yield from ask("count_replayed", flow=flow.id, number=revived, anew=False)
        if len(page) == room:
            flow.swept[node.name] = page[-1]
            return _Swept(len(page), len(page))
        del flow.replays[node.name]
        flow.swept[node.name] = ""
        failed = yield from ask("failed_nodes", flow=flow.id, nodes=[node.name])
        flow.nodes[node.name] = _replace(node, failed=bool(failed))
        return _Swept(len(page), len(page), replayed=True)

    def revive(self, ids: list[str]) -> NamedSteps[int]:
        """Replay failed jobs but those that may not run any more; return how many."""
        revived = [job_id for (job_id,) in (yield from ask("revive_members", ids=ids, never=NEVER))]
        if revived:
            yield from ask("forget_revived", ids=revived)
        return len(revived)

    def begin_retry(self, flow_id: str, names: Collection[str]) -> NamedSteps[Looked]:
        """Let all failed jobs of these nodes be replayed, and take the first step.  The flow is locked."""
        flows = yield from read_flows([flow_id])
        yield from ask("count_replayed", flow=flow_id, number=0, anew=True)
        for flow in flows:
            for node in reset(flow.row.nodes, names, lambda _: False):
                is_wanted = node.name in names and flow.nodes[node.name].state is not NodeState.SKIPPED
                flow.replay(node.name, COUNTED_REPLAY if is_wanted else REPLAY)
                flow.nodes[node.name] = node
            flow.begin_anew()
        yield from write_flows(flows)
        return (yield from self._look([flow_id]))

    def begin_anew(self, flow_id: str, names: Collection[str]) -> NamedSteps[Looked]:
        """Let nodes of which jobs were replayed, and those behind them, go by the rules anew.  The flow is locked."""
        flows = yield from read_flows([flow_id])
        rows = yield from ask("failed_nodes", flow=flow_id, nodes=sorted(names))
        failed = {name for (name,) in rows}
        for flow in flows:
            failed -= flow.replays.keys()
            for node in reset(flow.row.nodes, names, failed.__contains__):
                flow.nodes[node.name] = node
                if node.name in names:
                    flow.sweep(node.name)
                else:
                    flow.replay(node.name, REPLAY)
            flow.begin_anew()
        yield from write_flows(flows)
        return (yield from self._look([flow_id]))

    def replayed(self, members: Mapping[str, tuple[str, str]], left: set[str]) -> NamedSteps[ReplayedMembers]:
        """Let members that were replayed wait in their nodes, and look at their flows, which are locked.

        ``left`` learns of which flows steps are left: jobs behind these are replayed, too.
        """
        ids = list(members)
        yield from ask("await_node", ids=ids, never=NEVER)
        nodes: dict[str, set[str]] = {}
        for flow_id, node in members.values():
            nodes.setdefault(flow_id, set()).add(node)
        opened: list[DueMember] = []
        for flow_id, names in sorted(nodes.items()):
            looked = yield from self.begin_anew(flow_id, names)
            opened += looked.opened
            if looked.unswept:
                left.add(flow_id)
        rows = yield from ask("reasons_of", ids=ids)
        return ReplayedMembers(opened, dict(map(tuple, rows)))

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


def _look_for_late(flow: FlowInLook) -> NamedSteps[None]:
    """Have all jobs looked for that are to end: of a flow that ends, from the first one on, and of nodes that have run."""
    over = [node.name for node in flow.nodes.values() if node.state in _HAS_RUN]
    rows = (yield from ask("live_nodes", flow=flow.id, nodes=over)) if over else ()
    late = {name for (name,) in rows}
    flow.live |= late
    for name, node in flow.nodes.items():
        if name in flow.live and (name in late or flow.ends(node)):
            flow.sweep(name)
