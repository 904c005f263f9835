"""Limits under fire, and rates of many processes.

**Leases.**  A lease is valid from its claim until it is settled or reaped.  Three looks at it, none of which can see a lease
that is not valid:

- handlers write a line when they begin and when they end: between them their lease is valid, unless it was reaped before,
  and then the store has the instant;
- the lease of a process that was killed is valid until it is reaped, which is on record, too;
- a thread asks the store all the time how many jobs are leased, in one statement.

**Starts.**  A start is a claim.  Its instant, by the store's clock, stays with the job.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from onward import Onward, State
from onward.backend import Query, StoredJob
from onward.base.clock import SECOND
from onward.flow.limits import Rate, rate_of
from tests.proof.crowd import Tell
from tests.proof.kills import Fleets, wait_until_finished
from tests.proof.ledger import Ledger, damage_of, scheme_of
from tests.proof.limit_shop import MOST, RATE, Shop, shop

__all__ = ["of_processes_at_one_rate", "of_processes_under_fire"]

_PATIENCE = 1_800.0
_SHOP = "tests.proof.limit_shop:jobs"
_ENOUGH_USED = 0.97
_ENOUGH = 30.0  # seconds from which on a share tells something: a busy machine stands still for a moment
Held = tuple[str, int]  # id and token


def of_processes_under_fire(store: Any, folder: Path, *, jobs: int, kills: int, supervisors: int, tell: Tell) -> Ledger:
    """Kill supervisors and their processes, two each, while all of them work at jobs with one limit."""
    log, url, dice = folder / "runs.log", store.url(), random.Random(7)
    log.touch()
    with (
        closing(Onward(url, max_crashes=1000).connect()) as client,
        Fleets(url, log, _SHOP, number=supervisors, cuts=folder / "cuts") as fleets,
        _looking(store) as looks,
    ):
        calls, ids = shop(client), list[str]()
        for blow in range(kills):
            ids += _enqueue(calls, dice, jobs * (blow + 1) // kills - len(ids))
            fleets.strike(dice.choice(("child", "child", "supervisor", "group")), dice)
            fleets.await_life(client, log, dice.uniform(0.05, 0.4))
            tell(len(ids))
        unfinished = wait_until_finished(client, deadline=time.monotonic() + _PATIENCE, tell=tell)
        fleets.stop()
        stored = list(_stored(client, ids))
    lines = [_Line.read(line) for line in log.read_text().splitlines()]
    return _judge_leases(url, ids, stored, lines, looks, fleets.faults, unfinished)


def _enqueue(calls: Shop, dice: random.Random, count: int) -> list[str]:
    """Enqueue jobs of some milliseconds.  One in twenty fails at first."""
    arguments = [(dice.randint(0, 8), dice.random() < 0.05) for _ in range(count)]
    return [handle.id for handle in calls.limited.enqueue_many(arguments)]


@contextmanager
def _looking(store: Any) -> Iterator[Counter[int]]:
    """Ask the store again and again how many jobs are leased.  All of its jobs have the limit."""
    seen: Counter[int] = Counter()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.01):
            seen[store.executing()] += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _stored(client: Onward, ids: list[str]) -> Iterator[StoredJob]:
    """What the store knows of these jobs, runs included."""
    backend: Any = client.parts().backend
    for job_id in ids:
        found = backend.get(job_id)
        if found is not None:
            yield found


class _Line(NamedTuple):
    begins: bool
    held: Held
    at: int

    @classmethod
    def read(cls, line: str) -> _Line:
        sign, job_id, token, at = line.split()
        return cls(sign == "+", (job_id, int(token)), int(at))


def _judge_leases(
    url: str,
    ids: list[str],
    stored: list[StoredJob],
    lines: list[_Line],
    looks: Counter[int],
    faults: dict[str, int],
    unfinished: int,
) -> Ledger:
    reaped = {(job.id, run.token): run.at for job in stored for run in job.runs if run.move == "crashed"}
    begun = {line.held: line.at for line in lines if line.begins}
    ended = {line.held: line.at for line in lines if not line.begins}
    intervals = [(at, _end(held, at, ended, reaped)) for held, at in begun.items()]
    at_once = list(_at_once(intervals))
    asked = looks.total()
    figures: dict[str, float] = {
        "jobs": len(ids),
        **faults,
        "runs": len(begun),
        "leases that were reaped": len(reaped),
        "interruptions": sum(job.interruptions for job in stored),
        "limit": MOST,
        "most runs at once": max(at_once, default=0),
        "looks": asked,
        "most leases at a look": max(looks, default=0),
        "percent of the looks with all slots used": 100 * looks[MOST] / max(1, asked),
    }
    flaws = {
        "instants with more runs than the limit": sum(number > MOST for number in at_once),
        "looks with more leases than the limit": sum(count for number, count in looks.items() if number > MOST),
        # A lease begins before its run: where runs are short, the log has fewer of them side by side.
        "limit not reached": int(max((*at_once, *looks), default=0) < MOST),
        "no looks": int(not asked),
        "lost": len(ids) - len(stored) + unfinished,
        "not completed": sum(job.state is not State.COMPLETED for job in stored) - unfinished,
        "begun twice under one lease": len([line for line in lines if line.begins]) - len(begun),
    }
    return Ledger(f"a limit of {MOST} under kills on {scheme_of(url)}", figures, flaws, damage_of(url))


def _end(held: Held, begun: int, ended: dict[Held, int], reaped: dict[Held, int]) -> int:
    """Until when a lease was valid for certain: its handler ended, or it was reaped, whichever came first."""
    known = [each[held] for each in (ended, reaped) if held in each]
    return max(begun, min(known, default=begun))


def _at_once(intervals: Iterable[tuple[int, int]]) -> Iterator[int]:
    """How many run after each beginning and each end.  What ends when another begins has ended before."""
    running = 0
    for _, change in sorted([(at, 1) for at, _ in intervals] + [(at, -1) for _, at in intervals]):
        running += change
        yield running


def of_processes_at_one_rate(url: str, folder: Path, *, seconds: float, supervisors: int, tell: Tell) -> Ledger:
    """Let processes, two of each supervisor, start jobs at one rate for so long, while more wait than may start."""
    log, rate = folder / "starts.log", rate_of(RATE)
    log.touch()
    allowed = rate.burst + round(seconds * SECOND / rate.interval)
    with closing(Onward(url)) as client:
        calls = shop(client)
        for _ in range(0, 2 * allowed, 1000):
            calls.paced.enqueue_many([()] * 1000)
        with Fleets(url, log, _SHOP, number=supervisors) as fleets:
            _until_started(client, allowed, tell)
            fleets.stop()
        started = list(_started(client))
    starts = sorted(job.started_at or 0 for job in started)
    used = sum(at <= starts[0] + seconds * SECOND for at in starts)
    return Ledger(
        f"{2 * supervisors} processes at {RATE} for {seconds:g} s on {scheme_of(url)}",
        {
            "starts": used,
            "allowed": allowed,
            "percent used": 100 * used / allowed,
            "sessions that started some": len({job.owner for job in started}),
        },
        {
            "windows with too many starts": _windows_with_too_many(starts, rate),
            "too little used": int(seconds >= _ENOUGH and used < _ENOUGH_USED * allowed),
        },
        damage_of(url),
    )


def _until_started(client: Onward, number: int, tell: Tell) -> None:
    """Wait until so many have started; or for so long that they should have, twice over."""
    deadline = time.monotonic() + _PATIENCE
    while (done := client.counts()[State.COMPLETED]) < number and time.monotonic() < deadline:
        tell(done)
        time.sleep(0.2)


def _started(client: Onward) -> Iterator[StoredJob]:
    backend: Any = client.parts().backend
    after: str | None = None
    while page := backend.list(Query(states=frozenset({State.COMPLETED}), limit=1000, after=after)):
        yield from page
        after = page[-1].id


def _windows_with_too_many(starts: list[int], rate: Rate) -> int:
    """Compare every window from one start to another with its tokens: burst, and one for each interval in it.

    From start i to start j there are j - i + 1 starts, and that is too many if ``j · interval - at[j]`` exceeds
    ``i · interval - at[i]`` by more than ``(burst - 1) · interval``: so the smallest of the latter is all that counts.
    """
    smallest, found = math.inf, 0
    for number, at in enumerate(starts):
        ahead = number * rate.interval - at
        smallest = min(smallest, ahead)
        found += ahead - smallest > (rate.burst - 1) * rate.interval
    return found
