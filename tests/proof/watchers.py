"""Fifty people watch a store at work: they cost one look in two seconds, and no throughput.

Each of them asks every two seconds, as a page in a browser does.  The same process enqueues jobs and works them off,
in rounds that are watched and rounds that are not, in turn.  The machine may be shared: throughput is jobs for each second
of the processor, and the rounds are compared in pairs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from onward import Onward
from onward.operate.shared_watch import SharedWatch
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger
from tests.proof.turns import compared

__all__ = ["of_a_store"]

PEOPLE = 50
EVERY = 2.0  # seconds
MOST_OF_THE_TIME = 0.05
LEFT = 0.98  # of the throughput
_PATIENCE = 600.0
_EVERY = 0.02  # seconds between two looks at the counters
_BATCH = 1_000


class Round(NamedTuple):
    """What was measured while jobs were enqueued and worked off."""

    jobs: int
    took: float
    processor: float  # seconds, of the whole process
    until_next: float = 0.0  # seconds, from the end of the round until the next look would have been due

    @property
    def throughput(self) -> float:
        return self.jobs / self.processor


class Looks:
    """Counts the looks of a watch, and how long they take: by the clock, and by the processor."""

    def __init__(self, watch: Any) -> None:
        self.begun: list[float] = []
        self.took = 0.0
        self.processor = 0.0
        self._look = watch._watch.look
        watch._watch.look = self

    def __call__(self) -> Any:
        self.begun.append(time.monotonic())
        processor = time.thread_time()
        try:
            return self._look()
        finally:
            self.took += time.monotonic() - self.begun[-1]
            self.processor += time.thread_time() - processor


def of_a_store(url: str, *, pairs: int, seconds: float, tell: Tell) -> Ledger:
    """Compare so many pairs of rounds, each so long."""
    begun, rounds = time.monotonic(), list[tuple[Round, Round]]()
    with Onward(url) as app:
        work = app.job(name="work")(lambda: None)
        watch = SharedWatch(app, interval=EVERY)
        watch.look()  # the first one imports what it needs
        looks = Looks(watch)
        with app.worker(concurrency=2):
            _round(app, work, 1.0)
            for number in range(pairs):
                # Every other pair begins with the watched round: a store that grows slower is so for both.
                unwatched = _round(app, work, seconds) if number % 2 == 0 else None
                with _people(watch):
                    watched = _round(app, work, seconds)
                left = max(0.0, watch._next_at - time.monotonic())
                rounds.append((unwatched or _round(app, work, seconds), watched._replace(until_next=left)))
                tell(app.metrics.count("jobs_succeeded"))
    return _ledger(url, rounds, looks, time.monotonic() - begun)


def _round(app: Onward, work: Any, seconds: float) -> Round:
    """Enqueue jobs and work them off, for so long at least."""
    first, jobs = app.metrics.count("jobs_succeeded"), 0
    started, processor = time.monotonic(), time.process_time()
    while time.monotonic() < started + seconds:
        work.enqueue_many([()] * _BATCH)
        jobs += _BATCH
        # One batch is ahead of the worker, so that it does not run dry.
        _wait_for(app, first + jobs - _BATCH)
    _wait_for(app, first + jobs)
    return Round(jobs, time.monotonic() - started, time.process_time() - processor)


def _wait_for(app: Onward, done: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while app.metrics.count("jobs_succeeded") < done:
        assert time.monotonic() < deadline, "the worker does not come to an end"
        time.sleep(_EVERY)


@contextmanager
def _people(watch: SharedWatch) -> Iterator[None]:
    """So many ask, one after the other within two seconds, again and again."""
    gone = threading.Event()

    def ask(first: float) -> None:
        pause = first
        while not gone.wait(pause):
            look = watch.look()
            assert look.error is None, look.error
            pause = EVERY

    people = [threading.Thread(target=ask, args=(EVERY * number / PEOPLE,)) for number in range(PEOPLE)]
    for person in people:
        person.start()
    try:
        yield
    finally:
        gone.set()
        for person in people:
            person.join()


def _ledger(url: str, rounds: list[tuple[Round, Round]], looks: Looks, seconds: float) -> Ledger:
    watched = [each for _, each in rounds]
    # A look at the end of a round is paid for by the pause behind it.
    seen = sum(each.took + each.until_next for each in watched)
    share = looks.took / seen
    of_processor = looks.processor / sum(each.processor * (1 + each.until_next / each.took) for each in watched)
    ratios = [each.throughput / before.throughput for before, each in rounds]
    against = compared(ratios)
    too_soon = [later - earlier for earlier, later in pairwise(looks.begun) if later - earlier < EVERY]
    return Ledger(
        f"{PEOPLE} people watch a store at work, {url.partition(':')[0]}",
        {
            "jobs": sum(each.jobs for pair in rounds for each in pair),
            "watched for": seen,
            "looks": len(looks.begun),
            "% of the time": 100 * share,
            "% of the processor": 100 * of_processor,
            "throughput, % of unwatched": 100 * against.ratio,
            "plus or minus": 100 * against.error,
            "seconds": seconds,
        },
        {
            "looks too soon": len(too_soon),
            "looks take too long": int(share > MOST_OF_THE_TIME),
            "looks take too much of the processor": int(of_processor > 1 - LEFT),
            "throughput is lost": int(against.is_surely_below(LEFT)),
        },
        [] if looks.begun else ["no look was made"],
    )
