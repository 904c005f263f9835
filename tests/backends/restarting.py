"""Servers that restart and sessions that are ended, asked of each: nothing is lost, nothing is settled twice."""

import os
import threading
import time
from collections import Counter

import pytest

from onward import Onward, State

SCALE = float(os.environ.get("ONWARD_PROOF_SCALE", "0.05"))
CUTS = round(200 * SCALE)
BETWEEN = 20  # jobs that are enqueued from one blow to the next


class Restarts:
    """Fixtures: ``own_server``, which may be restarted, and its ``own_url`` with an empty store."""

    engine: str
    crash_every = 2  # the other restarts are polite
    restarts = max(2, round(20 * SCALE))

    def restart(self, server, at):
        """Restart the server; ``at`` counts the restarts before."""
        raise NotImplementedError

    def cut(self, server):
        """End all sessions of workers."""
        raise NotImplementedError

    @pytest.mark.promise("F25", "F26", "F27", "F28", "F30")
    @pytest.mark.timeout(120 + 1_800 * SCALE)
    def test_restarts_and_ended_sessions_lose_nothing_and_settle_nothing_twice(
        self, own_server, own_url, store_name, report
    ):
        blows = [self.cut] * CUTS
        for at in range(self.restarts):
            place = (at + 1) * len(blows) // (self.restarts + 1)
            blows.insert(place, lambda server, at=at: self.restart(server, at))
        ran = Counter()
        with Onward(own_url) as jobs:

            @jobs.job(max_retries=0)
            def work(number: int) -> int:
                ran[number] += 1
                return number

            handles, slowest = [], 0.0
            with jobs.worker(concurrency=4):
                for blow in blows:
                    at_once = threading.Thread(target=blow, args=(own_server,))
                    at_once.start()
                    handles += [work.enqueue(number) for number in range(len(handles), len(handles) + BETWEEN)]
                    at_once.join()
                    after = time.monotonic()
                    work.enqueue(-1).result(timeout=30)
                    slowest = max(slowest, time.monotonic() - after)
                results = [handle.result(timeout=30) for handle in handles]

            counts = jobs.counts()
            assert results == list(range(len(handles)))
            assert counts[State.COMPLETED] == len(handles) + len(blows)
            assert sum(counts.values()) == counts[State.COMPLETED]
            assert {jobs.get(handle.id).attempts for handle in handles} == {1}
        again = sum(count - 1 for number, count in ran.items() if number >= 0)
        report(
            f"{store_name}: {self.restarts} restarts and {CUTS} times all sessions ended under load: "
            f"{len(handles)} jobs, none lost, {again} run again, at work again after {slowest:.1f} s at most",
            self.engine,
            {
                "jobs": len(handles) + len(blows),
                "kills of servers": len(range(0, self.restarts, self.crash_every)),
                "cut replies": CUTS,
                "lost": 0,  # or the test had failed above
                "settled twice": 0,
            },
        )
        assert slowest < 25  # five times what is promised
