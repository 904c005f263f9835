"""Draw what catching up and overlapping mean, by running it on a clock that is moved.

    python -m tools.schedules_picture check    exit 1 if the pictures of docs/schedules.md are out of date
    python -m tools.schedules_picture write    draw them anew

Each picture stands between two comments of the page, ``<!-- picture: catch-up -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from onward import Onward
from onward.backend import Claim
from onward.testing import FakeClock

PAGE = Path("docs/schedules.md")
_PICTURE = re.compile(r"(<!-- picture: (?P<name>[\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.schedules_picture", description="Draw schedules.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command
    page = (root / PAGE).read_text(encoding="utf-8")
    current = _PICTURE.sub(lambda found: f"{found[1]}\n```text\n{PICTURES[found['name']]()}\n```\n\n{found[4]}", page)
    if command == "write":
        (root / PAGE).write_text(current, encoding="utf-8")
    elif page != current:
        print(f"{PAGE}: its pictures are out of date, run `python -m tools.schedules_picture write`", file=sys.stderr)
        return 1
    return 0


def catch_up() -> str:
    """No worker is there for five periods of ten minutes."""
    time = _Time(period=600, step=100, length=5400)
    away = range(900, 4000)
    lines = [time.row("ticks", time.axis), time.row("worker", lambda second: " " if second in away else "─")]
    for policy in ("skip", "once", 3):
        ran = _ran(time, {"catch_up": policy}, away=away)
        lines.append(time.row(f"catch_up={policy!r}", lambda second, ran=ran: _mark(ran[second])))  # type: ignore[misc]
    return "\n".join(lines)


def overlap() -> str:
    """The run of the first tick takes two and a half periods of a minute."""
    time = _Time(period=60, step=10, length=420)
    lines = [time.row("ticks", time.axis), time.row("first run", lambda second: "█" if 60 <= second < 210 else " ")]
    for policy in ("queue", "skip", "cancel", "allow"):
        ran = _ran(time, {"overlap": policy}, first_ends=210)
        lines.append(time.row(f"overlap={policy!r}", lambda second, ran=ran: _mark(ran[second])))  # type: ignore[misc]
    return "\n".join(lines)


PICTURES: dict[str, Callable[[], str]] = {"catch-up": catch_up, "overlap": overlap}


class _Time(NamedTuple):
    """What a line shows, in seconds."""

    period: int
    step: int
    length: int

    def axis(self, second: int) -> str:
        return "┃" if second % self.period == 0 and second else " "

    def row(self, label: str, mark: Callable[[int], str]) -> str:
        return f"{label:<18}{''.join(mark(second) for second in range(0, self.length, self.step))}".rstrip()


def _mark(runs: int) -> str:
    return " " if not runs else "●" if runs == 1 else str(runs)


def _ran(time: _Time, policy: dict[str, object], *, away: range = range(0), first_ends: int = 0) -> Counter[int]:
    """Return how often a schedule has run at which second; its first run may be held elsewhere for a while."""
    clock, ran, now, held = FakeClock(), Counter[int](), 0, None
    with Onward("memory://", clock=clock) as jobs:
        tick = jobs.job(name="tick")(lambda: ran.update([now]))
        jobs.schedules.create("s", f"@every {time.period}s", tick.call(), **policy)  # type: ignore[arg-type]
        for now in range(0, time.length, time.step):
            if first_ends and now == time.period:
                claim = Claim(queues=("default",), owner="elsewhere", lease_for=timedelta(hours=1))
                (held,) = jobs.backend.claim(claim)
            if held is not None and now == first_ends:
                jobs.backend.ack(held)
            if now not in away:
                jobs.drain()
            clock.advance(time.step)
    return ran


if __name__ == "__main__":
    sys.exit(main())
