"""The counters of an application.  They move once per settlement, when the store has applied it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from onward.base import forks
from onward.base.logs import get_logger
from onward.telemetry.counters import UNREAD, CounterTable
from onward.telemetry.numbers import Numbers, Pair

__all__ = ["Metrics"]

logger = get_logger("onward")

_NOTHING: Mapping[Pair, Sequence[int]] = {}


class Metrics:
    """What this process has counted, by name, queue and job."""

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._table = CounterTable.anonymous()
        self._lock = threading.RLock()  # a signal handler that interrupts this may enqueue
        self._complained = False
        self._pass_on: Callable[[Mapping[tuple[str, Pair], int]], None] | None = None
        forks.watch(self)

    def count_into(self, table: CounterTable) -> None:
        """Count into another table from now on: one that the supervisor of this process reads."""
        with self._lock:
            table.take_over(self._table)
            self._table = table

    def pass_on_to(self, told: Callable[[Mapping[tuple[str, Pair], int]], None]) -> None:
        """Tell another process, too, what is counted from now on, but for lengths."""
        self._pass_on = told

    def add(self, name: str, queue: str, count: int = 1, *, job: str = UNREAD) -> None:
        self.add_all({(name, (queue, job)): count})

    def add_one(self, name: str, pair: Pair) -> None:
        """Do what `add_all` does for one job: every enqueue passes through here."""
        if not self.enabled:
            return
        try:
            if self._pass_on is not None:
                self._pass_on({(name, pair): 1})
            with self._lock:
                self._table.add(name, pair)
        except Exception as error:  # noqa: BLE001  an error in counting changes no job
            self._complain(error)

    def add_all(
        self,
        counts: Mapping[tuple[str, Pair], int],
        *,
        first_deliveries: Mapping[Pair, Sequence[int]] = _NOTHING,
        successes: Mapping[Pair, Sequence[int]] = _NOTHING,
        other_runs: Mapping[Pair, Sequence[int]] = _NOTHING,
    ) -> None:
        """Add a batch at once: one lock, however many jobs.  Lengths are milliseconds.

        ``first_deliveries``: how long each job had been due that was claimed for the first time.  ``successes``: how long
        each run took after which its job was completed.  ``other_runs``: how long others took, whose ends ``counts`` has.
        """
        if not self.enabled:
            return
        try:
            if self._pass_on is not None and counts:
                self._pass_on(counts)
            with self._lock:
                table = self._table
                for (name, pair), count in counts.items():
                    table.add(name, pair, count)
                for pair, waits in first_deliveries.items():
                    table.add_first_deliveries(pair, waits)
                for pair, runs in successes.items():
                    table.add_successes(pair, runs)
                for pair, runs in other_runs.items():
                    table.add_runs(pair, runs)
        except Exception as error:  # noqa: BLE001  an error in counting changes no job
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            logger.error("something could not be counted; further errors of this kind are not logged", exc_info=error)

    def numbers(self) -> dict[Pair, Numbers]:
        """Return everything that this process has counted so far, by queue and job."""
        return self._table.numbers()

    def count(self, name: str, queue: str | None = None) -> int:
        """Return one counter, for one queue or for all of them."""
        counted = self.numbers().items()
        return sum(each.counters.get(name, 0) for pair, each in counted if queue is None or pair[0] == queue)

    def snapshot(self) -> dict[str, dict[str, int]]:
        """Return every counter that has moved: name, then queue."""
        tree: dict[str, dict[str, int]] = {}
        for (queue, _), numbers in sorted(self.numbers().items()):
            for name, count in numbers.counters.items():
                by_queue = tree.setdefault(name, {})
                by_queue[queue] = by_queue.get(queue, 0) + count
        return dict(sorted(tree.items()))

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        try:
            if in_child:  # the supervisor goes on reading the parent's table
                ours = CounterTable.anonymous()
                ours.take_over(self._table)
                self._table = ours
                self._pass_on = None  # what two processes write at once into one channel could not be read
        finally:
            self._lock.release()
