"""``onward flow``: looking at flows, with a picture of their nodes; cancelling and retrying them."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

from onward.cli import output, values
from onward.cli.acting import ACTING, acting, who_acts
from onward.cli.application import on_store
from onward.cli.command import Command, Group, argument
from onward.cli.exits import Exit
from onward.cli.graph_picture import Drawn, draw
from onward.cli.table import Column, StyledLine, clipped
from onward.cli.times import ago, stamp

if TYPE_CHECKING:
    from onward.app import Onward
    from onward.client.flow_handle import FlowRecord, NodeRecord

__all__ = ["GROUP"]

_STYLES = {"running": "bold cyan", "completed": "green", "failed": "red", "cancelled": "magenta"}
_SYMBOLS = {
    "waiting": ("○", "blue"),
    "open": ("◐", "bold cyan"),
    "completed": ("●", "green"),
    "failed": ("✗", "red"),
    "passed_over": ("⊘", "red"),
    "skipped": ("·", "dim"),
}
_WIDEST = 60  # of the rails: deeper graphs are listed
_WHENS = {"succeeded": "", "failed": "if one failed", "finished": "either way"}


def list_flows(app: Onward, args: Namespace) -> int:
    """Print flows, the newest first."""
    flows = app.flows.list(name=args.name, running=args.live, limit=args.limit)
    output.listing(args, [flows], _COLUMNS, _as_data)
    if not flows:
        output.say(args, "no flows: jobs.flow(…), jobs.chain(…) and jobs.batch(…) make them")
    return Exit.OK


def show(app: Onward, args: Namespace) -> int:
    """Print one flow, and draw its nodes."""
    handle = app.flows.get(args.id)
    record, nodes = handle.record(), handle.nodes()
    if args.json:
        output.json_line({**_as_data(record), "graph": [_node_data(node) for node in nodes]})
        return Exit.OK
    state = [(record.state, _STYLES[record.state])]
    output.write([(f"{record.name} ", "bold"), *state, (f"  {record.id}", "dim")])
    output.write([(f"begun {stamp(record.created_at)} ({ago(record.created_at)})", "dim"), (_over(record), "dim")])
    output.write([(f"{handle.progress():.0%} of {record.jobs:,} jobs are over", "")])
    output.write("")
    lines = draw([(node.name, node.after) for node in nodes])
    drawn = max(len(line.rails) for line in lines) <= _WIDEST
    if not drawn:
        lines = [Drawn("", line.name) for line in lines]
    width = max(len(line.rails) + len(line.name) for line in lines) + 4
    for line, node in zip(lines, nodes, strict=True):
        symbol, style = _SYMBOLS[node.state]
        gap = " " * (width - len(line.rails) - len(line.name) - 2)
        after = "" if drawn or not node.after else f"after {', '.join(node.after)}"
        words = [node.state.replace("_", " "), _jobs(node), _WHENS[node.when], after]
        drawn_line = [(line.rails, "dim"), (symbol, style), (f" {line.name}{gap}", "")]
        output.write(_fitted([*drawn_line, ("  ".join(filter(None, words)), "dim")]))
    return Exit.OK


def cancel(app: Onward, args: Namespace) -> int:
    """Cancel flows."""
    for flow_id in args.ids:
        changed = app.flows.get(flow_id).cancel(args.reason or "cancelled by request", by=who_acts(args))
        _told(args, flow_id, {"cancelled": changed}, "cancelled" if changed else "was over already")
    return Exit.OK


def retry(app: Onward, args: Namespace) -> int:
    """Replay what did not complete in flows."""
    for flow_id in args.ids:
        replayed = app.flows.get(flow_id).retry(**acting(args))
        _told(args, flow_id, {"replayed": replayed}, f"{replayed:,} jobs replayed")
    return Exit.OK


def _fitted(line: StyledLine) -> StyledLine:
    columns = output.width()
    return line if columns is None else clipped(line, columns)


def _told(args: Namespace, flow_id: str, data: dict[str, Any], words: str) -> None:
    if args.json:
        output.json_line({"flow": flow_id, **data})
    else:
        output.write(f"{flow_id} {words}")


def _over(record: FlowRecord) -> str:
    return "" if record.over_at is None else f", over {stamp(record.over_at)} ({ago(record.over_at)})"


def _jobs(node: NodeRecord) -> str:
    counts = [f"{number:,} {state.value}" for state, number in sorted(node.counts.items()) if number]
    return "no jobs" if not node.total else ", ".join(counts) or f"{node.total:,} jobs"


def _node_data(node: NodeRecord) -> dict[str, Any]:
    return {
        "name": node.name,
        "state": node.state.value,
        "after": list(node.after),
        "when": node.when,
        "total": node.total,
        "counts": {state.value: number for state, number in node.counts.items()},
    }


def _as_data(record: FlowRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in _SHOWN}


_SHOWN = ("id", "name", "state", "nodes", "jobs", "created_at", "over_at", "stop_on_failure", "is_open")
_COLUMNS: tuple[Column[FlowRecord], ...] = (
    Column("ID", lambda flow: flow.id),
    Column("FLOW", lambda flow: flow.name, flexible=True),
    Column("STATE", lambda flow: flow.state, style=lambda flow: _STYLES[flow.state]),
    Column("NODES", lambda flow: f"{flow.nodes:,}", right=True, useful=True),
    Column("JOBS", lambda flow: f"{flow.jobs:,}", right=True),
    Column("BEGUN", lambda flow: ago(flow.created_at)),
    Column("OVER", lambda flow: "" if flow.over_at is None else ago(flow.over_at), useful=True),
)

_IDS = argument("ids", "a flow", metavar="ID", nargs="+")

GROUP = Group(
    "flow",
    "look at workflows and batches, cancel and retry them",
    (
        Command(
            "list",
            "list flows, the newest first",
            on_store(list_flows),
            (
                argument("--name", "only flows of this name", metavar="NAME"),
                argument("--live", "only those that are not over", action="store_true"),
                argument("--limit", "how many (100)", metavar="N", type=values.count, default=100),
            ),
        ),
        Command("show", "show one flow, and draw its nodes", on_store(show), (argument("id", "a flow", metavar="ID"),)),
        Command(
            "cancel",
            "cancel flows: nothing of them starts any more, and what runs is asked to stop",
            on_store(cancel),
            (_IDS, *ACTING),
        ),
        Command(
            "retry",
            "replay the discarded and cancelled jobs of flows",
            on_store(retry),
            (_IDS, *ACTING),
            about="Completed jobs are not run again; what comes after opens as ever.",
        ),
    ),
)
