"""Fifty schedules, three supervisors that are killed and started all the time: every tick is a job once, and runs.

At sixty times the usual speed: ticks of seconds, booked one second ahead, by looks six times a second.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import closing
from itertools import takewhile
from pathlib import Path

from onward import JobRecord, Onward, State
from onward.base.clock import SystemClock, to_micros
from onward.flow.cron import ticks_of
from onward.flow.schedule import ids_of
from tests.proof.crowd import Tell
from tests.proof.kills import Fleets
from tests.proof.ledger import Ledger, damage_of, scheme_of

__all__ = ["of_supervisors"]

_SCHEDULES = 50
_EXPRESSIONS = ("* * * * * *", "*/2 * * * * *", "@every 3s", "@every 2s", "1-59/3 * * * * *")
_PATIENCE = 300.0  # seconds without a tick that ends
_BLOWS = ("child", "supervisor", "group", "restart")


def of_supervisors(url: str, folder: Path, *, seconds: float, tell: Tell) -> Ledger:
    """Kill and start supervisors for so long, and then look for every tick of that time."""
    log = folder / "runs.log"
    log.touch()
    dice = random.Random(7)
    with (
        closing(Onward(url, max_crashes=1000)) as client,
        Fleets(url, log, "tests.proof.schedule_shop:jobs", number=3) as fleets,
    ):
        starts = _create(client)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            fleets.strike(dice.choice(_BLOWS), dice)
            _await_run(log)
            time.sleep(dice.uniform(0, 1.0))
            tell(log.stat().st_size)
        end = SystemClock().micros()
        wanted = _wanted(starts, end)
        records = _wait(client, wanted)
        for name in starts:
            client.schedules.pause(name)
        fleets.stop()
        return _judge(client, url, log, wanted, records, fleets.faults, end)


def _create(client: Onward) -> dict[str, tuple[str, int]]:
    """Make the schedules.  Gives the expression of each, and from when on it counts."""

    @client.job
    def tick(name: str) -> None: ...

    starts = {}
    for number in range(_SCHEDULES):
        name, expression = f"schedule {number}", _EXPRESSIONS[number % len(_EXPRESSIONS)]
        made = client.schedules.create(name, expression, tick.call(name), catch_up=1000, overlap="allow")
        starts[name] = expression, to_micros(made.booked_until)
    return starts


def _wanted(starts: dict[str, tuple[str, int]], end: int) -> dict[str, list[str]]:
    """The ids of all ticks, by schedule."""
    return {
        name: ids_of("default", name, list(takewhile(lambda tick: tick <= end, ticks_of(expression).after(start))))
        for name, (expression, start) in starts.items()
    }


def _await_run(log: Path) -> None:
    """Wait until a tick runs: the next blow must find a supervisor at work."""
    size, deadline = log.stat().st_size, time.monotonic() + 20
    while log.stat().st_size == size and time.monotonic() < deadline:
        time.sleep(0.01)


def _wait(client: Onward, wanted: dict[str, list[str]]) -> list[JobRecord]:
    """What is known of the ticks, once all have ended, or for too long none has."""
    deadline = time.monotonic() + _PATIENCE
    ids = [each for ids in wanted.values() for each in ids]
    ended: dict[str, JobRecord] = {}
    while time.monotonic() < deadline:
        for record in filter(None, (client.get(each) for each in ids if each not in ended)):
            if record.state is State.COMPLETED:
                ended[record.id] = record
                deadline = time.monotonic() + _PATIENCE
        if len(ended) == len(ids):
            break
        time.sleep(0.2)
    return list(ended.values())


def _judge(
    client: Onward,
    url: str,
    log: Path,
    wanted: dict[str, list[str]],
    records: list[JobRecord],
    faults: dict[str, int],
    end: int,
) -> Ledger:
    runs = Counter(line.split()[0] for line in log.read_text().splitlines())
    known = {each for ids in wanted.values() for each in ids}
    figures: dict[str, float] = {
        "schedules": len(wanted),
        "ticks": len(known),
        **faults,
        "runs": runs.total(),
        "crashes": sum(record.crashes for record in records),
    }
    flaws = {
        "ticks missed": len(known) - len(records),
        "ticks doubled": sum(to_micros(job.available_at) <= end and job.id not in known for job in _all(client)),
        "settled twice": sum(record.attempts != 1 for record in records),
        "run twice without a cause": sum(
            runs[record.id] > record.attempts + record.crashes + record.interruptions for record in records
        ),
        "missed": sum(schedule.missed for schedule in client.schedules.list()),
    }
    return Ledger(f"schedules under kills on {scheme_of(url)}", figures, flaws, damage_of(url))


def _all(client: Onward) -> list[JobRecord]:
    found: list[JobRecord] = []
    while page := client.list(limit=1000, after=found[-1].id if found else None):
        found += page
    return found
