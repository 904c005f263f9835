"""From rows to flows: `flows_among` and `nodes_of` have the same columns, in the same order, in every dialect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from onward.backend import FlowRow
from onward.contract.transactions import Rows
from onward.errors import BackendRefused
from onward.flow.graph import Node, NodeState

__all__ = ["as_json", "flow_row", "nodes_by_flow", "readable_flows"]

_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_encode = msgspec.json.Encoder().encode


def as_json(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as one parameter."""
    return _encode(list(rows)).decode()


def readable_flows(flows: Rows, nodes: Rows) -> tuple[list[FlowRow], list[BackendRefused]]:
    """Return flows from their rows and those of their nodes, and why others cannot be read: no worker wrote them."""
    by_flow = nodes_by_flow(nodes)
    found: list[FlowRow] = []
    refused: list[BackendRefused] = []
    for row in flows:
        try:
            found.append(flow_row(row, by_flow[row[0]]))
        except BackendRefused as error:
            refused.append(error)
    return found, refused


def nodes_by_flow(nodes: Rows) -> defaultdict[str, list[Sequence[Any]]]:
    """Return rows of nodes in their order, by the flow that they begin with."""
    by_flow: defaultdict[str, list[Sequence[Any]]] = defaultdict(list)
    for row in sorted(nodes, key=itemgetter(1)):
        by_flow[row[0]].append(row)
    return by_flow


def _node(row: Sequence[Any]) -> Node:
    flow, _, name, after, when, state, failed, total = row
    try:
        return Node(
            name=name,
            after=_decode_names(after),
            when=when,
            state=NodeState(state),
            failed=bool(failed),
            total=int(total),
        )
    except ValueError as error:
        raise BackendRefused(f"node {name} of flow {flow} has a row that no worker writes: {error}") from error


def flow_row(row: Sequence[Any], rows: Iterable[Sequence[Any]]) -> FlowRow:
    """Return a flow; raise `BackendRefused` if no worker wrote its nodes."""
    nodes = [_node(each) for each in rows]
    flow_id, name, created_at, stop_on_failure, closed, stopped, cancelled, over_at = row
    known: set[str] = set()
    for node in nodes:
        if not known.issuperset(node.after):
            names = ", ".join(node.after)
            raise BackendRefused(f"node {node.name} of flow {flow_id} comes after {names:.100}, which no worker writes")
        known.add(node.name)
    return FlowRow(
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
