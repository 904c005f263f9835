"""A store that works but refuses an outcome: nothing is lost, nothing runs over its budget, neighbours are not harmed."""

import logging
import sqlite3
from datetime import timedelta

import pytest

from onward import NoDelay
from onward.backend import Claim, Settlement
from onward.errors import BackendRefused
from onward.telemetry import JobCancelled, JobDiscarded, JobFailed

COUNTERS = ("jobs_failed", "jobs_requeued", "jobs_failed_permanently", "jobs_dlq_failed")


class Refuses:
    """A store in memory that refuses what a test tells it to refuse."""

    refused = staticmethod(lambda settlement: False)

    def turn(self, turn):
        for settlement in turn.settlements:
            if type(self).refused(settlement):
                raise BackendRefused("there is no room for it")
        return super().turn(turn)


class RefusesOnDisk:
    """The same with a real trigger in a real file, so that the store really refuses."""

    def __init__(self, path):
        self._path = path

    def __call__(self, condition):
        self._execute(
            f"CREATE TRIGGER refuses BEFORE INSERT ON onward_finished WHEN {condition} "
            "BEGIN SELECT RAISE(ABORT, 'there is no room for it'); END"
        )

    def stop(self):
        self._execute("DROP TRIGGER IF EXISTS refuses")

    def _execute(self, sql):
        connection = sqlite3.connect(self._path, timeout=10)
        connection.execute(sql)
        connection.commit()
        connection.close()


@pytest.fixture
def open_refusing(open_app_on, store, folder, monkeypatch):
    """Open an application, and get the means to let its store refuse dead letters, or results, until told otherwise."""

    def open_refusing(**settings):
        if store == "sqlite":
            jobs = open_app_on(type("Plain", (), {}), **settings)
            disk = RefusesOnDisk(folder / "jobs.db")
            return jobs, {
                "dead letters": lambda: disk("NEW.state = 'discarded'"),
                "everything finished": lambda: disk("TRUE"),
                "results": lambda: disk("NEW.result IS NOT NULL"),
                "nothing": disk.stop,
            }
        jobs = open_app_on(type("Mixin", (Refuses,), {}), **settings)
        backend = type(jobs.backend)

        def refuse(refused):
            return lambda: monkeypatch.setattr(backend, "refused", staticmethod(refused))

        return jobs, {
            "dead letters": refuse(lambda settlement: settlement.move == "abandon"),
            "everything finished": refuse(
                lambda settlement: settlement.move in ("ack", "skip", "abandon", "cancelled")
            ),
            "results": refuse(lambda settlement: settlement.result is not None),
            "nothing": refuse(lambda settlement: False),
        }

    return open_refusing


def counted(jobs):
    return [jobs.metrics.count(name) for name in COUNTERS]


def failing_job(jobs, ran=None, **options):
    @jobs.job(**options)
    def failing():
        if ran is not None:
            ran.append(1)
        raise RuntimeError("no luck")

    return failing


@pytest.mark.promise("S22")
def test_a_job_whose_dead_letter_is_refused_goes_back_for_a_minute(open_refusing, clock):
    jobs, refuse = open_refusing()
    handle = failing_job(jobs).enqueue()
    refuse["dead letters"]()

    result = jobs.process_once()

    record = jobs.get(handle.id)
    assert (result.status, record.state, record.attempts) == ("requeued", "retryable", 1)
    assert record.available_at == clock.now() + timedelta(seconds=60)


@pytest.mark.promise("S22")
def test_a_refused_dead_letter_moves_no_counter_but_its_own(open_refusing):
    jobs, refuse = open_refusing()
    failing_job(jobs).enqueue()
    refuse["dead letters"]()

    jobs.process_once()

    assert counted(jobs) == [0, 0, 0, 1]


