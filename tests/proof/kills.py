"""Worker processes and supervisors are killed, paused and replaced, answers are lost and clocks jump.

Nothing is lost, and every second run is explained.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, Self

from onward import JobRecord, Onward, State
from tests.proof.crowd import Tell
from tests.proof.faults import WallClock, cuts_of
from tests.proof.kill_shop import LEASE
from tests.proof.ledger import Ledger, damage_of, scheme_of

__all__ = ["HOUR", "Blows", "Fleets", "of_worker_processes", "wait_until_finished"]

_PATIENCE = 600.0
_PAUSE = (1.5 * LEASE, 3 * LEASE)
HOUR = 3600
# Of a hundred jobs, so many of each kind; and how many runs of each are completed.
_MIX = {"quick": 60, "slow": 20, "waits": 10, "fails_once": 9, "alone": 1}
_ATTEMPTS = {"fails_once": 2}


class Blows(NamedTuple):
    """How often which blow falls."""

    kills: int
    restarts: int
    pauses: int
    jumps: int

    def shuffled(self, dice: random.Random) -> list[str]:
        kills = [dice.choice(["child", "child", "supervisor", "group"]) for _ in range(self.kills)]
        blows = kills + ["restart"] * self.restarts + ["pause"] * self.pauses + ["jump"] * self.jumps
        dice.shuffle(blows)
        return blows


def of_worker_processes(url: str, folder: Path, *, jobs: int, blows: Blows, tell: Tell) -> Ledger:
    """Enqueue jobs while what runs them is killed, paused, or stopped politely and started again."""
    log = folder / "runs.log"
    log.touch()
    dice = random.Random(7)
    kinds = dice.choices(list(_MIX), list(_MIX.values()), k=jobs)
    # On the machine of a file there is one clock.  A server has its own, and each supervisor is on another machine.
    clocks = [WallClock(folder / f"clock {number}") for number in range(1 if scheme_of(url) == "sqlite" else 2)]
    own = clocks[0] if scheme_of(url) == "sqlite" else None
    fleets = Fleets(url, log, cuts=folder / "cuts", clocks=clocks)
    with closing(Onward(url, max_crashes=1000, clock=own)) as client, fleets:
        ids: list[str] = []
        left = blows.shuffled(dice)
        each = max(1, jobs // max(1, len(left)))
        while left or len(ids) < jobs:
            ids += [_enqueue(client, kind) for kind in kinds[len(ids) : len(ids) + each]]
            if left:
                fleets.strike(left.pop(), dice)
                fleets.await_life(client, log, dice.uniform(0.05, 0.4))
            tell(len(ids))
        begun = time.monotonic()
        for clock in clocks:
            clock.set_ahead(HOUR)  # what fell due while the clock was ahead is due again
        unfinished = wait_until_finished(client, deadline=begun + _PATIENCE, tell=tell)
        seconds = time.monotonic() - begun
        codes = fleets.stop()
        return _judge(client, url, log, ids, fleets.faults, codes, unfinished, seconds)


def _enqueue(client: Onward, kind: str) -> str:
    return client.enqueue(kind, {}, max_attempts=_ATTEMPTS.get(kind, 1)).id


class _Fleet(NamedTuple):
    supervisor: subprocess.Popen[bytes]

    def family(self) -> list[int]:
        """Its processes and theirs."""
        found, known = [self.supervisor.pid], {self.supervisor.pid}
        parents = dict(_parents())
        while more := [pid for pid, parent in parents.items() if parent in known and pid not in known]:
            found += more
            known |= set(more)
        return found

    def is_up(self) -> bool:
        """Whether the supervisor catches SIGTERM by now, or has ended."""
        if self.supervisor.poll() is not None:
            return True
        lines = Path(f"/proc/{self.supervisor.pid}/status").read_text().splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
        return bool(caught >> (signal.SIGTERM - 1) & 1)


class Fleets:
    """Some supervisors that share a store."""

    def __init__(
        self,
        url: str,
        log: Path,
        app: str = "tests.proof.kill_shop:jobs",
        number: int = 2,
        errors: Path | None = None,
        cuts: Path | None = None,
        clocks: Sequence[WallClock] = (),
    ) -> None:
        """``errors``: the file that gets what they log; ``cuts``: they lose answers, and this file gets how many."""
        self._errors = Path(os.devnull) if errors is None else errors
        self._app = app
        self._number = number
        self._cuts = cuts
        self._clocks = clocks
        lossy = {} if cuts is None else {"KILL_SHOP_CUTS": str(cuts)}
        self._environment = os.environ | {"KILL_SHOP_URL": url, "KILL_SHOP_LOG": str(log), **lossy}
        self._fleets: list[_Fleet] = []
        self._strays: list[tuple[int, str]] = []  # pids are used again: with the moments at which they were started
        self._paused: list[threading.Timer] = []
        self._done: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._fleets = [self._start(number) for number in range(self._number)]
        return self

    def __exit__(self, *_: object) -> None:
        for fleet in self._fleets:
            _signal(fleet.family(), signal.SIGKILL)
            fleet.supervisor.wait()
        _signal([pid for pid, started in self._strays if _started(pid) == started], signal.SIGKILL)
        self._resume()

    @property
    def faults(self) -> dict[str, int]:
        """What was done to them so far, in the words of `tests.proof.totals`."""
        cuts = {} if self._cuts is None else {"cut replies": cuts_of(self._cuts)}
        return dict(sorted(self._done.items())) | cuts

    def strike(self, blow: str, dice: random.Random) -> None:
        number = dice.randrange(len(self._fleets))
        fleet = self._fleets[number]
        family = fleet.family()
        match blow:
            case "child":
                self._kill([dice.choice(family[1:])] if family[1:] else [], "kills of workers")
                return
            case "pause":
                self._pause(dice.choice([family, family[-1:]]), dice.uniform(*_PAUSE))
                return
            case "jump":
                self._jump(self._clocks[number % len(self._clocks)], dice)
                return
            case "supervisor":
                self._strays += [(pid, _started(pid)) for pid in family[1:]]  # they drain by themselves
                self._kill(family[:1], "kills of supervisors")
            case "group":
                self._kill(family[:1], "kills of supervisors")
                self._kill(family[1:], "kills of workers")
            case "restart":
                self._done["deploys"] += 1
                fleet.supervisor.send_signal(signal.SIGTERM)
        fleet.supervisor.wait()
        self._fleets[number] = self._start(number)

    def _kill(self, pids: list[int], counts_as: str) -> None:
        self._done[counts_as] += _signal(pids, signal.SIGKILL)

    def _pause(self, pids: list[int], seconds: float) -> None:
        """Stop processes for so long, while other blows fall."""
        known = [(pid, _started(pid)) for pid in pids]
        self._done["pauses"] += _signal(pids, signal.SIGSTOP) > 0
        timer = threading.Timer(
            seconds, lambda: _signal([pid for pid, at in known if _started(pid) == at], signal.SIGCONT)
        )
        self._paused.append(timer)
        timer.start()

    def _resume(self) -> None:
        """Wait until nothing is paused any more."""
        for timer in self._paused:
            timer.join()
        self._paused.clear()

    def _jump(self, clock: WallClock, dice: random.Random) -> None:
        self._done["clock jumps"] += 1
        clock.set_ahead(dice.choice([ahead for ahead in (-HOUR, 0, HOUR) if ahead != clock.ahead]))

    def await_life(self, client: Onward, log: Path, seconds: float) -> None:
        """Until something runs again, and a little longer: the next blow must find a worker at work."""
        size, deadline = log.stat().st_size, time.monotonic() + 10
        while log.stat().st_size == size and time.monotonic() < deadline and client.counts()[State.AVAILABLE]:
            time.sleep(0.01)
        time.sleep(seconds)

    def stop(self) -> list[int]:
        """The exit codes of a polite stop."""
        self._resume()
        for fleet in self._fleets:
            while not fleet.is_up():  # it may have been started just now, and the signal would kill it
                time.sleep(0.01)
            fleet.supervisor.send_signal(signal.SIGTERM)
        return [fleet.supervisor.wait() for fleet in self._fleets]

    def _start(self, number: int) -> _Fleet:
        command = [sys.executable, "-m", "onward", "worker", self._app, "--quiet"]
        options = ["--processes", "2", "--concurrency", "4", "--shutdown-timeout", "5s"]
        clock = self._clocks[number % len(self._clocks)].environment() if self._clocks else {}
        with self._errors.open("ab") as errors:
            popen = subprocess.Popen([*command, *options], env=self._environment | clock, stderr=errors)
        return _Fleet(popen)


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def _started(pid: int) -> str:
    """When it was; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _signal(pids: list[int], number: int) -> int:
    """Send a signal; gives how many processes were there to get it."""
    sent = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            sent += 1
    return sent


