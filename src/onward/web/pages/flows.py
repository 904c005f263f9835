"""Flows: a list, and one as a picture whose layout is computed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from onward.backend import COUNTED
from onward.base.wording import BY_REQUEST, counted
from onward.client.flow_handle import FlowRecord, NodeRecord
from onward.flow.graph import OVER
from onward.flow.layout import BoxPlace, GraphNode, collapsed, critical_path, line_between, places, size_of
from onward.job.states import State
from onward.web.act_answers import DoneAnswer
from onward.web.answers import StateCount
from onward.web.asking import WebCall
from onward.web.failures import Refused
from onward.web.page_answers import ArrowView, BoxView, FlowAnswer, FlowsAnswer, FlowView, GraphView
from onward.web.views import audit_view

__all__ = ["cancel", "flow", "flows", "graph_of", "retry"]

_WHENS = {"succeeded": "", "failed": "if one failed", "finished": "either way"}
_ENTRIES = 20


def flows(asked: WebCall) -> FlowsAnswer:
    query = asked.query
    found = asked.jobs.flows.list(name=query.name, running=query.running, after=query.after, limit=query.limit)
    return FlowsAnswer(
        at=datetime.now(UTC),
        flows=[_view(record) for record in found],
        next=found[-1].id if len(found) == query.limit else None,
    )


def flow(asked: WebCall) -> FlowAnswer:
    handle = asked.jobs.flows.get(asked.parameters["id"])
    entries = asked.jobs.audit(ref=handle.id, limit=_ENTRIES) if asked.can("audit") else ()
    return FlowAnswer(
        at=datetime.now(UTC),
        flow=_view(handle.record()),
        progress=handle.progress(),
        graph=graph_of(handle.id, handle.nodes()),
        audit=[audit_view(entry) for entry in entries],
    )


def cancel(asked: WebCall) -> DoneAnswer:
    handle = asked.jobs.flows.get(asked.parameters["id"])
    if not handle.cancel(asked.body.reason or BY_REQUEST, by=asked.who):
        raise Refused(409, "conflict", f"the flow is over: it is {handle.state()}")
    asked.changed()
    return DoneAnswer(done=True, text="cancelled: nothing of it starts any more, and what runs is asked to stop")


def retry(asked: WebCall) -> DoneAnswer:
    handle = asked.jobs.flows.get(asked.parameters["id"])
    replayed = handle.retry(by=asked.who, reason=asked.body.reason)
    asked.changed()
    return DoneAnswer(done=bool(replayed), text=f"{counted(replayed, 'job')} replayed")


def graph_of(flow_id: str, nodes: Sequence[NodeRecord]) -> GraphView:
    """Return the graph of a flow with its layout; one of very many nodes collapsed."""
    by_name = {node.name: node for node in nodes}
    given = [
        GraphNode(node.name, tuple(node.after), f"{node.state} {node.when}", is_over=node.state in OVER)
        for node in nodes
    ]
    drawn, members = collapsed(given)
    laid, critical = places(drawn), critical_path(drawn)
    on_path = set(critical)
    steps = set(pairwise(critical))
    width, height = size_of(laid.values())
    boxes = []
    for node in drawn:
        stands_for = [by_name[name] for name in members[node.name]]
        first, counts = stands_for[0], _counts(stands_for)
        boxes.append(
            BoxView(
                id=node.name,
                label=node.name,
                **laid[node.name]._asdict(),
                state=first.state.value,
                when=_WHENS[first.when],
                total=sum(each.total for each in stands_for),
                counts=counts,
                text=_jobs(sum(each.total for each in stands_for), counts),
                after=list(node.after),
                critical=node.name in on_path,
                nodes=len(stands_for),
                filter=f'flow:{flow_id} node:"{first.name}"' if len(stands_for) == 1 else "",
            )
        )
    arrows = [
        ArrowView(
            start=each,
            end=node.name,
            points=_line(laid, each, node.name),
            critical=(each, node.name) in steps,
        )
        for node in drawn
        for each in node.after
    ]
    return GraphView(
        width=width,
        height=height,
        boxes=boxes,
        arrows=arrows,
        collapsed=len(drawn) < len(nodes),
        summary=_summary(nodes),
    )


def _line(laid: Mapping[str, BoxPlace], start: str, end: str) -> list[tuple[float, float]]:
    return line_between(laid[start], laid[end])


def _view(record: FlowRecord) -> FlowView:
    return FlowView(
        id=record.id,
        name=record.name,
        state=record.state,
        nodes=record.nodes,
        jobs=record.jobs,
        created_at=record.created_at,
        over_at=record.over_at,
        stop_on_failure=record.stop_on_failure,
        is_open=record.is_open,
    )


def _counts(nodes: Sequence[NodeRecord]) -> list[StateCount]:
    total: Counter[State] = Counter()
    cut: set[State] = set()
    for node in nodes:
        total.update(node.counts)
        cut |= {state for state, number in node.counts.items() if number >= COUNTED}
    return [StateCount(state=str(state), count=total[state], or_more=state in cut) for state in State if total[state]]


def _jobs(total: int, counts: Sequence[StateCount]) -> str:
    told = [f"{each.count:,}{'+' if each.or_more else ''} {each.state}" for each in counts]
    return "no jobs" if not total else ", ".join(told) or counted(total, "job")


def _summary(nodes: Sequence[NodeRecord]) -> str:
    states: Mapping[str, int] = Counter(node.state.value.replace("_", " ") for node in nodes)
    return f"{counted(len(nodes), 'node')}: {', '.join(f'{count:,} {state}' for state, count in states.items())}."