@pytest.mark.promise("S22", "S3")
def test_a_job_whose_dead_letter_was_refused_is_not_run_again(open_refusing, clock):
    jobs, refuse = open_refusing()
    ran = []
    failing_job(jobs, ran, max_retries=2, retry=NoDelay()).enqueue()
    refuse["dead letters"]()

    for _ in range(5):
        jobs.drain()
        clock.advance(60)

    assert len(ran) == 3


@pytest.mark.promise("S22")
def test_a_dead_letter_that_is_accepted_at_last_has_the_right_reason_and_errors(open_refusing, clock):
    jobs, refuse = open_refusing()
    handle = failing_job(jobs, max_retries=1, retry=NoDelay()).enqueue()
    refuse["dead letters"]()
    jobs.drain()
    refuse["nothing"]()
    clock.advance(60)

    result = jobs.process_once()

    record = jobs.get(handle.id)
    assert (result.status, record.state, record.attempts) == ("dead-lettered", "discarded", 2)
    assert record.reason == "gave up after 2 attempts: max_retries is 1"
    assert [(error.attempt, error.message) for error in record.errors] == [(1, "no luck"), (2, "no luck")]


@pytest.mark.promise("S22", "S29")
def test_the_failure_counts_when_its_dead_letter_is_accepted_at_last(open_refusing, clock):
    jobs, refuse = open_refusing()
    failing_job(jobs).enqueue()
    refuse["dead letters"]()
    jobs.drain()
    refuse["nothing"]()
    clock.advance(60)

    jobs.drain()

    assert counted(jobs) == [1, 0, 1, 1]


@pytest.mark.promise("S22", "S30")
def test_no_event_says_that_a_retry_follows_when_only_the_dead_letter_is_tried_again(open_refusing, clock, listen):
    jobs, refuse = open_refusing()
    heard = listen(jobs)
    failing_job(jobs).enqueue()
    refuse["dead letters"]()
    jobs.drain()
    assert heard(JobFailed, JobDiscarded) == []

    refuse["nothing"]()
    clock.advance(60)
    jobs.drain()

    (event,) = heard(JobFailed, JobDiscarded)
    assert isinstance(event, JobDiscarded)


@pytest.mark.promise("S22", "S23")
def test_the_copy_on_the_dead_letter_queue_comes_with_the_dead_letter_and_not_before(open_refusing, clock):
    jobs, refuse = open_refusing(dead_letter_queue="failed_jobs")
    failing_job(jobs).enqueue()
    refuse["dead letters"]()
    jobs.drain("default")
    assert jobs.list(queue="failed_jobs") == []

    refuse["nothing"]()
    clock.advance(60)
    jobs.drain("default")

    (copy,) = jobs.list(queue="failed_jobs")
    assert copy.payload["reason"] == "gave up after 1 attempt: max_retries is 0"
    assert copy.payload["errors"] == [{"attempt": 1, "kind": "RuntimeError", "message": "no luck"}]


@pytest.mark.promise("S22")
def test_an_application_may_choose_to_drop_a_job_whose_dead_letter_is_refused(open_refusing):
    jobs, refuse = open_refusing(drop_on_dlq_failure=True)
    handle = failing_job(jobs).enqueue()
    refuse["dead letters"]()

    result = jobs.process_once()

    record = jobs.get(handle.id)
    assert (result.status, record.state) == ("cancelled", "cancelled")
    assert record.reason == "dropped: its dead letter was refused (gave up after 1 attempt: max_retries is 0)"
    assert [(error.kind, error.message) for error in record.errors] == [("RuntimeError", "no luck")]


@pytest.mark.promise("S22", "S29")
def test_a_dropped_job_is_counted_as_failed_for_good_and_its_dead_letter_as_refused(open_refusing):
    jobs, refuse = open_refusing(drop_on_dlq_failure=True)
    failing_job(jobs, max_retries=1, retry=NoDelay()).enqueue()
    refuse["dead letters"]()

    jobs.drain()

    assert counted(jobs) == [2, 1, 1, 1]
    assert jobs.metrics.count("jobs_cancelled") == 0


