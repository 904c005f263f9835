"""What the results of tasks before it become in the arguments of a task in a flow.  Plain data, which travels in `meta`.

A feed is the name of a node (its one result), a table ``{"all": name}`` (a list of all of its results), or a list of feeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["IN_FLOW", "KEY", "Feed", "filled", "nodes_of"]

KEY = "celery_feed"
IN_FLOW = "celery_flow"  # marks that another task may read the result

Feed = str | dict[str, str] | Sequence[Any] | None


def nodes_of(feed: Feed) -> Iterator[str]:
    """Yield the nodes that a feed names."""
    if isinstance(feed, str):
        yield feed
    elif isinstance(feed, Mapping):
        yield feed["all"]
    else:
        for each in feed or ():
            yield from nodes_of(each)


def filled(args: Sequence[Any], feed: Feed, found: Mapping[str, list[Any]]) -> list[Any]:
    """Return the arguments of a task, its feed in the first place, which was left for it.

    >>> filled([None, "x"], ["fetch", {"all": "resize"}], {"fetch": [7], "resize": [1, 2]})
    [[7, [1, 2]], 'x']
    """
    return [*args] if feed is None else [_value(feed, found), *args[1:]]


def _value(feed: Any, found: Mapping[str, list[Any]]) -> Any:
    if isinstance(feed, str):
        return found[feed][0]
    if isinstance(feed, Mapping):
        return found[feed["all"]]
    return [_value(each, found) for each in feed]