def wait_until_finished(client: Onward, *, deadline: float, tell: Tell) -> int:
    """How many jobs are still not finished at the deadline."""
    while live := sum(client.counts()[state] for state in State if state not in _ENDS):
        if time.monotonic() > deadline:
            return live
        tell(-live)
        time.sleep(0.2)
    return 0


_ENDS = (State.COMPLETED, State.DISCARDED, State.CANCELLED)


def _judge(
    client: Onward,
    url: str,
    log: Path,
    ids: list[str],
    faults: dict[str, int],
    codes: list[int],
    unfinished: int,
    seconds: float,
) -> Ledger:
    runs = Counter(tuple(line.split()) for line in log.read_text().splitlines())
    of_job: Counter[str] = Counter()
    for (job_id, _), count in runs.items():
        of_job[job_id] += count
    records = [record for job_id in ids if (record := client.get(job_id)) is not None]
    figures: dict[str, float] = {
        "jobs": len(ids),
        **faults,
        "runs": runs.total(),
        "crashes": sum(record.crashes for record in records),
        "interruptions": sum(record.interruptions for record in records),
        "seconds until all was finished": seconds,
    }
    flaws = {
        "lost": len(ids) - len(records) + unfinished,
        "not completed": sum(record.state is not State.COMPLETED for record in records) - unfinished,
        "begun twice under one delivery": sum(count > 1 for count in runs.values()),
        "settled twice or not": sum(record.attempts != _ATTEMPTS.get(record.job, 1) for record in records),
        "run twice without a cause": sum(_unexplained(record, of_job[record.id]) > 0 for record in records),
        "stops that were not polite": sum(code != 0 for code in codes),
    }
    return Ledger(f"worker processes killed on {scheme_of(url)}", figures, flaws, damage_of(url))


def _unexplained(record: JobRecord, runs: int) -> int:
    return runs - record.attempts - record.crashes - record.interruptions
