"""Claims of a queue in which only one job waits, one that has a limit, by a turn that has ended leases of it.

Such a turn may start as many as it has ended: leases do not become more, so it needs no lock.  Where walks have found the
same single line again and again there is nothing to choose, either, and one statement claims.  It looks whether the line is
as it was; if not, it takes nothing, and a walk follows.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

from onward.backend import Claim
from onward.backends.postgres.transaction import Reply, Row, Transaction

__all__ = ["LineTaken", "SingleLine", "ask", "taken"]

_RANK_TIME_ID = itemgetter(0, 1, 2)


class SingleLine(NamedTuple):
    """The one lane in which jobs of a queue wait, and how many of its job may run."""

    queue: str
    rank: int
    lane: str  # of a job, without a key
    bound: int

    def most(self, claim: Claim) -> int:
        """Return how many jobs of this line a claim can take."""
        begins = claim.limit if claim.begins is None else claim.begins
        return min(claim.limit, begins, claim.at_most.get(self.queue, claim.limit))


class LineTaken(NamedTuple):
    """What a claim of a single line has got."""

    rows: list[Row]  # of `take_line`, in their order
    is_single: bool  # False: a walk must look
    free: int  # how many more could start, if so many wait


def ask(tx: Transaction, line: SingleLine, limit: int, *, owner: str, released: list[str]) -> Reply:
    """Ask for the first jobs of a line, no more than this turn has ended of its job."""
    tx.ask("keep_limits")
    return tx.ask("take_line", **line._asdict(), limit=limit, owner=owner, released=released)


def taken(reply: Reply) -> LineTaken:
    """Return what was claimed."""
    *rows, (free, *_) = reply.rows()
    return LineTaken(sorted(rows, key=_RANK_TIME_ID), free >= 0, max(0, free))
