"""Drawing the nodes of a flow as text: one line each, behind those that they come after, with a rail from each of these.

● fetch
├─● resize
│ ├─○ announce
╰─┴─○ tidy
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["Drawn", "draw"]


class Drawn(NamedTuple):
    """The line of a node: the rails before it, and its name."""

    rails: str
    name: str


def draw(nodes: Sequence[tuple[str, Sequence[str]]]) -> list[Drawn]:
    """Return a line for each node, given with those that it comes after; none stands before one of these.

    >>> for line in draw([("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"])]):
    ...     print(line.rails + line.name)
    a
    ├─b
    ╰─│─c
      ╰─┴─d
    """
    left = {name: sum(name in after for _, after in nodes) for name, _ in nodes}  # lines to come that begin here
    columns: list[str | None] = []  # whose rail is in which
    lines = []
    for name, after in nodes:
        parents = {columns.index(each) for each in after}
        for each in after:
            left[each] -= 1
        place = 1 + max((at for at, rail in enumerate(columns) if rail is not None), default=-1)
        lines.append(Drawn(_rails(columns, parents, place, left), name))
        columns = [None if each is not None and not left[each] else each for each in columns]
        if left[name]:
            columns += [None] * (place + 1 - len(columns))
            columns[place] = name
    return lines


def _rails(columns: Sequence[str | None], parents: set[int], place: int, left: Mapping[str, int]) -> str:
    """Draw what stands before a node: rails that go on, and the line that leads from those of its parents to it."""
    first, drawn = min(parents, default=place), ""
    for at in range(place):
        rail = columns[at] if at < len(columns) else None
        goes_on = rail is not None and left[rail] > 0
        crossed = at > first
        if at in parents:
            drawn += ("┼" if goes_on else "┴") if crossed else ("├" if goes_on else "╰")
        elif rail is not None:
            drawn += "│"
        else:
            drawn += "─" if crossed else " "
        drawn += "─" if at >= first else " "
    return drawn
