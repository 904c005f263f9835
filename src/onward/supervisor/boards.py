"""The run boards of all worker processes: the sessions to renew, and everything that was counted.

The loop replaces processes while other threads read: one lock makes each reading whole.  When the loop removes a process, it
reads its counters one last time and keeps them, in the same step: a sum never misses them and never has them twice, so no
number goes back while the supervisor lives.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from onward.supervisor.process import WorkerProcess
from onward.supervisor.run_board import BegunRun, BoardTotals
from onward.telemetry.counters import OTHER, SERIES
from onward.telemetry.numbers import Numbers, Pair, added_up

__all__ = ["Boards", "Gauges"]


class Gauges(NamedTuple):
    """What the boards show of this moment."""

    processes: int
    begun: int
    totals: BoardTotals


class Boards:
    """Reads the boards of the processes that run, and remembers the counters of those that have ended."""

    def __init__(self, processes: Iterable[WorkerProcess], *, handed_over: Callable[[], Iterable[str]] = tuple) -> None:
        """``handed_over``: returns the sessions of dead processes that wait to be adopted."""
        self._processes = processes
        self._handed_over = handed_over
        self._lock = threading.Lock()
        self._ended: dict[Pair, Numbers] = {}
        self._totals = BoardTotals()
        self._named: set[Pair] = set()

    def sessions(self) -> list[tuple[int, str]]:
        """Return the sessions to renew, each with the number of its process; -1: that has died."""
        with self._lock:
            living = [(each.number, owners[0]) for each in self._processes if (owners := each.board.owners())]
        return [*living, *((-1, owner) for owner in self._handed_over())]

    def counted(self) -> Mapping[Pair, Numbers]:
        """Return everything that all worker processes have counted since the supervisor started, by queue and job.

        ``{("mail", "send"): Numbers({"jobs_succeeded": 12, …}, run=Histogram(…), wait=Histogram(…)), …}``: totals, which
        never go back.  Any thread may call it; it takes about a millisecond for each process.  At most 256 pairs: what does
        not fit is in ``("other", "other")``.  `onward.telemetry.numbers.differences` tells two readings apart.
        """
        with self._lock:
            running = [each.board.counters.numbers() for each in self._processes]
            return self._bounded(added_up([self._ended, *running]))

    def gauges(self) -> Gauges:
        """Return how many processes have started, how many runs have begun in all, and what is added up beside counters."""
        with self._lock:
            processes = list(self._processes)
            begun = sum(len(each.board.begun()) for each in processes)
            totals = functools.reduce(BoardTotals.added, (each.board.totals() for each in processes), self._totals)
            return Gauges(sum(each.hello is not None for each in processes), begun, totals)

    def events_dropped(self) -> int:
        """Return how many events the subscribers of all worker processes did not get, since the supervisor started."""
        return self.gauges().totals.events_dropped

    def remove(self, process: WorkerProcess, remove: Callable[[], None]) -> tuple[list[str], list[BegunRun]]:
        """Read the board of a process that has exited for the last time, then take the process out and forget it.

        Returns the names that its session may have, and the runs that it had begun.
        """
        with self._lock:
            owners, begun = process.board.owners(), process.board.begun()
            self._totals = self._totals.added(process.board.totals())
            self._ended = self._bounded(added_up([self._ended, process.board.counters.numbers()]))
            remove()
            process.forget()
        return owners, begun

    def _bounded(self, counted: Mapping[Pair, Numbers]) -> dict[Pair, Numbers]:
        """Keep the pairs that were seen first, and add up the others: each process may bring pairs that no other one has."""
        for pair in counted:
            if pair != OTHER and len(self._named) < SERIES - 1:
                self._named.add(pair)
        kept = {pair: numbers for pair, numbers in counted.items() if pair in self._named}
        others = [{OTHER: numbers} for pair, numbers in counted.items() if pair not in self._named]
        return added_up([kept, *others])
