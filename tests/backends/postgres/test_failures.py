"""Named failures of other systems, against the real server: lost answers, wrong clocks, winners that take it back."""

import os
import threading
import time

import psycopg
import pytest

from onward import Onward
from onward.testing.contract.builders import a_claim, an_envelope

SCALE = float(os.environ.get("ONWARD_PROOF_SCALE", "0.02"))


@pytest.mark.promise("F28")
@pytest.mark.timeout(120 + 600 * SCALE)
def test_every_enqueue_whose_answer_was_lost_stores_one_job(proxy, backend, report):
    """The client sends it again under the same id."""
    count = round(1_000 * SCALE)
    with Onward(proxy.url) as jobs:
        jobs.enqueue("work")
        for _ in range(count):
            proxy.lose_the_next_answer()
            jobs.enqueue("work")

    stored = backend.counts()["available"] - 1
    counts = {
        "jobs": count,
        "cut replies": count,
        "lost": max(0, count - stored),
        "effects doubled": max(0, stored - count),
    }
    report(f"{count} enqueues whose answers were lost on PostgreSQL: {stored} jobs", "postgres", counts)
    assert backend.counts()["available"] == count + 1


@pytest.mark.promise("F41", "F42")
@pytest.mark.parametrize("skew", [-3600, 3600])
def test_a_process_whose_clock_is_wrong_takes_nothing_early_and_nothing_from_the_living(start, open_backend, skew):
    neighbour = open_backend(clock=None)
    neighbour.enqueue([held := an_envelope(queue="held")])
    (lease,) = neighbour.claim(a_claim(owner="neighbour", queues=("held",)))
    neighbour.enqueue([due := an_envelope(), an_envelope(delay=60)])

    said = start(_WRONG_CLOCK, skew).stdout.read().split()

    assert said == ["claimed", due.id, "reaped", "none", "early", "none"]
    assert neighbour.ack(lease).applied
    assert lease.envelope.id == held.id


_WRONG_CLOCK = """
    import sys, time

    skew = int(sys.argv[2])
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + skew
    time.time_ns = lambda: real_ns() + skew * 1_000_000_000

    from onward.backends.postgres import PostgresBackend
    from onward.testing.contract.builders import a_claim, an_envelope

    backend = PostgresBackend.from_url(sys.argv[1])
    print("claimed", *[lease.envelope.id for lease in backend.claim(a_claim(owner="me", limit=9))])
    print("reaped", *[each.id for each in backend.reap()] or ["none"])
    backend.enqueue([an_envelope(queue="later", delay=60)])
    print("early", *[lease.envelope.id for lease in backend.claim(a_claim(owner="me", queues=("later",)))] or ["none"])
"""


@pytest.mark.promise("F71", "F72")
@pytest.mark.parametrize("strategy", ["ignore_new", "cancel_existing"])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_rival_for_a_unique_key_that_takes_it_back_leaves_the_key_to_us(backend, url, sql, ends, strategy):
    """A transaction in the way is waited for, and believed only once it has committed."""
    envelope = an_envelope(unique_key="k", unique_strategy=strategy)
    answers = []
    with psycopg.connect(url) as rival:
        rival.execute(
            "INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed, "
            "unique_key, key_held) VALUES ('rival', 'default', 'available', 0, 0, 3, 0, 'work', '', %(key)s, %(key)s)",
            {"key": envelope.unique_key},
        )
        enqueueing = threading.Thread(target=lambda: answers.extend(backend.enqueue([envelope])))
        enqueueing.start()
        _until(lambda: sql("SELECT 1 FROM pg_locks WHERE NOT granted"))
        getattr(rival, ends)()
    enqueueing.join(30)

    (answer,) = answers
    stored = {job_id for (job_id,) in sql("SELECT id FROM onward_jobs")}
    if (ends, strategy) == ("commit", "ignore_new"):
        assert (answer.created, answer.existing_id) == (False, "rival")
        assert stored == {"rival"}
    else:
        assert answer.created
        assert stored == {envelope.id}


def _until(fact, patience=30):
    deadline = time.monotonic() + patience
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.005)
