"""Storing members of flows, the part that all dialects share: the flows that come with them, and what becomes of each.

The statements, by name: ``store_flow(flow, named, stop_on_failure, closed)`` returns the id if there was no such flow;
``store_nodes(flow, nodes)`` takes ``[[name, after, when, state], …]``; ``node_states(places)`` returns, for
``[[flow, node], …]``, (flow, node, state, whether the flow was stopped or cancelled); ``count_added(added)`` takes
``[[flow, node, number], …]``, and where rows are versioned it only inserts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from onward.backend import Enqueued
from onward.backends.sql.flow_rows import as_json
from onward.backends.sql.flows import Touched
from onward.backends.sql.statements import NamedSteps, ask
from onward.flow.graph import NodeState, planned
from onward.job.envelope import Envelope

__all__ = ["PLAIN", "NodePlace", "Standing", "count_added", "leave_to_completed", "place_of", "store_flows"]


class NodePlace(NamedTuple):
    """A node to which jobs are added."""

    flow: str
    node: str


class Standing(NamedTuple):
    """What becomes of a job that is added there."""

    waits: bool = False
    ends: bool = False  # what is added is to be cancelled


PLAIN = Standing()  # a member whose flow is not there is a plain job


def place_of(envelope: Envelope) -> NodePlace:
    return NodePlace(envelope.flow or "", envelope.node or "")


def store_flows(envelopes: Sequence[Envelope], touched: Touched) -> NamedSteps[dict[NodePlace, Standing]]:
    """Store the flows that come with these members, unless they are there; return how each node stands."""
    for envelope in envelopes:
        if envelope.plan is not None:
            yield from _store_flow(envelope, envelopes, touched)
    places = sorted({place_of(envelope) for envelope in envelopes})
    found: dict[NodePlace, Standing] = {}
    for flow, node, state, ends in (yield from ask("node_states", places=as_json(places))):
        waits = state != NodeState.OPEN
        found[NodePlace(flow, node)] = Standing(waits=waits, ends=bool(ends) or (waits and state != NodeState.WAITING))
    return found


def _store_flow(first: Envelope, envelopes: Iterable[Envelope], touched: Touched) -> NamedSteps[None]:
    plan, flow_id = first.plan, first.flow
    assert plan is not None
    assert flow_id is not None
    about = {"named": plan.name, "stop_on_failure": plan.stop_on_failure, "closed": plan.closed}
    if not (yield from ask("store_flow", flow=flow_id, **about)):
        return
    nodes = planned(plan.nodes)
    rows = ((node.name, node.after, node.when, node.state.value) for node in nodes)
    yield from ask("store_nodes", flow=flow_id, nodes=as_json(rows))
    filled = {envelope.node for envelope in envelopes if envelope.flow == flow_id}
    if plan.closed and any(node.state is NodeState.OPEN and node.name not in filled for node in nodes):
        touched.add((flow_id, None))  # a node without jobs is over as soon as it is open


def count_added(
    envelopes: Sequence[Envelope], answers: Sequence[Enqueued], standing: dict[NodePlace, Standing], touched: Touched
) -> NamedSteps[None]:
    """Count what was added to each node, and have what is not wanted any more cancelled."""
    places = (place_of(each) for each, answer in zip(envelopes, answers, strict=True) if answer.created)
    added = Counter(place for place in places if place in standing)
    if added:
        yield from ask("count_added", added=as_json((*place, number) for place, number in sorted(added.items())))
    touched.update((place.flow, None) for place in added if standing[place].ends)


def leave_to_completed(tx: Any) -> None:
    """Leave the flows of a job that its handler has completed in a caller's transaction to `completed`, which looks.

    Until the caller commits, every turn that ends a job of these flows would wait for their locks.  If the process dies
    before it looks, the net does: that none was added, by this transaction, tells it that no process was at fault.
    """
    places = sorted((flow, node or "") for flow, node in tx.touched)
    tx.touched = set()
    tx.ask("count_added", added=as_json((flow, node, 0) for flow, node in places))
