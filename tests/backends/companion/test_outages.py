"""A worker meets the death of its broker and the absence of its store, and loses nothing."""

import threading
from collections import Counter

import pytest

from onward import Fixed, Onward
from onward.errors import BackendUnavailable
from onward.testing.contract.builders import a_lease
from tests.servers.beanstalkd import beanstalkd_server
from tests.waiting import eventually

JOBS = 150


@pytest.mark.promise("F25", "F66")
def test_a_worker_goes_on_after_its_broker_was_killed_and_its_store_was_away(tmp_path, monkeypatch, report):
    runs, refused = Counter(), threading.Event()
    gates = [threading.Event() for _ in range(2)]  # the first third runs freely, the others are held up

    def away(*args, **kwargs):
        refused.set()
        raise BackendUnavailable("the store is away")

    with beanstalkd_server() as server, Onward(server.url(), store=f"sqlite:///{tmp_path / 'onward.db'}") as jobs:

        @jobs.job(retry=Fixed(1), max_retries=3)
        def work(number: int):
            runs[number] += 1
            if number >= JOBS // 3:
                gates[number >= 2 * JOBS // 3].wait(60)
            if number % 10 == 0 and runs[number] == 1:
                raise ValueError("once")

        for number in range(JOBS):
            work.enqueue(number)
        with jobs.worker(concurrency=4):
            eventually(lambda: len(runs) > JOBS // 3)
            server.restart()  # by SIGKILL
            gates[0].set()
            eventually(lambda: len(runs) > 2 * JOBS // 3)
            with monkeypatch.context() as outage:
                for verb in ("turn", "take", "extend", "open_session"):
                    outage.setattr(jobs.backend.store, verb, away)
                gates[1].set()
                assert refused.wait(60)
            eventually(lambda: jobs.counts()["completed"] == JOBS, what=lambda: str(jobs.counts()))

        attempts = Counter(record.attempts for record in jobs.list(limit=JOBS))
        assert set(attempts) <= {1, 2}, "something was settled that had not run"
        again = sum(runs.values()) - JOBS - JOBS // 10
    report(f"companion worker: {JOBS} jobs, broker killed, store away: all completed, {again} run again")


def test_messages_are_renewed_even_if_only_a_supervisor_renews_the_session(backend, monkeypatch):
    renewed = []
    extend = backend.broker.extend

    def watched(owner):
        renewed.append(owner)
        return extend(owner)

    monkeypatch.setattr(backend._deliveries, "_pause", lambda: 0.01)
    monkeypatch.setattr(backend.broker, "extend", watched)
    lease = a_lease(backend)

    eventually(lambda: renewed)

    assert backend.ack(lease).applied
