"""Draw flows as they end, by running them.

    python -m tools.flows_picture check    exit 1 if the pictures of docs/flows.md are out of date
    python -m tools.flows_picture write    draw them anew

Each picture stands between two comments of the page, ``<!-- picture: publish -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from onward import JobContext, Onward
from onward.backend import FlowState
from onward.cli.graph_picture import draw
from onward.client.flow_builder import FlowBuilder
from onward.client.flow_handle import NodeRecord

PAGE = Path("docs/flows.md")
_PICTURE = re.compile(r"(<!-- picture: (?P<name>[\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_SYMBOLS = {"completed": "●", "failed": "✗", "passed_over": "⊘", "skipped": "·"}
_WORDS = {"completed": "", "failed": "failed", "passed_over": "passed over", "skipped": "not needed"}


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.flows_picture", description="Draw flows.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command
    logging.getLogger("onward").addHandler(logging.NullHandler())  # jobs of some pictures fail
    page = (root / PAGE).read_text(encoding="utf-8")
    current = _PICTURE.sub(lambda found: f"{found[1]}\n```text\n{picture(found['name'])}\n```\n\n{found[4]}", page)
    if command == "write":
        (root / PAGE).write_text(current, encoding="utf-8")
    elif page != current:
        print(f"{PAGE}: its pictures are out of date, run `python -m tools.flows_picture write`", file=sys.stderr)
        return 1
    return 0


def picture(name: str) -> str:
    """Run a flow, and draw what became of it."""
    _, nodes = ran(name)
    lines = draw([(node.name, node.after) for node in nodes])
    told = []
    for line, node in zip(lines, nodes, strict=True):
        when = "" if node.when == "succeeded" else f'when="{node.when}"'
        size = "" if node.total == 1 else f"{node.total} jobs"
        words = ", ".join(filter(None, (size, when, _WORDS[node.state])))
        told.append((f"{line.rails}{_SYMBOLS[node.state]} {line.name}", words))
    width = max(len(drawn) for drawn, _ in told) + 3
    return "\n".join(f"{drawn:<{width}}{words}".rstrip() for drawn, words in told)


def ran(name: str) -> tuple[FlowState, Sequence[NodeRecord]]:
    """Run a flow to its end."""
    with Onward("memory://", default_max_retries=0) as jobs:
        handle = FLOWS[name](jobs).enqueue()
        jobs.drain()
        return handle.state(), handle.nodes()


def _functions() -> tuple[Callable[..., object], Callable[..., object]]:
    def works() -> int:
        return 1

    def breaks() -> None:
        raise ValueError("no")

    return works, breaks


def publish(jobs: Onward) -> FlowBuilder:
    """Fan out, and join."""
    works, _ = _functions()
    fetch, resize, announce = (jobs.job(name=name)(works) for name in ("fetch", "resize", "announce"))
    flow = jobs.flow("publish")
    flow.add(announce, after=flow.map(resize, [()] * 3, after=flow.add(fetch)))
    return flow


def branches(jobs: Onward) -> FlowBuilder:
    """One job fails."""
    works, breaks = _functions()
    names = ("announce", "alert", "tidy", "apologize")
    announce, alert, tidy, apologize = (jobs.job(name=name)(works) for name in names)
    flow = jobs.flow("branches")
    charge = flow.add(jobs.job(name="charge")(breaks))
    told = flow.add(announce, after=charge)
    alarm = flow.add(alert, after=charge, when="failed")
    flow.add(tidy, after=[told, alarm], when="finished")
    flow.add(apologize, after=alarm, when="failed")
    return flow


def growing(jobs: Onward) -> FlowBuilder:
    """A job decides how many come after it."""
    works, _ = _functions()
    resize, announce = (jobs.job(name=name)(works) for name in ("resize", "announce"))

    @jobs.job
    def split(ctx: JobContext) -> None:
        ctx.flow.map(resize, [()] * 5, node="resize")

    flow = jobs.flow("growing")
    flow.add(announce, after=flow.node("resize", after=flow.add(split)))
    return flow


FLOWS: dict[str, Callable[[Onward], FlowBuilder]] = {"publish": publish, "branches": branches, "growing": growing}

if __name__ == "__main__":
    sys.exit(main())
