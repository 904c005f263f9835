"""A store that is away, answers with errors, is locked, or is another one by now: work stops, says so, and goes on."""

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from onward import Onward, State
from onward.attempt.attempt import Attempt
from onward.backend import Sealed
from onward.errors import BackendError, BackendMisconfigured, BackendUnavailable
from onward.job.lease import Lease
from onward.job.outcome import Done
from onward.worker import breaker
from onward.worker.breaker import StoreBreaker

AWAY = BackendUnavailable("away")
BROKEN = BackendError("it answers, but with an error")
sqlite = pytest.mark.parametrize("store", ["sqlite"])


@pytest.fixture
def quick(monkeypatch):
    """The first tries follow each other at once."""
    monkeypatch.setattr(breaker, "_FIRST_PAUSE", 0.002)


class TestTheBreaker:
    @pytest.mark.promise("S41")
    def test_five_errors_in_a_row_open_it_for_a_minute(self):
        circuit = StoreBreaker()

        pauses = [circuit.failure(BROKEN) for _ in range(5)]

        assert max(pauses[:4]) <= 2
        assert pauses[4] == 60
        assert circuit.open

    @pytest.mark.promise("S41")
    def test_one_probe_that_fails_leaves_it_open(self):
        circuit = StoreBreaker()
        for _ in range(5):
            circuit.failure(BROKEN)

        assert circuit.failure(BROKEN) == 60
        assert circuit.open

    @pytest.mark.promise("S41")
    def test_a_success_closes_it(self):
        circuit = StoreBreaker()
        for _ in range(5):
            circuit.failure(BROKEN)

        circuit.success()

        assert not circuit.open
        assert circuit.failure(BROKEN) <= 0.05

    @pytest.mark.promise("S41")
    def test_four_errors_and_a_success_are_no_row(self):
        circuit = StoreBreaker()
        for _ in range(20):
            for _ in range(4):
                circuit.failure(BROKEN)
            circuit.success()

        assert not circuit.open

    def test_a_store_that_is_away_never_opens_it(self):
        circuit = StoreBreaker()

        pauses = [circuit.failure(AWAY) for _ in range(100)]

        assert not circuit.open
        assert max(pauses) <= 2

    def test_the_pauses_grow(self):
        circuit = StoreBreaker()

        pauses = [circuit.failure(AWAY) for _ in range(10)]

        assert pauses[0] <= 0.05
        assert min(pauses[6:]) >= 1

    @pytest.mark.promise("F40")
    def test_a_fleet_does_not_come_back_in_step(self):
        """A thousand workers lose their store at the same moment: their tries are spread over the whole pause."""
        tries = []
        for _ in range(1_000):
            circuit = StoreBreaker()
            tries.append(sum(circuit.failure(AWAY) for _ in range(8)))

        spread = max(tries) - min(tries)
        assert spread > 1
        fullest = max(sum(at <= other < at + 0.1 for other in tries) for at in tries)
        assert fullest < 250


@pytest.mark.promise("S41")
def test_a_store_that_answers_with_errors_is_left_alone_and_probed_once(open_app_on, work_on, weather_of, quick):
    weather = weather_of("turn", "open_session")
    jobs = open_app_on(weather.mixin)

    @jobs.job
    def work(): ...

    worker = work_on(jobs, breaker=StoreBreaker(open_for=0.4))
    worker.milestones.wait_for("idle")
    weather.error = BROKEN
    work.enqueue()
    worker.milestones.wait_for("unanswered", 5)
    asked, opened = weather.failed, time.monotonic()
    worker.milestones.wait_for("unanswered", 6)
    assert weather.failed == asked + 1  # one probe
    assert time.monotonic() - opened >= 0.35
    weather.error = None

    worker.milestones.wait_for("settled")
    assert not worker._pump.recovery.breaker.open


@pytest.mark.promise("S41")
def test_nothing_cuts_the_minute_short(open_app_on, work_on, weather_of, quick):
    weather = weather_of("turn", "open_session")
    jobs = open_app_on(weather.mixin)

    @jobs.job
    def work(): ...

    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    weather.error = BROKEN
    worker._pump.wake()
    worker.milestones.wait_for("unanswered", 5)
    asked = weather.failed
    for _ in range(20):
        work.enqueue()
        worker._pump.wake()
        worker.wait(0.02)
    assert weather.failed == asked
    weather.error = None


@pytest.mark.promise("F25")
def test_consumption_resumes_when_the_store_is_back(open_app_on, work_on, weather_of, count_of, caplog):
    weather = weather_of()
    jobs = open_app_on(weather.mixin)

    @jobs.job
    def work(n: int): ...

    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    for outage in range(5):
        weather.error = AWAY
        worker._pump.wake()
        worker.milestones.wait_for("unanswered", worker.milestones.count("unanswered") + 2)
        weather.error = None
        back = time.monotonic()
        work.enqueue_many([(n,) for n in range(10)])
        worker.milestones.wait_for("settled", 10 * (outage + 1))
        assert time.monotonic() - back < 5

    assert count_of(jobs) == {"completed": 50}
    assert "the store did not answer (BackendUnavailable: away)" in caplog.text


