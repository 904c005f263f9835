"""A server and connections that are killed while a worker works: nothing is lost, nothing is settled twice."""

import os
import threading
import time
from collections import Counter

import pytest

from onward import Onward, State

SCALE = float(os.environ.get("ONWARD_PROOF_SCALE", "0.05"))
RESTARTS, KILLS = max(3, round(60 * SCALE)), round(200 * SCALE)
BETWEEN = 20  # jobs that are enqueued from one blow to the next


@pytest.mark.promise("F25", "F26", "F27", "F28")
@pytest.mark.timeout(120 + 1_800 * SCALE)
def test_killed_servers_and_connections_lose_nothing_and_settle_nothing_twice(own_server, report):
    """Everything was appended to the file before it was answered; memory outlives the server."""
    blows = [_kill_connections] * KILLS
    for at in range(RESTARTS):
        blows.insert((at + 1) * len(blows) // (RESTARTS + 1), lambda server: server.restart())
    ran = Counter()
    with Onward(own_server.url()) as jobs:

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
        f"{own_server.product.capitalize()}: killed {RESTARTS} times, all connections {KILLS} times, under load: "
        f"{len(handles)} jobs, none lost, {again} run again, at work again after {slowest:.1f} s at most"
    )
    assert slowest < 25  # five times the figure: it comes back within 5 s


def _kill_connections(server):
    with server.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
