"""Draw the life of a job from the one table that says what it is, `onward.job.states.MOVES`.

    python -m tools.lifecycle check    exit 1 and say why, if picture or page are not what the table says
    python -m tools.lifecycle write    bring both up to date

Where a state stands and how an arrow bends is drawn by hand below; which arrows there are, and their names, comes from the
table.  An arrow of the table that is not drawn, a drawn one that the table does not have, and a move without a
sentence are complaints: the picture can be out of date, but it cannot be wrong in silence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from onward.job.states import FINISHED, LIVE, MOVES, WAITING, Move, State

PICTURE = Path("docs/assets/life-of-a-job.svg")
PAGE = Path("docs/life-of-a-job.md")
BEGIN = "<!-- arrows: written by `python -m tools.lifecycle write` -->"
END = "<!-- /arrows -->"

WIDTH, HEIGHT = 980, 520
_BOX = (140, 44)


class Place(NamedTuple):
    """The middle of a state's box."""

    x: int
    y: int


class Arrow(NamedTuple):
    """How one arrow runs, and where its label stands."""

    path: str
    x: int
    y: int
    anchor: str = "middle"


Sources = frozenset[State | None]
Ends = tuple[Sources, State]

PLACES = {
    State.SCHEDULED: Place(290, 90),
    State.AVAILABLE: Place(290, 230),
    State.RETRYABLE: Place(290, 370),
    State.EXECUTING: Place(580, 230),
    State.COMPLETED: Place(860, 90),
    State.DISCARDED: Place(860, 230),
    State.CANCELLED: Place(860, 370),
}

_NEW: Sources = frozenset({None})
_RUNNING: Sources = frozenset({State.EXECUTING})

# A move from several states is drawn once per state, but for those that every waiting job can make: they leave the frame
# around the waiting states.
ARROWS: dict[Ends, Arrow] = {
    (_NEW, State.SCHEDULED): Arrow("M44 152 C90 112 150 90 214 90", 118, 92, "end"),
    (_NEW, State.AVAILABLE): Arrow("M44 168 C90 204 150 222 214 226", 118, 218, "end"),
    (frozenset({State.SCHEDULED}), State.AVAILABLE): Arrow("M290 112 V202", 300, 164, "start"),
    (frozenset({State.RETRYABLE}), State.AVAILABLE): Arrow("M290 348 V258", 300, 308, "start"),
    (frozenset({State.AVAILABLE}), State.EXECUTING): Arrow("M360 222 H504", 456, 214),
    (_RUNNING, State.AVAILABLE): Arrow("M510 238 H366", 456, 256),
    (_RUNNING, State.SCHEDULED): Arrow("M560 208 C545 130 470 90 366 90", 536, 116, "start"),
    (_RUNNING, State.RETRYABLE): Arrow("M560 252 C545 330 470 370 366 370", 536, 348, "start"),
    (_RUNNING, State.COMPLETED): Arrow("M620 208 C650 130 710 90 784 90", 690, 160, "start"),
    (_RUNNING, State.DISCARDED): Arrow("M650 230 H784", 718, 206),
    (_RUNNING, State.CANCELLED): Arrow("M620 252 C650 330 710 362 784 362", 690, 306, "start"),
    (frozenset(WAITING), State.CANCELLED): Arrow("M400 412 C540 440 740 440 838 396", 620, 446),
    (frozenset({State.DISCARDED}), State.AVAILABLE): Arrow(
        "M930 230 H942 Q956 230 956 244 V476 Q956 490 942 490 H154 Q140 490 140 476 V248 Q140 234 154 234 H214",
        580,
        482,
    ),
    (frozenset({State.CANCELLED}), State.AVAILABLE): Arrow("M930 370 H956", 0, 0),
}
# It joins the other replay, which has the head and the label.
_NO_HEAD = {(frozenset({State.CANCELLED}), State.AVAILABLE)}

MEANINGS = {
    "enqueue": "A job that is due at once is stored.",
    "enqueue_later": "A job with a delay or a start time in the future is stored.",
    "due": "Its time has come. Every turn promotes what is due before it claims.",
    "claim": "A worker takes it, with the next delivery number as its fencing token.",
    "ack": "The handler succeeded.",
    "skip": "It need not run: a job with its idempotency key has succeeded.",
    "nack": "The handler failed and the budget allows another run, after a delay.",
    "snooze": "The handler asked to come back later, or another job holds its key.",
    "park": "No handler here has its name, or a newer Onward sealed it.",
    "release": "Given back unharmed: its code does not run.",
    "abandon": "It failed for good, or must not run: it is a dead letter now.",
    "cancelled": "The run was asked to stop, or the job expired before its handler was called.",
    "crashed": "It ran in a process of its own, which died: a crash.",
    "reap_started": "Its session died while it ran: a crash.",
    "reap_poison": "The same, for the last time: `max_crashes` is reached.",
    "reap_unstarted": "Its session ended before it had begun: an interruption.",
    "reap_cancelled": "Its session died, and it had been asked to cancel.",
    "cancel": "A person or a program cancelled it while it waited, or a job with its unique key replaced it.",
    "expire": "Its expiry came before a worker did.",
    "retry": "It is wanted now: `jobs.retry(id)`.",
    "replay": "It is put back in its queue: `jobs.dead_letters.replay()`, `jobs.retry(id)`.",
}

