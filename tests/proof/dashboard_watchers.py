"""Fifty people watch the dashboard: they cost one look in two seconds, and the queue keeps its throughput.

A worker in this process runs jobs that do nothing, by turns while nobody watches and while everybody does; the two rounds of
a pair are compared, where there are enough of them: few agree by chance.  The dashboard is `onward web`, a process of its
own, and so are its watchers, each of whom asks every two seconds as a page does.  Every look has an ETag of its own, so the
watchers count the looks.  What the dashboard takes of a core is measured, whatever else happens on the machine.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from onward import Onward
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger
from tests.proof.processor import seconds_of
from tests.proof.turns import compared

__all__ = ["of_a_file"]

LEAST = 0.98  # of the throughput that there is when nobody watches
ENOUGH = 8  # pairs, for a comparison to be judged
MOST = 0.05  # of a core, for answering all of them
WATCHERS = 50
EVERY = 2.0  # seconds
LONG_ENOUGH = 3 * EVERY  # for a mean of what watching costs, however soon the jobs are done
_PATIENCE = 120.0

_CROWD = """
import http.client, sys, threading, time, urllib.parse
address, token, watchers = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2], int(sys.argv[3])
every, asked, wrong, looks, lock = float(sys.argv[4]), 0, 0, set(), threading.Lock()

def watch(number):
    global asked, wrong
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}"}
    time.sleep(every * number / watchers)  # people do not come at the same moment
    while True:
        connection.request("GET", "/api/v1/pulse", headers=headers)
        answer = connection.getresponse()
        answer.read()
        if tag := answer.headers.get("ETag"):
            headers["If-None-Match"] = tag
        with lock:
            looks.add(tag)
            asked, wrong = asked + 1, wrong + (answer.status not in (200, 304))
            if asked == watchers:
                print("all are there", flush=True)
        time.sleep(every)

for number in range(watchers):
    threading.Thread(target=watch, args=(number,), daemon=True).start()
sys.stdin.read()
with lock:
    print(asked, wrong, len(looks), flush=True)
"""


class Crowd(NamedTuple):
    """What all watchers have seen, while they were there."""

    seconds: float
    of_a_core: float  # that the dashboard takes
    asked: int
    refused: int
    looks: int


def of_a_file(folder: Path, *, jobs: int, pairs: int, tell: Tell) -> Ledger:
    """Compare so many pairs of rounds, each of so many jobs."""
    url = f"sqlite:///{folder / 'jobs.db'}"
    rates: dict[bool, list[float]] = {False: [], True: []}
    crowds: list[Crowd] = []
    with Onward(url) as app:
        labour = _Labour(app)
        for number in range(pairs):
            # Every other pair begins with the watched round: a file that grows slower is so for both.
            for is_watched in (number % 2 == 1, number % 2 == 0):
                with _watched(url, crowds) if is_watched else nullcontext():
                    rates[is_watched].append(labour.rate(jobs))
                tell(sum(map(len, rates.values())) * jobs)
    return _ledger(rates, crowds)


def _ledger(rates: dict[bool, list[float]], crowds: list[Crowd]) -> Ledger:
    against = compared([watched / alone for alone, watched in zip(rates[False], rates[True], strict=True)])
    looks, seconds = sum(each.looks for each in crowds), sum(each.seconds for each in crowds)
    of_a_core = statistics.mean(each.of_a_core for each in crowds)
    return Ledger(
        f"{WATCHERS} watchers of the dashboard of a file",
        {
            "pairs of rounds": len(crowds),
            "jobs a second alone": statistics.median(rates[False]),
            "watched": statistics.median(rates[True]),
            "throughput, % of unwatched": 100 * against.ratio,
            "plus or minus": 100 * against.error,
            "watched for": seconds,
            "pictures": sum(each.asked for each in crowds),
            "looks": looks,
            "% of one core": 100 * of_a_core,
        },
        {
            "looks too soon": max(0, looks - sum(1 + int(each.seconds / EVERY) for each in crowds)),
            "answers take too much of a core": int(of_a_core > MOST),
            "throughput is lost": int(len(crowds) >= ENOUGH and against.is_surely_below(LEAST)),
            "refused": sum(each.refused for each in crowds),
        },
        [] if looks else ["no look was made"],
    )


class _Labour:
    def __init__(self, app: Onward) -> None:
        self._app = app
        self._left = 0
        self._lock = threading.Lock()
        self._over = threading.Event()

        @app.job(queue="work")
        def work() -> None:
            with self._lock:
                self._left -= 1
                if not self._left:
                    self._over.set()

        self._work = work

    def rate(self, jobs: int) -> float:
        """Return how many of so many jobs run in a second."""
        self._left = jobs
        self._over.clear()
        self._work.enqueue_many([()] * jobs)
        began = time.monotonic()
        with self._app.worker(queues=["work"]):
            if not self._over.wait(_PATIENCE + jobs / 100):
                raise TimeoutError("the jobs do not end")
            return jobs / (time.monotonic() - began)


@contextmanager
def _watched(url: str, crowds: list[Crowd]) -> Iterator[None]:
    """Let everybody watch, from when each has asked once; what they have seen is added to the list afterwards."""
    web = [sys.executable, "-m", "onward", "--url", url, "web", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(web, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address, _, token = server.stdout.readline().strip().partition("#token=")
            crowd = [sys.executable, "-c", _CROWD, address, token, str(WATCHERS), str(EVERY)]
            with subprocess.Popen(crowd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as people:
                began = time.monotonic()
                assert people.stdout is not None
                assert people.stdout.readline() == "all are there\n"
                complete, taken = time.monotonic(), seconds_of(server.pid)
                yield
                time.sleep(max(0.0, complete + LONG_ENOUGH - time.monotonic()))
                of_a_core = (seconds_of(server.pid) - taken) / (time.monotonic() - complete)
                told, _ = people.communicate("", timeout=_PATIENCE)
            crowds.append(Crowd(time.monotonic() - began, of_a_core, *map(int, told.split())))
        finally:
            server.terminate()
