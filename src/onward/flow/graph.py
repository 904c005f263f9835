"""The rules of flows: when a node opens, when it is over, and how.  Pure; every store asks these functions.

1. An open node is over when its flow is closed, so that no job can be added from outside, and no job of it is live:
   *failed* if a job of it was discarded or cancelled, else *completed*.
2. A waiting node *opens* when all in its ``after`` are over and ``when`` fits: `succeeded`, all completed; `failed`, one
   failed; `finished`, always.  A node with `succeeded` of which one before it failed is *passed over* at once, and counts
   as failed.  A node that does not fit for another reason is *skipped* when all before it are over, and that is no failure.
3. Jobs of a node that waits are scheduled and never due; to open a node is to make them due.
4. A flow is over when it is closed and every node is over.  ``stop_on_failure``: the first failure cancels what has not
   begun and asks what runs to stop, in all nodes but those with `failed` or `finished`.

Nodes are given in an order in which each comes after those that it names (`in_order`): one pass applies the rules.  The
result does not depend on the order in which jobs end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from onward.base.names import suggestion
from onward.errors import FlowError
from onward.job.membership import NodePlan, When

__all__ = [
    "FAILED",
    "OVER",
    "Node",
    "NodeState",
    "advance",
    "all_over",
    "before",
    "behind",
    "in_order",
    "is_stopped",
    "planned",
    "reset",
    "why_not_needed",
]


class NodeState(StrEnum):
    WAITING = "waiting"
    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    PASSED_OVER = "passed_over"  # one before it failed; counts as failed
    SKIPPED = "skipped"  # it was not needed


OVER = frozenset({NodeState.COMPLETED, NodeState.FAILED, NodeState.PASSED_OVER, NodeState.SKIPPED})
FAILED = frozenset({NodeState.FAILED, NodeState.PASSED_OVER})

_replace = msgspec.structs.replace


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a flow, as the store knows it."""

    name: str
    after: tuple[str, ...] = ()
    when: When = "succeeded"
    state: NodeState = NodeState.WAITING
    failed: bool = False  # a job of it was discarded or cancelled
    total: int = 0  # jobs that were added to it


def planned(plans: Iterable[NodePlan]) -> list[Node]:
    """Return the nodes of a new flow: those that come after none are open."""
    return [
        Node(
            name=plan.name,
            after=plan.after,
            when=plan.when,
            state=NodeState.WAITING if plan.after else NodeState.OPEN,
        )
        for plan in plans
    ]


def in_order(plans: Sequence[NodePlan]) -> tuple[NodePlan, ...]:
    """Return nodes so that each comes after those that it names; raise `FlowError` if that cannot be."""
    left = _by_name(plans)
    missing = {plan.name: len(set(plan.after)) for plan in plans}
    following: dict[str, list[str]] = {plan.name: [] for plan in plans}
    for plan in plans:
        for name in set(plan.after):
            following[name].append(plan.name)
    ready = deque(plan.name for plan in plans if not plan.after)
    ordered: list[NodePlan] = []
    while ready:
        ordered.append(left.pop(ready.popleft()))
        for name in following[ordered[-1].name]:
            missing[name] -= 1
            if not missing[name]:
                ready.append(name)
    if left:
        raise FlowError(f"nodes come after each other in a circle: {', '.join(sorted(left)):.200}")
    return tuple(ordered)


def _by_name(plans: Sequence[NodePlan]) -> dict[str, NodePlan]:
    found = {plan.name: plan for plan in plans}
    if len(found) < len(plans):
        names = [plan.name for plan in plans]
        raise FlowError(f"two nodes are named {next(name for name in names if names.count(name) > 1)!r}: rename one")
    for plan in plans:
        for name in plan.after:
            if name not in found:
                meant = suggestion(name, found)
                hint = meant if "did you mean" in meant else ": add it, or leave it out"
                raise FlowError(
                    f"node {plan.name!r} comes after {name!r}, and there is no such node in this flow{hint}"
                )
    return found


def advance(nodes: Sequence[Node], has_live: Callable[[str], bool], *, closed: bool) -> list[Node]:
    """Return the nodes that change, as they are afterwards.  ``has_live``: whether a job of an open node is live.

    A node that opens may be over at once: call this again when its jobs are due, or cancelled, until nothing changes.
    """
    states: dict[str, NodeState] = {}
    changed: list[Node] = []
    for node in nodes:
        state = node.state
        if state is NodeState.WAITING:
            state = _opened(node, states)
        if state is NodeState.OPEN and closed and not has_live(node.name):
            state = NodeState.FAILED if node.failed else NodeState.COMPLETED
        states[node.name] = state
        if state is not node.state:
            changed.append(_replace(node, state=state))
    return changed


def _opened(node: Node, states: Mapping[str, NodeState]) -> NodeState:
    """Rule 2."""
    ends = [states[name] for name in node.after]
    if node.when == "succeeded" and not FAILED.isdisjoint(ends):
        return NodeState.PASSED_OVER
    if not OVER.issuperset(ends):
        return NodeState.WAITING
    if node.when == "finished":
        return NodeState.OPEN
    if node.when == "failed":
        return NodeState.SKIPPED if FAILED.isdisjoint(ends) else NodeState.OPEN
    return NodeState.SKIPPED if NodeState.SKIPPED in ends else NodeState.OPEN


def all_over(nodes: Iterable[Node]) -> bool:
    """Return whether every node is over."""
    return all(node.state in OVER for node in nodes)


def is_stopped(node: Node) -> bool:
    """Return whether ``stop_on_failure`` ends this node when another one fails."""
    return node.when == "succeeded"


def why_not_needed(nodes: Mapping[str, Node], node: Node) -> str:
    """Return why a job is cancelled that waits in this node, which is over."""
    if node.state is NodeState.SKIPPED:
        return "not needed"
    if node.state is not NodeState.PASSED_OVER:
        return f"node {node.name} was over when the job was added"
    return f"node {next((name for name in node.after if nodes[name].state in FAILED), node.name)} failed"


def before(nodes: Iterable[Node], name: str) -> list[str]:
    """Return the nodes that come before this one, directly or not, in their order."""
    after = {node.name: node.after for node in nodes}
    found: set[str] = set()
    ahead = list(after.get(name, ()))
    while ahead:
        each = ahead.pop()
        if each not in found:
            found.add(each)
            ahead += after[each]
    return [each for each in after if each in found]


def behind(nodes: Iterable[Node], names: Collection[str]) -> list[str]:
    """Return the nodes that come after one of these, directly or not, in their order."""
    found: set[str] = set(names)
    following: list[str] = []
    for node in nodes:
        if node.name not in found and not found.isdisjoint(node.after):
            found.add(node.name)
            following.append(node.name)
    return following


def reset(nodes: Sequence[Node], names: Collection[str], has_failed: Callable[[str], bool]) -> list[Node]:
    """Return what changes when jobs of these nodes are replayed.  They wait or open anew, by the rules.

    So do those behind them that were passed over or skipped; what has run there stays as it is.  ``has_failed``: whether
    a node still has a discarded or cancelled job.
    """
    following = set(behind(nodes, names))
    changed: list[Node] = []
    for node in nodes:
        again = node.name in names and node.state is not NodeState.OPEN
        if again or (node.name in following and node.state in (NodeState.PASSED_OVER, NodeState.SKIPPED)):
            changed.append(_replace(node, state=NodeState.WAITING, failed=has_failed(node.name)))
        elif node.name in names:
            changed.append(_replace(node, failed=has_failed(node.name)))
    return changed
