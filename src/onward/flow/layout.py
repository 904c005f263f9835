"""Where the nodes of a graph are drawn: columns from left to right, each node behind those that it comes after.  Pure.

A graph of more nodes than a screen shows is collapsed first: nodes that come after the same ones, are followed by the same
ones and are in the same state become one box.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["MOST_BOXES", "BoxPlace", "Collapsed", "GraphNode", "collapsed", "critical_path", "line_between", "places"]

MOST_BOXES = 200
WIDTH, HEIGHT = 180.0, 56.0  # of a box
_GAP_X, _GAP_Y, _EDGE = 64.0, 20.0, 16.0
_SWEEPS = 4  # over the columns, each ordering them by their neighbours


class GraphNode(NamedTuple):
    """A node: whether it is over, and a word by which only equal ones may become one box."""

    name: str
    after: tuple[str, ...]
    kind: str = ""
    is_over: bool = False


class BoxPlace(NamedTuple):
    x: float
    y: float
    width: float = WIDTH
    height: float = HEIGHT


class Collapsed(NamedTuple):
    """The nodes that are drawn, and which nodes each of them stands for."""

    nodes: list[GraphNode]
    members: dict[str, list[str]]


def collapsed(nodes: Sequence[GraphNode], most: int = MOST_BOXES) -> Collapsed:
    """Return the nodes as they are, or, if they are more than ``most``, equal ones as one.

    >>> many = [GraphNode("a", ()), *(GraphNode(f"b{n}", ("a",)) for n in range(3)), GraphNode("c", ("b0", "b1", "b2"))]
    >>> [(node.name, node.after) for node in collapsed(many, 4).nodes]
    [('a', ()), ('b0 and 2 more', ('a',)), ('c', ('b0 and 2 more',))]
    """
    if len(nodes) <= most:
        return Collapsed(list(nodes), {node.name: [node.name] for node in nodes})
    followed = _followers(nodes)
    alike: dict[object, list[GraphNode]] = defaultdict(list)
    for node in nodes:
        alike[node.after, tuple(followed[node.name]), node.kind].append(node)
    names, members = dict[str, str](), dict[str, list[str]]()
    for group in alike.values():
        name = group[0].name if len(group) == 1 else f"{group[0].name} and {len(group) - 1:,} more"
        members[name] = [node.name for node in group]
        names |= dict.fromkeys(members[name], name)
    drawn: dict[str, GraphNode] = {}
    for node in nodes:
        name = names[node.name]
        if name not in drawn:
            after = tuple(dict.fromkeys(names[each] for each in node.after))
            drawn[name] = node._replace(name=name, after=after)
    return Collapsed(list(drawn.values()), members)


def places(nodes: Sequence[GraphNode]) -> dict[str, BoxPlace]:
    """Return where each node is drawn; none stands before one that it comes after.

    >>> laid = places([GraphNode("a", ()), GraphNode("b", ("a",)), GraphNode("c", ("a",))])
    >>> laid["a"].x < laid["b"].x == laid["c"].x, laid["b"].y < laid["c"].y
    (True, True)
    """
    columns = _columns(nodes)
    before = {node.name: node.after for node in nodes}
    followed = _followers(nodes)
    for sweep in range(_SWEEPS):
        goes_right = sweep % 2 == 0
        for column in columns[1:] if goes_right else columns[-2::-1]:
            _order(column, before if goes_right else followed, columns)
    tallest = max((len(column) for column in columns), default=0)
    found = {}
    for number, column in enumerate(columns):
        top = _EDGE + (tallest - len(column)) * (HEIGHT + _GAP_Y) / 2
        for row, name in enumerate(column):
            found[name] = BoxPlace(_EDGE + number * (WIDTH + _GAP_X), top + row * (HEIGHT + _GAP_Y))
    return found


def size_of(laid: Iterable[BoxPlace]) -> tuple[float, float]:
    """Return the width and the height of a picture."""
    each = list(laid)
    return (
        max((place.x + place.width for place in each), default=0.0) + _EDGE,
        max((place.y + place.height for place in each), default=0.0) + _EDGE,
    )


def line_between(start: BoxPlace, end: BoxPlace) -> list[tuple[float, float]]:
    """Return the points of an arrow: out of the right side of one box, into the left side of another."""
    x1, y1 = start.x + start.width, start.y + start.height / 2
    x2, y2 = end.x, end.y + end.height / 2
    middle = x2 - _GAP_X / 2
    return [(x1, y1), (x2, y2)] if y1 == y2 else [(x1, y1), (middle, y1), (middle, y2), (x2, y2)]


def critical_path(nodes: Sequence[GraphNode]) -> list[str]:
    """Return the longest chain of nodes that are not over: what decides when the graph is.

    >>> critical_path(
    ...     [GraphNode("a", (), is_over=True), GraphNode("b", ("a",)), GraphNode("c", ("b",)), GraphNode("d", ("a",))]
    ... )
    ['b', 'c']
    """
    longest: dict[str, list[str]] = {}
    for node in nodes:
        if not node.is_over:
            chains = [longest[each] for each in node.after if each in longest]
            longest[node.name] = [*max(chains, key=len, default=[]), node.name]
    return max(longest.values(), key=len, default=[])


def _columns(nodes: Sequence[GraphNode]) -> list[list[str]]:
    level: dict[str, int] = {}
    for node in nodes:
        level[node.name] = 1 + max((level[each] for each in node.after), default=-1)
    columns: list[list[str]] = [[] for _ in range(1 + max(level.values(), default=-1))]
    for name, number in level.items():
        columns[number].append(name)
    return columns


def _order(column: list[str], neighbours: Mapping[str, Sequence[str]], columns: Sequence[Sequence[str]]) -> None:
    """Order a column by the middle of each node's neighbours, so that few lines cross."""
    rows = {name: row for each in columns for row, name in enumerate(each)}
    middle = {
        name: sum(rows[each] for each in neighbours[name]) / len(neighbours[name]) if neighbours[name] else rows[name]
        for name in column
    }
    column.sort(key=lambda name: (middle[name], rows[name]))


def _followers(nodes: Sequence[GraphNode]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {node.name: [] for node in nodes}
    for node in nodes:
        for each in node.after:
            found[each].append(node.name)
    return found
