"""Transactions, half of them rolled back, and handlers that are killed at every step of theirs: each effect exactly once."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from onward import Onward, State
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger
from tests.proof.once_shop import STEPS

__all__ = ["of_completions", "of_enqueues"]

_PATIENCE = 600.0
_WORKERS = 8
_ENDS = (State.COMPLETED, State.DISCARDED, State.CANCELLED)

Connect = Callable[[], Any]  # to the database that the jobs are in


def of_enqueues(name: str, url: str, connect: Connect, *, jobs: int) -> Ledger:
    """Each in a transaction; every second one is rolled back."""
    ran: list[int] = []
    with closing(Onward(url)) as app, closing(connect()) as connection:

        @app.job
        def note(number: int) -> None:
            ran.append(number)

        for number in range(jobs):
            with app.transaction(connection) as tx:
                tx.enqueue(note, number)
            if number % 2:
                connection.rollback()
            else:
                connection.commit()
        with app.worker():
            _wait(app, deadline=time.monotonic() + _PATIENCE, tell=lambda _: None)
    counted = Counter(ran)
    flaws = {
        "committed and not run": sum(counted[number] == 0 for number in range(0, jobs, 2)),
        "rolled back and run": sum(counted[number] > 0 for number in range(1, jobs, 2)),
        "run twice": sum(count > 1 for count in counted.values()),
    }
    return Ledger(f"enqueues in transactions, {name}", {"transactions": jobs, "run": len(ran)}, flaws)


def of_completions(name: str, url: str, connect: Connect, folder: Path, *, jobs: int, tell: Tell) -> Ledger:
    """Handlers complete their jobs in transactions; of eight, seven are killed, each at another step."""
    (deaths := folder / "deaths").mkdir()
    steps = list(itertools.islice(itertools.cycle([*STEPS, None]), jobs))
    with closing(Onward(url, max_crashes=1000)) as client:
        charges = [client.enqueue("charge", {"order": order, "dies": dies}) for order, dies in enumerate(steps)]
        begun = time.monotonic()
        with _at_work(url, deaths) as nursery:
            unfinished = _wait(client, deadline=begun + _PATIENCE, tell=tell)
        seconds = time.monotonic() - begun
        records = [handle.record() for handle in charges]
        receipts = Counter(job.payload["order"] for job in _all(client, "receipt"))
    with closing(connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT label FROM effects")
        effects = Counter(int(label) for (label,) in cursor.fetchall())
    killed = sum(1 for _ in deaths.iterdir())
    figures = {
        "completions": jobs,
        "kills of workers": killed,
        "crashes": sum(record.crashes for record in records),
        "effects": effects.total(),
        "seconds": seconds,
    }
    flaws = {
        "not completed": sum(record.state is not State.COMPLETED for record in records),
        "not killed": sum(dies is not None for dies in steps) - killed,
        "unfinished": unfinished,
        "effects missing": sum(effects[order] == 0 for order in range(jobs)),
        "effects doubled": sum(count > 1 for count in effects.values()),
        "children missing": sum(receipts[order] == 0 for order in range(jobs)),
        "children twice": sum(count > 1 for count in receipts.values()),
        "results missing": sum(record.result != order for order, record in enumerate(records)),
        "counted more than once": sum(record.attempts != 1 for record in records),
        "stops that were not polite": int(nursery.returncode != 0),
    }
    return Ledger(f"completions in transactions, {name}", figures, flaws)


@contextmanager
def _at_work(url: str, deaths: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Workers, for as long as the block lasts."""
    command = [sys.executable, "-m", "tests.proof.once_shop", str(_WORKERS)]
    environment = os.environ | {"ONCE_SHOP_URL": url, "ONCE_SHOP_DEATHS": str(deaths)}
    nursery = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        yield nursery
        nursery.terminate()
        nursery.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(nursery.pid, signal.SIGKILL)
        nursery.wait()


def _wait(client: Onward, *, deadline: float, tell: Tell) -> int:
    """How many jobs are still not finished at the deadline."""
    told = 0
    while live := sum(count for state, count in client.counts().items() if state not in _ENDS):
        if time.monotonic() > deadline:
            return live
        if live // 100 != told // 100:
            tell(told := live)
        time.sleep(0.05)
    return 0


def _all(client: Onward, job: str) -> list[Any]:
    found: list[Any] = []
    while page := client.list(job=job, limit=500, after=found[-1].id if found else None):
        found += page
    return found
