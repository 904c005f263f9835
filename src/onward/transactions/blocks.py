"""What the blocks of `ctx.transaction` are given by their application."""

from __future__ import annotations

from onward.attempt.settle import Settler
from onward.job.results import Results
from onward.transactions.joining import Joins

__all__ = ["Blocks"]


class Blocks:
    """The parts that the transactions of an application's handlers share."""

    def __init__(
        self,
        joins: Joins,
        *,
        at_most: float,
        asked_for: float,
        results: Results,
        settler: Settler,
    ) -> None:
        self.joins = joins
        self.at_most = at_most  # seconds, where no other connection can write meanwhile
        self.asked_for = asked_for  # seconds for which the store is asked what became of a commit
        self.results = results
        self.settler = settler
