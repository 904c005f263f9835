"""A dead letter tells of the earlier runs of its job.  If the store cannot tell of those, it is no outage: nothing waits."""

import sqlite3
from contextlib import closing

import pytest

from onward import Fixed, State
from onward.errors import BackendRefused, BackendUnavailable, StoreCorrupt

NO_OUTAGE = (BackendRefused("the answer cannot be read"), StoreCorrupt("a page is damaged"), ValueError("no date"))


@pytest.fixture
def open_shop(open_app_on):
    """An application with a dead-letter queue: ``jobs, doomed, fine = open_shop(weather)``."""

    def open_shop(weather):
        jobs = open_app_on(weather.mixin, dead_letter_queue="dead")

        @jobs.job(max_retries=0)
        def doomed(n: int) -> None:
            raise ValueError(f"no {n}")

        @jobs.job
        def fine(n: int) -> None:
            """Complete."""

        return jobs, doomed, fine

    return open_shop


def letters(jobs):
    return jobs.list(queue="dead")


@pytest.mark.parametrize("error", NO_OUTAGE, ids=lambda error: type(error).__name__)
def test_a_worker_goes_on_and_stops_though_the_history_of_a_dead_job_cannot_be_read(
    open_shop, work_on, weather_of, ended, error
):
    weather = weather_of("get")
    jobs, doomed, fine = open_shop(weather)
    weather.threads, weather.error = "onward-pump", error
    dead, after = doomed.enqueue(1), fine.enqueue(2)

    worker = work_on(jobs, concurrency=1)

    assert ended(jobs, dead, after) == [State.DISCARDED, State.COMPLETED]
    assert weather.failed
    assert worker.stop(timeout=20) == []
    assert not worker.running
    (letter,) = letters(jobs)
    assert letter.payload["id"] == dead.id
    assert letter.payload["errors"] == [{"attempt": 1, "kind": "ValueError", "message": "no 1"}]


def test_a_worker_waits_for_a_store_that_does_not_answer_with_the_whole_dead_letter(
    open_shop, work_on, weather_of, ended, eventually
):
    weather = weather_of("get")
    jobs, doomed, _ = open_shop(weather)
    weather.threads, weather.error = "onward-pump", BackendUnavailable("it is away")
    dead = doomed.enqueue(1)

    work_on(jobs)
    eventually(lambda: weather.failed > 1)
    assert dead.state() is State.EXECUTING
    weather.error = None

    assert ended(jobs, dead) == [State.DISCARDED]
    assert len(letters(jobs)) == 1


def test_stopping_ends_while_the_store_refuses_dead_letters(open_shop, weather_of, ended, eventually):
    weather = weather_of()

    class Refuses(weather.mixin):
        refused = 0

        def turn(self, turn):
            if any(item.dead_letter is not None for item in turn.settlements):
                Refuses.refused += 1
                raise BackendRefused("a dead letter is too large")
            return super().turn(turn)

    weather.mixin = Refuses
    jobs, doomed, fine = open_shop(weather)
    dead, after = doomed.enqueue(1), fine.enqueue(2)

    with jobs.worker(concurrency=1) as worker:
        assert ended(jobs, after) == [State.COMPLETED]
        eventually(lambda: dead.state() is State.RETRYABLE)
        assert worker.stop(timeout=20) == []

    assert Refuses.refused
    assert letters(jobs) == []
    assert [error.kind for error in dead.record().errors] == ["ValueError"]


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("column", "value"),
    [("message", b"\xff\xfe"), ("state", "nonsense"), ("at", 2**63 - 1), ("attempt", -(2**63)), ("duration_ms", -1)],
)
def test_one_row_of_attempts_that_no_worker_wrote_stops_nothing(open_app, file, work_on, ended, column, value):
    jobs = open_app(dead_letter_queue="dead")

    @jobs.job(max_retries=1, retry=Fixed(0))
    def doomed(n: int) -> None:
        raise ValueError(f"no {n}")

    dead, beside = doomed.enqueue(1), doomed.enqueue(2)
    jobs.process_once()
    damage(file, column, value, dead.id)

    worker = work_on(jobs)

    assert ended(jobs, dead, beside) == [State.DISCARDED, State.DISCARDED]
    assert worker.stop(timeout=20) == []
    assert {letter.payload["id"] for letter in letters(jobs)} == {dead.id, beside.id}


def damage(file, column, value, job_id):
    """What the table would refuse, a restored copy of it may hold."""
    cast = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        found = connection.execute(f"UPDATE onward_attempts SET {column} = {cast} WHERE job_id = ?", (value, job_id))
        assert found.rowcount == 1