@pytest.mark.promise("S22", "S30")
def test_a_dropped_job_is_told_as_discarded_and_by_a_critical_line(open_refusing, listen, caplog):
    jobs, refuse = open_refusing(drop_on_dlq_failure=True)
    heard = listen(jobs)
    handle = failing_job(jobs).enqueue()
    refuse["dead letters"]()

    jobs.drain()

    (event,) = heard(JobFailed, JobDiscarded, JobCancelled)
    assert (type(event), event.id, event.kind, event.error) == (JobDiscarded, handle.id, "RuntimeError", "no luck")
    assert event.reason.startswith("dropped: its dead letter was refused")
    (line,) = [line for line in caplog.records if line.levelno == logging.CRITICAL]
    assert (line.event, line.job_id) == ("job.dropped", handle.id)


def test_a_worker_counts_and_tells_a_dropped_job_too(open_refusing, eventually, listen):
    jobs, refuse = open_refusing(drop_on_dlq_failure=True)
    heard = listen(jobs)
    handle = failing_job(jobs).enqueue()
    refuse["dead letters"]()

    with jobs.worker():
        eventually(lambda: handle.state() == "cancelled")

    assert counted(jobs) == [1, 0, 1, 1]
    assert [type(event) for event in heard(JobDiscarded, JobCancelled)] == [JobDiscarded]


class Fails:
    """A store that fails on some settlements in a way that it does not know itself."""

    def turn(self, turn):
        if any(settlement.result == b'"poison"' for settlement in turn.settlements):
            raise ZeroDivisionError("a fault of the store's own code")
        return super().turn(turn)


@pytest.mark.promise("F84")
@pytest.mark.parametrize("engine", ["process_once", "drain", "worker"])
def test_a_settlement_that_a_store_fails_on_ends_no_worker(open_app_on, eventually, caplog, engine):
    jobs = open_app_on(Fails)

    @jobs.job
    def work(n: int) -> str | None:
        return "poison" if n == 2 else None

    handles = work.enqueue_many([(n,) for n in range(5)])
    if engine == "process_once":
        statuses = [jobs.process_once().status for _ in range(5)]
        assert statuses == ["acked", "acked", "dead-lettered", "acked", "acked"]
    elif engine == "drain":
        assert jobs.drain() == 5
    else:
        with jobs.worker() as worker:
            eventually(lambda: all(handle.state() in ("completed", "discarded") for handle in handles))
            assert worker.running

    assert [str(handle.state()) for handle in handles] == [*["completed"] * 2, "discarded", *["completed"] * 2]
    assert "ZeroDivisionError: a fault of the store's own code" in handles[2].record().errors[-1].message
    assert [line.levelname for line in caplog.records if "failed on the ack" in line.getMessage()] == ["CRITICAL"]


def test_a_success_that_a_store_fails_on_once_stays_a_success(open_app_on):
    class FailsOnce:
        faults = 1

        def turn(self, turn):
            if turn.settlements and self.faults:
                type(self).faults -= 1
                raise ZeroDivisionError("a passing fault")
            return super().turn(turn)

    jobs = open_app_on(FailsOnce)

    @jobs.job
    def work() -> str:
        return "done"

    handle = work.enqueue()

    assert jobs.process_once().status == "acked"
    assert handle.result() == "done"


@pytest.mark.parametrize("engine", ["process_once", "worker"])
def test_a_dead_letter_that_cannot_be_made_is_told_and_its_job_is_discarded(
    open_app, eventually, caplog, monkeypatch, engine
):
    jobs = open_app(dead_letter_queue="failed_jobs")
    handle = failing_job(jobs).enqueue()

    def cannot(*args, **kwargs):
        raise ZeroDivisionError("no letter")

    monkeypatch.setattr(jobs.dead_letters, "_copy", cannot)
    if engine == "process_once":
        assert jobs.process_once().status == "dead-lettered"
    else:
        with jobs.worker():
            eventually(lambda: handle.state() == "discarded")

    assert handle.state() == "discarded"
    (line,) = [line for line in caplog.records if "no dead letter can be made of it" in line.getMessage()]
    assert line.levelno == logging.CRITICAL


