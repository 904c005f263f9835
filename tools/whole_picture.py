"""Draw the whole on one page: programs, the store, the supervisor and its worker processes, with lease and renewal.

    python -m tools.whole_picture check    exit 1 and say why, if the picture is not what this file draws
    python -m tools.whole_picture write    draw it

The picture is for the first page and says little; `tools/processes_picture.py` draws threads and messages from the code.
The length of a lease is the default of the settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from onward.config import Settings
from tools.lifecycle import HEAD, STYLE

PICTURE = Path("docs/assets/the-whole.svg")
WIDTH, HEIGHT = 900, 360

_TITLE = "Programs, the store, the supervisor and worker processes"


class Box(NamedTuple):
    """A process or a store: where it stands, its name, and what it does, line by line."""

    x: int
    y: int
    width: int
    height: int
    name: str
    lines: tuple[str, ...]
    kind: str = "live"


class Arrow(NamedTuple):
    """Who asks whom: its path, and where the words stand."""

    path: str
    words: tuple[str, ...]
    x: int
    y: int
    anchor: str = "middle"


BOXES = (
    Box(20, 110, 190, 140, "your program", ("web server, script, shell", "", "checks the arguments,", "seals the job")),
    Box(
        310,
        40,
        200,
        280,
        "store",
        (
            "SQLite, PostgreSQL,",
            "MySQL, MariaDB, Redis",
            "",
            "jobs and dead letters",
            "leases and sessions",
            "schedules and limits",
            "results and series",
        ),
        "finished",
    ),
    Box(690, 40, 190, 110, "supervisor", ("none of your code", "starts, watches and", "replaces processes")),
    Box(
        690,
        210,
        190,
        110,
        "worker processes",
        ("your handlers: threads,", "tasks, or a process of", "their own for each run"),
    ),
)


def arrows(lease: int) -> tuple[Arrow, ...]:
    """The arrows; ``lease``: seconds."""
    return (
        Arrow("M210 165 H304", ("enqueue",), 257, 156),
        Arrow("M310 205 H216", ("result",), 263, 224),
        Arrow("M690 72 H516", (f"renews leases of {lease} s",), 603, 63),
        Arrow("M690 118 H516", ("gives back the jobs", "of dead processes"), 603, 136),
        Arrow("M690 240 H516", ("claims",), 603, 231),
        Arrow("M690 280 H516", ("settles, as long as", "its lease holds"), 603, 298),
        Arrow("M785 150 V204", ("starts, stops",), 794, 183, "start"),
    )


def picture() -> str:
    """The SVG.  The same settings give the same bytes."""
    lease = int(Settings().lease_for)
    words = "; ".join(" ".join(arrow.words) for arrow in arrows(lease))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
        f'<title id="t">{_TITLE}</title>',
        f'<desc id="d">{escape(words)}</desc>',
        f"<style>\n{STYLE}\n</style>",
        f"<defs>{HEAD}</defs>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
    ]
    for box in BOXES:
        lines.extend(_box(box))
    for arrow in arrows(lease):
        lines.extend(_arrow(arrow))
    return "\n".join([*lines, "</svg>\n"])


def _box(box: Box) -> list[str]:
    middle = box.x + box.width // 2
    drawn = [
        f'<rect class="{box.kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="12"/>',
        f'<text class="name" x="{middle}" y="{box.y + 28}">{escape(box.name)}</text>',
    ]
    for number, line in enumerate(box.lines):
        drawn.append(
            f'<text class="label" x="{middle}" y="{box.y + 54 + 19 * number}" text-anchor="middle">{escape(line)}</text>'
        )
    return drawn


def _arrow(arrow: Arrow) -> list[str]:
    drawn = [f'<path class="arrow" d="{arrow.path}" marker-end="url(#head)"/>']
    for number, line in enumerate(arrow.words):
        place = f'x="{arrow.x}" y="{arrow.y + 16 * number}" text-anchor="{arrow.anchor}"'
        drawn.append(f'<text class="note" {place}>{escape(line)}</text>')
    return drawn


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.whole_picture", description="Check or draw the whole.")
    parser.add_argument("command", choices=["check", "write"])
    path = root / PICTURE
    if parser.parse_args(arguments).command == "write":
        path.write_text(picture(), encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != picture():
        print(f"{PICTURE}: out of date, run `python -m tools.whole_picture write`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