@pytest.mark.promise("F25", "F47")
def test_a_file_that_is_locked_for_long(file, clock, work_on, count_of, caplog):
    with Onward(f"sqlite:///{file}?busy_timeout=0.2", clock=clock) as jobs:

        @jobs.job
        def work(n: int): ...

        worker = work_on(jobs)
        worker.milestones.wait_for("idle")
        work.enqueue_many([(n,) for n in range(5)])
        worker.milestones.wait_for("settled", 5)
        with sqlite3.connect(file, isolation_level=None) as rude:
            rude.execute("BEGIN IMMEDIATE")
            worker._pump.finished(_nothing_to_settle(worker))
            worker.milestones.wait_for("unanswered", 2)
            assert worker.running
            rude.execute("ROLLBACK")
        rude.close()
        back = time.monotonic()
        work.enqueue_many([(n,) for n in range(5)])
        worker.milestones.wait_for("adopted")
        worker.milestones.wait_for("settled", 11)

        assert time.monotonic() - back < 5
        assert count_of(jobs) == {"completed": 10}
        assert "another process holds the write lock" in caplog.text
        assert worker.stop() == []


def _nothing_to_settle(worker):
    """A settlement that the store will not know: it makes the worker write."""
    lease = Lease(
        envelope=Sealed("0" * 32, "default", b""), token=1, owner=worker._session.owner, expires_at=0, claimed_at=0
    )
    return Attempt(lease=lease, outcome=Done())


@sqlite
@pytest.mark.promise("F25")
def test_a_file_that_was_replaced_is_another_store(file, url, clock, open_app, work_on, gate, eventually, caplog):
    jobs = open_app()
    done = []

    @jobs.job
    def slow():
        gate.pass_through()

    @jobs.job
    def work(n: int):
        done.append(n)

    slow.enqueue()
    worker = work_on(jobs)
    gate.wait_for()
    for each in file.parent.iterdir():
        if not each.name.endswith("-wake"):
            each.rename(each.with_name(f"old-{each.name}"))
    with Onward(url, clock=clock) as fresh:
        fresh.enqueue("work", {"n": 7})

    worker.milestones.wait_for("reopened")
    eventually(lambda: done == [7])
    gate.open()
    worker.milestones.wait_for("settled", 2)
    assert "the session is gone: it was reaped, or this is another store" in caplog.text
    assert jobs.metrics.count("leases_lost") == 1


@sqlite
@pytest.mark.promise("F25")
def test_a_file_that_was_deleted_is_missed_and_its_return_noticed(file, url, clock, open_app, work_on, caplog):
    jobs = open_app()

    @jobs.job
    def work(): ...

    work.enqueue()
    worker = work_on(jobs, breaker=StoreBreaker(open_for=0.2))
    worker.milestones.wait_for("settled")
    worker.milestones.wait_for("idle")
    saved = file.with_name("saved.db")
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(saved)) as target:
        source.backup(target)
    for each in (file, Path(f"{file}-wal"), Path(f"{file}-shm")):
        each.unlink(missing_ok=True)
    worker.milestones.wait_for("unanswered", worker.milestones.count("unanswered") + 3)
    assert worker.running
    assert "the file is gone" in caplog.text
    with pytest.raises(BackendMisconfigured, match="the file is gone"):
        jobs.counts()

    saved.rename(file)
    back = time.monotonic()
    worker.milestones.wait_for("turn", worker.milestones.count("turn") + 1)
    work.enqueue()
    worker.milestones.wait_for("settled", 2)
    assert time.monotonic() - back < 5


def test_an_outage_is_told_when_it_begins_and_when_it_is_over(open_app_on, work_on, weather_of, eventually, caplog):
    weather = weather_of("turn", "open_session")
    jobs = open_app_on(weather.mixin)
    worker = work_on(jobs)
    worker.milestones.wait_for("idle")
    weather.error = AWAY
    worker._pump.wake()
    with caplog.at_level(logging.WARNING):
        worker.milestones.wait_for("unanswered", 4)
        weather.error = None
        worker.milestones.wait_for("adopted")
        eventually(lambda: not worker._pump.recovery.outage.lasts)

    first, last = [record.getMessage() for record in caplog.records if record.name == "onward.worker"]
    assert first == "the store did not answer (BackendUnavailable: away); trying again until it does"
    assert last.startswith("the store is back after ")


def test_a_sweep_that_fails_in_an_outage_is_not_told_apart(open_app_on, work_on, weather_of, eventually, caplog):
    weather = weather_of("turn", "open_session", "reap")
    jobs = open_app_on(weather.mixin, lease_for=1)
    worker = work_on(jobs)
    worker.milestones.wait_for("swept")
    weather.error = AWAY
    worker._pump.wake()
    worker.milestones.wait_for("unanswered", 3)

    assert "the sweep failed" not in caplog.text
    weather.error = None


def test_work_that_was_done_during_an_outage_is_settled_after_it(open_app_on, work_on, weather_of, gate, eventually):
    weather = weather_of()
    jobs = open_app_on(weather.mixin)
    ran = []

    @jobs.job
    def work(n: int):
        ran.append(n)
        gate.pass_through()

    handles = work.enqueue_many([(n,) for n in range(4)])
    worker = work_on(jobs, concurrency=4)
    gate.wait_for(4)
    weather.error = AWAY
    gate.open()
    worker.milestones.wait_for("unanswered", 3)
    weather.error = None
    worker.milestones.wait_for("settled", 4)

    assert sorted(ran) == [0, 1, 2, 3]
    assert {handle.state() for handle in handles} == {State.COMPLETED}
    assert jobs.metrics.count("leases_lost") == 0