STYLE = """\
  svg { font: 14px ui-sans-serif, system-ui, sans-serif }
  .paper { fill: #ffffff }
  .frame { fill: none; stroke: #9aa1ac; stroke-dasharray: 5 5 }
  .live { fill: #e6f0fb; stroke: #2f6db3 }
  .finished { fill: #eef0f2; stroke: #6b7280 }
  .name { fill: #14202e; font-weight: 600; text-anchor: middle }
  .arrow { fill: none; stroke: #4b5563; stroke-width: 1.5 }
  .head, .dot { fill: #4b5563 }
  .label { fill: #374151; font-size: 13px }
  .note { fill: #6b7280; font-size: 12px }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #1b1f27 }
    .frame { stroke: #5b6472 }
    .live { fill: #1d3350; stroke: #6ea8e6 }
    .finished { fill: #2a303a; stroke: #9aa1ac }
    .name { fill: #f1f5f9 }
    .arrow { stroke: #aab2bf }
    .head, .dot { fill: #aab2bf }
    .label { fill: #d5dae1 }
    .note { fill: #9aa1ac }
  }"""

HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker>'
)


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.lifecycle", description="Check or draw the life of a job.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    complaints = find_complaints(MOVES)
    if not complaints:
        wanted = {PICTURE: picture(MOVES), PAGE: with_table((root / PAGE).read_text(encoding="utf-8"), MOVES)}
        for path, text in wanted.items():
            if command == "write":
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            elif not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text:
                complaints.append(f"{path}: out of date, run `python -m tools.lifecycle write`")

    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def find_complaints(moves: Sequence[Move]) -> list[str]:
    """What the table says and the drawing does not, and the reverse."""
    names = {move.name for move in moves}
    drawn, told = set(ARROWS), set(arrows(moves))
    return [
        *(f"tools/lifecycle.py: no place for {state}" for state in State if state not in PLACES),
        *(f"tools/lifecycle.py: no arrow is drawn for {_ends(ends)}" for ends in sorted(told - drawn, key=_ends)),
        *(f"tools/lifecycle.py: the table has no arrow {_ends(ends)}" for ends in sorted(drawn - told, key=_ends)),
        *(f"tools/lifecycle.py: no sentence for {name}" for name in sorted(names - MEANINGS.keys())),
        *(f"tools/lifecycle.py: the table has no move {name}" for name in sorted(MEANINGS.keys() - names)),
    ]


def arrows(moves: Sequence[Move]) -> dict[Ends, list[str]]:
    """The arrows to draw, with the names of the moves that take them."""
    found: dict[Ends, list[str]] = {}
    for move in moves:
        whole = move.sources == frozenset(WAITING)
        for sources in [move.sources] if whole else [frozenset({source}) for source in _in_order(move.sources)]:
            found.setdefault((sources, move.target), []).append(move.name)
    return found


def picture(moves: Sequence[Move]) -> str:
    """The SVG.  The same table gives the same bytes."""
    told = arrows(moves)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">',
        '<title id="t">The life of a job</title>',
        f'<desc id="d">{escape(_told_in_words(told))}</desc>',
        f"<style>\n{STYLE}\n</style>",
        f"<defs>{HEAD}</defs>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="10"/>',
        '<rect class="frame" x="180" y="44" width="220" height="374" rx="12"/>',
        '<text class="note" x="192" y="62">waiting</text>',
        '<circle class="dot" cx="36" cy="160" r="7"/>',
    ]
    for ends, arrow in ARROWS.items():
        lines.extend(_arrow(arrow, told[ends], head=ends not in _NO_HEAD))
    for state, place in PLACES.items():
        lines.extend(_box(state, place))
    return "\n".join([*lines, "</svg>", ""])


def with_table(page: str, moves: Sequence[Move]) -> str:
    """The page with its table of arrows made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE}: the lines {BEGIN!r} and {END!r} are missing")
    return "".join([before, BEGIN, "\n\n", *_table(moves), "\n", END, after])


def _table(moves: Sequence[Move]) -> Iterator[str]:
    yield "| move | from | to | when |\n|---|---|---|---|\n"
    for move in moves:
        sources = ", ".join(f"`{source}`" if source else "-" for source in _in_order(move.sources))
        yield f"| `{move.name}` | {sources} | `{move.target}` | {MEANINGS[move.name]} |\n"


def _box(state: State, place: Place) -> Iterator[str]:
    width, height = _BOX
    kind = "live" if state in LIVE else "finished"
    assert state in LIVE | FINISHED
    yield (
        f'<rect class="{kind}" x="{place.x - width // 2}" y="{place.y - height // 2}" '
        f'width="{width}" height="{height}" rx="9"/>'
    )
    yield f'<text class="name" x="{place.x}" y="{place.y + 5}">{state}</text>'


def _arrow(arrow: Arrow, names: Sequence[str], *, head: bool) -> Iterator[str]:
    marker = ' marker-end="url(#head)"' if head else ""
    yield f'<path class="arrow" d="{arrow.path}"{marker}/>'
    if not head:
        return
    for line, name in enumerate(names):
        comma = "," if line < len(names) - 1 else ""
        yield (
            f'<text class="label" x="{arrow.x}" y="{arrow.y + 16 * line}" text-anchor="{arrow.anchor}">'
            f"{escape(name)}{comma}</text>"
        )


def _told_in_words(told: dict[Ends, list[str]]) -> str:
    return "; ".join(f"{_ends(ends)} by {' or '.join(names)}" for ends, names in told.items()) + "."


def _ends(ends: Ends) -> str:
    sources, target = ends
    return f"{', '.join(source or 'nothing' for source in _in_order(sources))} to {target}"


def _in_order(sources: Sources) -> list[State | None]:
    order: list[State | None] = [None, *State]
    return sorted(sources, key=order.index)


if __name__ == "__main__":
    sys.exit(main())