@pytest.mark.promise("S22")
def test_a_job_that_cannot_even_be_dropped_is_kept(open_refusing, clock):
    jobs, refuse = open_refusing(drop_on_dlq_failure=True)
    handle = failing_job(jobs).enqueue()
    refuse["everything finished"]()
    jobs.drain()
    assert handle.state() == "retryable"

    refuse["nothing"]()
    clock.advance(60)
    jobs.drain()

    assert handle.state() == "discarded"


def test_a_success_that_the_store_refuses_is_dead_lettered(open_refusing):
    jobs, refuse = open_refusing()

    @jobs.job
    def work() -> str:
        return "a result that the store refuses"

    handle = work.enqueue()
    refuse["results"]()
    result = jobs.process_once()

    record = jobs.get(handle.id)
    assert (result.status, record.state, record.reason) == ("dead-lettered", "discarded", "settlement refused")
    assert "the store refused the ack of this job" in record.errors[-1].message
    assert "there is no room for it" in record.errors[-1].message


@pytest.mark.promise("S23")
def test_a_job_whose_settlement_is_refused_is_copied_to_the_dead_letter_queue_too(open_refusing):
    jobs, refuse = open_refusing(dead_letter_queue="failed_jobs")

    @jobs.job
    def work() -> str:
        return "a result that the store refuses"

    handle = work.enqueue()
    refuse["results"]()
    jobs.process_once()

    (copy,) = jobs.list(queue="failed_jobs")
    assert (copy.payload["id"], copy.payload["reason"]) == (handle.id, "settlement refused")
    assert [error["kind"] for error in copy.payload["errors"]] == ["SettlementRefused"]


def test_one_refused_settlement_of_a_batch_leaves_its_neighbours_settled(open_refusing, claim_elsewhere):
    jobs, refuse = open_refusing()

    @jobs.job
    def work(n: int): ...

    handles = work.enqueue_many([(n,) for n in range(9)])
    leases = claim_elsewhere(jobs, limit=9)
    refuse["results"]()
    batch = [Settlement.ack(lease, b'"poison"' if n == 5 else None) for n, lease in enumerate(leases)]

    made = jobs.parts().settler.exchange("elsewhere", batch)

    assert [handle.state() for handle in handles] == ["completed"] * 5 + ["discarded"] + ["completed"] * 3
    assert [answer.applied for answer in made.result.settled] == [True] * 9
    assert [settlement.move for settlement in made.settlements] == ["ack"] * 5 + ["abandon"] + ["ack"] * 3


def test_several_refused_settlements_are_all_found(open_refusing, claim_elsewhere):
    jobs, refuse = open_refusing()

    @jobs.job
    def work(n: int): ...

    handles = work.enqueue_many([(n,) for n in range(10)])
    leases = claim_elsewhere(jobs, limit=10)
    refuse["results"]()
    batch = [Settlement.ack(lease, b'"poison"' if n in (0, 4, 5, 9) else None) for n, lease in enumerate(leases)]

    jobs.parts().settler.exchange("elsewhere", batch)

    discarded = [n for n, handle in enumerate(handles) if handle.state() == "discarded"]
    assert discarded == [0, 4, 5, 9]


def test_a_turn_with_a_refused_settlement_claims_all_the_same(open_refusing, claim_elsewhere):
    jobs, refuse = open_refusing()

    @jobs.job
    def work(n: int): ...

    work.enqueue_many([(n,) for n in range(2)])
    (first,) = claim_elsewhere(jobs)
    refuse["results"]()
    claim = Claim(queues=("default",), limit=5)

    made = jobs.parts().settler.exchange("elsewhere", [Settlement.ack(first, b'"poison"')], claim)

    assert len(made.result.leases) == 1
