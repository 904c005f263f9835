"""Fifty people watch a store at work: they cost one look in two seconds, and no throughput.

Each of them asks every two seconds, as a page in a browser does.  The same process enqueues jobs and works them off,
in rounds that are watched and rounds that are not, in turn.

The machine may be shared.  What watching costs is the time of the processor that the threads of these people take: so much
is missing to a worker that has one core for itself, whatever else happens there.  The server's processes that answer them
have the bound of the time that looks may take.  Besides, the rounds are compared in pairs, where there are enough of them:
few agree by chance.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

from onward import Onward
from onward.operate.shared_watch import SharedWatch
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger, scheme_of
from tests.proof.processor import seconds_of
from tests.proof.turns import compared

__all__ = ["of_a_store"]

PEOPLE = 50
EVERY = 2.0  # seconds
MOST_OF_THE_TIME = 0.05
LEFT = 0.98  # of the throughput
ENOUGH = 8  # pairs, for a comparison to be judged
Servers = Callable[[Onward], Sequence[int]]  # the processes that answer an application
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


class Watching:
    """A watch, who asks it, and what that costs: looks are counted, and timed by the clock; all else by the processor."""

    def __init__(self, app: Onward, servers: Servers) -> None:
        self.looks: list[float] = []
        self.asked = 0
        self.took = 0.0
        self._processor = 0.0
        self._lock = threading.Lock()
        self.watch = SharedWatch(app, interval=EVERY)
        self.watch.look()  # it imports what it needs: the pause behind it is long
        self.watch.forget()
        self.watch.look()
        self._servers = servers(app)
        self._served = sum(map(seconds_of, self._servers))
        inner: Any = self.watch._watch
        self._look = inner.look
        inner.look = self._timed

    @property
    def processor(self) -> tuple[float, float]:
        """Return the seconds of the processor that it took: of this process, and of the servers."""
        return self._processor, sum(map(seconds_of, self._servers)) - self._served

    def ask(self, gone: threading.Event, first: float) -> None:
        """Ask again and again, as one person does."""
        pause = first
        while not gone.wait(pause):
            look = self.watch.look()
            assert look.error is None, look.error
            with self._lock:
                self.asked += 1
            pause = EVERY
        with self._lock:
            self._processor += time.thread_time()

    def _timed(self) -> Any:
        self.looks.append(time.monotonic())
        try:
            return self._look()
        finally:
            self.took += time.monotonic() - self.looks[-1]


def of_a_store(url: str, *, pairs: int, seconds: float, tell: Tell, servers: Servers = lambda _: ()) -> Ledger:
    """Compare so many pairs of rounds, each so long."""
    begun, rounds = time.monotonic(), list[tuple[Round, Round]]()
    with Onward(url) as app, Onward(url) as watched_by:
        work = app.job(name="work")(lambda: None)
        watching = Watching(watched_by, servers)
        with app.worker(concurrency=2):
            _round(app, work, 1.0)
            for number in range(pairs):
                # Every other pair begins with the watched round: a store that grows slower is so for both.
                unwatched = _round(app, work, seconds) if number % 2 == 0 else None
                with _people(watching):
                    watched = _round(app, work, seconds)
                left = max(0.0, watching.watch._next_at - time.monotonic())
                rounds.append((unwatched or _round(app, work, seconds), watched._replace(until_next=left)))
                tell(app.metrics.count("jobs_succeeded"))
        processor = watching.processor
    return _ledger(url, rounds, watching, processor, time.monotonic() - begun)


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
def _people(watching: Watching) -> Iterator[None]:
    """So many ask, one after the other within two seconds, again and again."""
    gone = threading.Event()
    people = [
        threading.Thread(target=watching.ask, args=(gone, EVERY * number / PEOPLE)) for number in range(1, PEOPLE + 1)
    ]
    for person in people:
        person.start()
    try:
        yield
    finally:
        gone.set()
        for person in people:
            person.join()


def _ledger(
    url: str,
    rounds: list[tuple[Round, Round]],
    watching: Watching,
    processor: tuple[float, float],
    seconds: float,
) -> Ledger:
    watched, looks = [each for _, each in rounds], watching.looks
    # A look at the end of a round is paid for by the pause behind it.
    seen = sum(each.took + each.until_next for each in watched)
    share = watching.took / seen
    of_a_core, of_the_servers = (each / seen for each in processor)
    against = compared([each.throughput / before.throughput for before, each in rounds])
    too_soon = [later - earlier for earlier, later in pairwise(looks) if later - earlier < EVERY]
    return Ledger(
        f"{PEOPLE} people watch a store at work, {scheme_of(url)}",
        {
            "jobs": sum(each.jobs for pair in rounds for each in pair),
            "watched for": seen,
            "looks": len(looks),
            "asked": watching.asked,
            "% of the time": 100 * share,
            "% of one core": 100 * of_a_core,
            "% of one core, server": 100 * of_the_servers,
            "throughput, % of unwatched": 100 * against.ratio,
            "plus or minus": 100 * against.error,
            "seconds": seconds,
        },
        {
            "looks too soon": len(too_soon),
            "looks take too long": int(share > MOST_OF_THE_TIME),
            "watching takes too much of a core": int(of_a_core > 1 - LEFT),
            "answering takes too much of a core": int(of_the_servers > MOST_OF_THE_TIME),
            "throughput is lost": int(len(rounds) >= ENOUGH and against.is_surely_below(LEFT)),
        },
        [] if looks else ["no look was made"],
    )
