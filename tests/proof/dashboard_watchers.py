"""Fifty people watch the dashboard: the queue keeps its throughput.

A worker in this process runs jobs that do nothing, in turns while nobody watches and while everybody does.  The dashboard is
`onward web`, a process of its own, and so are its watchers, each of whom asks every two seconds as a page does.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onward import Onward
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger

__all__ = ["of_a_file"]

LEAST = 0.98  # of the throughput that there is when nobody watches
WATCHERS = 50
_PATIENCE = 120.0

_CROWD = """
import http.client, sys, threading, time, urllib.parse
address, token, watchers = urllib.parse.urlsplit(sys.argv[1]), sys.argv[2], int(sys.argv[3])
asked, wrong, lock = 0, 0, threading.Lock()

def watch(number):
    global asked, wrong
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    headers = {"Authorization": f"Bearer {token}"}
    time.sleep(2.0 * number / watchers)  # people do not come at the same moment
    while True:
        connection.request("GET", "/api/v1/pulse", headers=headers)
        answer = connection.getresponse()
        answer.read()
        if tag := answer.headers.get("ETag"):
            headers["If-None-Match"] = tag
        with lock:
            asked, wrong = asked + 1, wrong + (answer.status not in (200, 304))
        time.sleep(2.0)

for number in range(watchers):
    threading.Thread(target=watch, args=(number,), daemon=True).start()
sys.stdin.read()
print(asked, wrong)
"""


def of_a_file(folder: Path, *, jobs: int, rounds: int, tell: Tell) -> Ledger:
    """Compare the two rates, in turns, so that what else happens on the machine meets both."""
    url = f"sqlite:///{folder / 'jobs.db'}"
    rates: dict[bool, list[float]] = {False: [], True: []}
    asked = wrong = 0
    with Onward(url) as app:
        run = _Labour(app)
        for number in range(rounds):
            for watched in (number % 2 == 0, number % 2 == 1):
                if watched:
                    with _watched(url) as crowd:
                        rates[True].append(run.rate(jobs))
                    asked, wrong = asked + crowd[0], wrong + crowd[1]
                else:
                    rates[False].append(run.rate(jobs))
                tell(sum(map(len, rates.values())) * jobs)
    alone, together = (statistics.median(rates[watched]) for watched in (False, True))
    figures = {
        "jobs a second alone": alone,
        "watched": together,
        "ratio": together / alone,
        "pictures asked for": asked,
    }
    return Ledger(
        f"{WATCHERS} watchers of a file", figures, {"slower than 2 %": together < LEAST * alone, "refused": wrong}
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
def _watched(url: str) -> Iterator[list[int]]:
    """Let everybody watch; what they asked for, and what was refused, is in the list afterwards."""
    counted: list[int] = []
    web = [sys.executable, "-m", "onward", "--url", url, "web", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(web, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address, _, token = server.stdout.readline().strip().partition("#token=")
        crowd = [sys.executable, "-c", _CROWD, address, token, str(WATCHERS)]
        with subprocess.Popen(crowd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as people:
            yield counted
            told, _ = people.communicate("", timeout=_PATIENCE)
            counted += map(int, told.split())
        server.terminate()
