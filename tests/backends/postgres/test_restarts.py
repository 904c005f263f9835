"""A server that restarts and sessions that are ended, while a worker works: nothing is lost, nothing is settled twice."""

import os
import threading
import time
from collections import Counter

import psycopg
import pytest

from onward import Onward, State
from tests.servers.postgres import postgres_server

SCALE = float(os.environ.get("ONWARD_PROOF_SCALE", "0.05"))
RESTARTS, TERMINATIONS = max(2, round(20 * SCALE)), round(200 * SCALE)
BETWEEN = 20  # jobs that are enqueued from one blow to the next


@pytest.fixture
def own_server(postgres):
    with postgres_server(postgres.version) as server:
        yield server


@pytest.mark.promise("F25", "F26", "F27", "F28", "F30")
@pytest.mark.timeout(120 + 1_800 * SCALE)
def test_restarts_and_ended_sessions_lose_nothing_and_settle_nothing_twice(own_server, report):
    blows = [_terminate] * TERMINATIONS
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
        f"PostgreSQL {own_server.version}: {RESTARTS} restarts and {TERMINATIONS} times all sessions ended under load: "
        f"{len(handles)} jobs, none lost, {again} run again, at work again after {slowest:.1f} s at most"
    )
    assert slowest < 25  # the promise is 5


def _terminate(server):
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'onward%'"
        )
