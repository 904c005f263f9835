"""How a walk over the lanes of a queue looks at them: two statements, with one form of answer."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from onward.backends.postgres.lane_marks import Line, Place, Ranges
from onward.backends.postgres.transaction import Reply, Transaction
from onward.flow.walk import Cursors

__all__ = ["DRAWN_FROM", "LaneLook", "LaneSource"]

DRAWN_FROM = 32  # lanes, of which the first walk of a process draws its first place
_MORE_LANES = 64  # than jobs that are wanted, as a walk looks at

_decode = msgspec.json.Decoder(list[list[Any]]).decode
_GROUP = itemgetter(0, 1, 2)  # queue, rank and group of a row of lanes; queue, rank and first lane of one of groups
_IN_CIRCLE = itemgetter(0, 1, 2, 6, 5)  # and whether it is behind the end of the index; and the lane
_START = 3


class LaneLook(NamedTuple):
    """What was looked at."""

    now: int
    share: int  # how many jobs of each lane, at most
    queues: list[list[Any]]
    groups: list[list[Any]]
    lanes: list[list[Any]]  # of each group from its start around to it
    crowded: bool = False  # from marks it would not have been whole


class LaneSource:
    """Which queues to look at, from which cursors, for how many jobs; and how to look."""

    def __init__(
        self, tx: Transaction, queues: Sequence[str], cursors: Cursors, limit: int, ranges: Ranges | None = None
    ) -> None:
        """``ranges``: the lanes to look at, and from where; None: everything."""
        self.tx = tx
        self.queues = list(queues)
        self.cursors = cursors
        self.limit = max(1, limit)
        self.ranges = ranges
        self._drawn = f"{random.randrange(16**4):04x}"  # where a group begins that has no cursor

    def ask(self) -> Reply:
        """Look at all that a walk of these queues may come to."""
        places = [
            (queue, group, lane) for (queue, group), lane in self.cursors.lanes.items() if queue in self.queues and lane
        ]
        return self._asked(self.queues, places, self.limit + _MORE_LANES + DRAWN_FROM, self.ranges)

    def answered(self, reply: Reply) -> LaneLook:
        """Return the answer to `ask`; if there are too many lanes for marks, that to a look at everything."""
        if self.ranges is None:
            return self._read(reply)
        ((now, share, queues, groups, lanes, is_crowded),) = reply.rows()
        if is_crowded:
            self.ranges = None
            return self._read(self.ask())._replace(crowded=True)
        return LaneLook(
            now, share, _decode(queues), sorted(_decode(groups), key=_GROUP), list(_circles(_decode(lanes)))
        )

    def look_from(self, queue: str, rank: int, group: str, after: str) -> LaneLook:
        """Look at the lanes of one group from one place on."""
        places = [(queue, group, after)]
        return self._read(self._asked([queue], places, _MORE_LANES, only_rank=rank, only_group=group))

    def heads_from(self, lines: Mapping[Line, int], places: Sequence[Place]) -> Reply:
        """Ask for the first jobs of lanes, so many of each, from a place on in each."""
        queues, ranks, lanes = map(list, zip(*lines, strict=True))
        times, heads = map(list, zip(*places, strict=True))
        counts = list(lines.values())
        return self.tx.ask(
            "line_heads_from", queues=queues, ranks=ranks, lanes=lanes, counts=counts, times=times, heads=heads
        )

    def _read(self, reply: Reply) -> LaneLook:
        ((now, share, queues, groups, lanes),) = reply.rows()
        return LaneLook(now, share, _decode(queues), _decode(groups), _decode(lanes))

    def _asked(
        self,
        queues: list[str],
        places: list[tuple[str, str, str]],
        lanes: int,
        ranges: Ranges | None = None,
        **only: Any,
    ) -> Reply:
        return self.tx.ask(
            "walk_lanes" if ranges is None else "walk_known_lanes",
            queues=queues,
            cursor_queues=[queue for queue, _, _ in places],
            cursor_groups=[group for _, group, _ in places],
            cursor_lanes=[lane for _, _, lane in places],
            drawn=self._drawn,
            lanes=lanes,
            limit=self.limit,
            **{"only_rank": None, "only_group": None, **only, **(ranges or {})},
        )


def _circles(rows: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield rows of lanes in the order of their circles, each with its start before it and its end behind it."""
    rows.sort(key=_IN_CIRCLE)
    for (queue, rank, group), lanes in groupby(rows, key=_GROUP):
        circle = list(lanes)
        start = circle[0][_START]
        yield [queue, rank, group, start, False, start, False, None, 0, None]
        yield from circle
        yield [queue, rank, group, start, True, None, True, None, 0, None]
