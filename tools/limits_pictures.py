"""Draw what limits, rates, turns and breakers do, by running them on a clock that is moved.

    python -m tools.limits_pictures check    exit 1 if the pictures of docs/limits.md are out of date
    python -m tools.limits_pictures write    draw them anew

Each picture stands between two comments of the page, ``<!-- picture: running -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import logging
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from onward import Breaker, Fixed, Limit, Onward
from onward.backend import Claim, Lease
from onward.testing import FakeClock

PAGE = Path("docs/limits.md")
_PICTURE = re.compile(r"(<!-- picture: (?P<name>[\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_LABEL = 24


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.limits_pictures", description="Draw limits.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command
    logging.getLogger("onward").addHandler(logging.NullHandler())  # the runs of one picture fail
    page = (root / PAGE).read_text(encoding="utf-8")
    current = _PICTURE.sub(lambda found: f"{found[1]}\n```text\n{PICTURES[found['name']]()}\n```\n\n{found[4]}", page)
    if command == "write":
        (root / PAGE).write_text(current, encoding="utf-8")
    elif page != current:
        print(f"{PAGE}: its pictures are out of date, run `python -m tools.limits_pictures write`", file=sys.stderr)
        return 1
    return 0


def running() -> str:
    """Five jobs are enqueued at once; two may run."""
    lasts = [9, 5, 12, 6, 8]
    began, ended = _spans(Limit(running=2), [("", seconds) for seconds in lasts])
    return "\n".join(_bar(f"job {number + 1}", began[number], ended[number]) for number in range(len(lasts)))


def by_key() -> str:
    """Two tenants enqueue three jobs each; one of each may run."""
    calls = [("acme", 8), ("acme", 5), ("acme", 7), ("zoo", 4), ("zoo", 6), ("zoo", 3)]
    began, ended = _spans(Limit(running=1, by="tenant"), calls)
    return "\n".join(_bar(tenant, began[number], ended[number]) for number, (tenant, _) in enumerate(calls))


def rate() -> str:
    """Nine jobs are enqueued at once; three may start in a minute."""
    lines = [_row("", lambda second: "┃" if second % 60 == 0 else " ", 190, 5) + "  a minute each"]
    for burst, label in ((None, "rate='3/min'"), (1, "rate='3/min', burst=1")):
        starts = _starts(Limit(rate="3/min", burst=burst), 9)
        lines.append(_row(label, lambda second, starts=starts: _mark(starts[second]), 190, 5))  # type: ignore[misc]
    return "\n".join(lines)


def turns() -> str:
    """A big tenant enqueues thirty jobs, then a small one four."""
    lines = []
    for label, fair_by in (("as enqueued", None), ('fair_by="tenant"', "tenant")):
        order = _order(fair_by)
        for name, tenant in ((label, "big"), ("", "small")):
            starts = "".join("●" if each == tenant else " " for each in order)
            lines.append(f"{name:<18}{tenant:<{_LABEL - 18}}{starts}".rstrip())
    return "\n".join(lines)


def breaker() -> str:
    """The other side is away for five minutes; every ten seconds a job is enqueued."""
    length, step, away = 540, 10, range(60, 360)
    succeeded, failed, shut = Counter[int](), Counter[int](), set[int]()
    clock, now = FakeClock(), 0
    with Onward("memory://", clock=clock) as jobs:

        @jobs.job(breaker=Breaker(failures=3, of=5, pause=30, longest=120), max_retries=99, retry=Fixed(10))
        def charge() -> None:
            (failed if now in away else succeeded).update([now])
            if now in away:
                raise ConnectionError

        for now in range(0, length, step):
            charge.enqueue()
            jobs.drain()
            shut |= {now} if any(limit.is_shut for limit in jobs.limits.list()) else set()
            clock.advance(step)
    rows: list[tuple[str, Callable[[int], str]]] = [
        ("the other side", lambda second: " " if second in away else "─"),
        ("runs that fail", lambda second: _mark(failed[second])),
        ("the job is shut", lambda second: "░" if second in shut else " "),
        ("runs that succeed", lambda second: _mark(succeeded[second])),
    ]
    return "\n".join(_row(label, mark, length, step) for label, mark in rows)


PICTURES: dict[str, Callable[[], str]] = {
    "running": running,
    "by-key": by_key,
    "rate": rate,
    "turns": turns,
    "breaker": breaker,
}


def _row(label: str, mark: Callable[[int], str], length: int, step: int) -> str:
    return f"{label:<{_LABEL}}{''.join(mark(second) for second in range(0, length, step))}".rstrip()


def _bar(label: str, began: int, ended: int) -> str:
    return _row(label, lambda second: "·" if second < began else "█" if second < ended else " ", ended, 1)


def _mark(runs: int) -> str:
    return " " if not runs else "●" if runs == 1 else str(runs) if runs < 10 else "+"


def _spans(limit: Limit, calls: Sequence[tuple[str, int]]) -> tuple[dict[int, int], dict[int, int]]:
    """Return when each call began and ended.  All are enqueued at once; a worker elsewhere could run ten."""
    random.seed(1)  # whose turn is first
    clock, began, ended = FakeClock(), dict[int, int](), dict[int, int]()
    with Onward("memory://", clock=clock) as jobs:

        @jobs.job(limit=limit)
        def work(tenant: str, number: int) -> None: ...

        handles = work.enqueue_many([(tenant, number) for number, (tenant, _) in enumerate(calls)])
        numbers = {handle.id: number for number, handle in enumerate(handles)}
        jobs.drain("none")  # declares the limit
        held: list[tuple[int, Lease]] = []
        claim = Claim(queues=("default",), limit=10, owner="elsewhere", lease_for=timedelta(hours=1))
        for second in range(1000):
            for end, lease in list(held):
                if end == second:
                    jobs.backend.ack(lease)
                    held.remove((end, lease))
            for lease in jobs.backend.claim(claim):
                number = numbers[lease.envelope.id]
                began[number], ended[number] = second, second + calls[number][1]
                held.append((ended[number], lease))
            if not held:
                break
            clock.advance(1)
    return began, ended


def _starts(limit: Limit, count: int) -> Counter[int]:
    """Return how many jobs start at which second."""
    clock, starts, now = FakeClock(), Counter[int](), 0
    with Onward("memory://", clock=clock) as jobs:
        call: Any = jobs.job(name="call", limit=limit)(lambda: starts.update([now]))
        call.enqueue_many([()] * count)
        for now in range(0, 600, 5):  # noqa: B007  the job reads it
            jobs.drain()
            clock.advance(5)
    return starts


def _order(fair_by: str | None) -> list[str]:
    """Return whose jobs start, in their order."""
    random.seed(1)
    order: list[str] = []
    with Onward("memory://", fair_by=fair_by) as jobs:

        @jobs.job
        def render(tenant: str) -> None:
            order.append(tenant)

        render.enqueue_many([("big",)] * 30)
        render.enqueue_many([("small",)] * 4)
        jobs.drain()
    return order


if __name__ == "__main__":
    sys.exit(main())
