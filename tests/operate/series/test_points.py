"""Series as people read them: points, gaps, builds, and what `why` takes from them."""

import asyncio
from datetime import timedelta

import pytest

from onward import Onward
from onward.backend import Claim, Sample, Session, Turn
from onward.contract.description import WorkerDescription
from onward.contract.samples import MINUTE
from onward.errors import InvalidName, OptionError
from onward.operate.series.measured import Measured, QueueLevel
from onward.operate.series.points import BuildChange, SeriesReader, ended_per_second, run_percentile
from onward.operate.series.sampling import Sampling
from onward.telemetry.numbers import BUCKETS, Histogram, Numbers
from onward.testing import FakeClock


def took(ms, count):
    return Histogram(ms * count, tuple(count if place == ms.bit_length() else 0 for place in range(BUCKETS)))


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def jobs(clock):
    with Onward("memory://", clock=clock) as jobs:
        yield jobs


@pytest.fixture
def put(jobs, clock):
    """Store a sample of this minute."""

    def put(counters=None, *, pair=("mail", "send"), run=0, build="b1", reporter="host-1", queues=None):
        minute = clock.micros() - clock.micros() % MINUTE
        numbers = {} if counters is None else {pair: Numbers(counters, took(100, run), took(1_000, run))}
        data = Measured(builds=(build,), numbers=numbers, queues=queues or {}, looked=queues is not None)
        jobs.backend.extend("", sample=Sample(reporter, minute, data.encoded()))

    return put


def test_a_point_has_rates_percentiles_and_depths_of_all_processes_together(jobs, clock, put):
    at = clock.now()
    put({"jobs_succeeded": 50, "jobs_failed": 5, "jobs_failed_permanently": 2}, run=57)
    put({"jobs_succeeded": 8}, run=8, reporter="host-2", queues={"mail": QueueLevel(7, 1_500)})
    clock.advance(60)

    (point,) = jobs.series("1h").points

    assert (point.at, point.seconds, point.ended, point.failed, point.per_second) == (at, 60, 60, 5, 1.0)
    assert 64 <= point.run_p50 <= point.run_p95 <= 128
    assert 512 <= point.wait_p50 <= point.wait_p95 <= 1024
    assert (point.depth, point.oldest_age) == (7, 1_500)


def test_a_minute_that_is_not_over_has_no_point(jobs, clock, put):
    put({"jobs_succeeded": 1})
    clock.advance(59)

    assert jobs.series().points == ()


def test_minutes_in_which_no_worker_ran_have_no_point(jobs, clock, put):
    at = clock.now()
    put()
    clock.advance(5 * 60)
    put({"jobs_succeeded": 1})
    clock.advance(60)

    idle, busy = jobs.series().points

    assert (idle.at, idle.ended, idle.run_p95, idle.depth) == (at, 0, None, None)
    assert (busy.at, busy.ended) == (at + timedelta(minutes=5), 1)


def test_the_points_of_one_queue_and_of_one_job(jobs, clock, put):
    put({"jobs_succeeded": 1}, queues={"mail": QueueLevel(3, 9)})
    put({"jobs_succeeded": 20}, pair=("mail", "news"), reporter="host-2")
    put({"jobs_succeeded": 300}, pair=("slow", "send"), reporter="host-3")
    clock.advance(60)

    def ended(**of):
        return jobs.series(**of).points[0].ended

    assert (ended(queue="mail"), ended(job="send"), ended(queue="slow", job="send"), ended()) == (21, 301, 300, 321)
    assert [jobs.series(queue=name).points[0].depth for name in ("mail", "slow")] == [3, 0]


def test_a_build_that_had_not_run_before_is_marked(jobs, clock, put):
    start = clock.now()
    for build in ("b1", "b1", "b2", "b2", "b1"):
        put({"jobs_succeeded": 1}, build=build)
        clock.advance(60)

    assert jobs.series().builds == (
        BuildChange(at=start + timedelta(minutes=2), build="b2"),
        BuildChange(at=start + timedelta(minutes=4), build="b1"),
    )


def test_after_two_hours_a_point_is_of_ten_minutes_and_the_sums_are_the_same(jobs, clock):
    counted = {}
    sampling = Sampling(jobs.backend, lambda: counted, clock=clock, build="b", every=0)
    for minute in range(4 * 60):
        counted = {("mail", "send"): Numbers({"jobs_succeeded": minute + 1})}
        sampling.extend("")
        sampling.work()
        clock.advance(60)

    points = jobs.series("4h").points

    assert sum(point.ended for point in points) == 4 * 60
    assert {point.seconds for point in points} == {60, 600}
    assert [point.ended for point in points[:3]] == [10, 10, 10]
    assert [point.at for point in points] == sorted(point.at for point in points)


@pytest.mark.parametrize("last", ["30s", "8d", 0])
def test_a_span_that_is_not_kept_is_refused_with_what_is(jobs, last):
    with pytest.raises(OptionError, match="a minute to 7 days"):
        jobs.series(last)


def test_a_queue_that_cannot_be_one_is_refused(jobs):
    with pytest.raises(InvalidName):
        jobs.series(queue="no such queue")


def test_it_can_be_awaited(jobs, clock, put):
    put({"jobs_succeeded": 1})
    clock.advance(60)

    assert asyncio.run(jobs.aseries("1h")) == jobs.series("1h")


def test_jobs_that_ended_per_second_come_from_the_last_five_full_minutes(jobs, clock, put):
    put({"jobs_succeeded": 1_000})
    clock.advance(60)
    for _ in range(5):
        put({"jobs_succeeded": 20, "jobs_cancelled": 10, "jobs_requeued": 99})
        clock.advance(60)
    put({"jobs_succeeded": 1_000})
    clock.advance(30)

    measures = SeriesReader(jobs.backend).last_minutes(clock.micros())

    assert ended_per_second(measures, "mail") == 0.5
    assert ended_per_second(measures, "other") is None


def test_a_rate_is_never_told_from_fewer_than_20_jobs(jobs, clock, put):
    put({"jobs_succeeded": 19})
    clock.advance(60)
    reader = SeriesReader(jobs.backend)
    assert ended_per_second(reader.last_minutes(clock.micros()), "mail") is None

    put({"jobs_succeeded": 1})
    clock.advance(60)

    assert ended_per_second(reader.last_minutes(clock.micros()), "mail") == 20 / 120


def test_the_usual_run_is_never_told_from_fewer_than_20_runs(jobs, clock, put):
    reader = SeriesReader(jobs.backend)
    put({"jobs_succeeded": 19}, run=19)
    clock.advance(60)
    assert run_percentile(reader.measures(60 * MINUTE), "send", 0.95) is None

    put({"jobs_succeeded": 1}, run=1)
    clock.advance(60)

    assert 0.064 <= run_percentile(reader.measures(60 * MINUTE), "send", 0.95) <= 0.128


def open_serving(jobs, queue):
    """Open the session of a worker that serves a queue and does nothing."""
    description = WorkerDescription(queues=(queue,), concurrency=1_000).encoded()
    jobs.backend.open_session(Session(owner="worker", lease_for=timedelta(hours=1), description=description))
    return "worker"


class TestWhy:
    def test_a_job_that_stands_behind_others_has_an_estimate(self, jobs, clock, put):
        @jobs.job(queue="mail")
        def send(n: int) -> None: ...

        for _ in range(5):
            put({"jobs_succeeded": 60})
            clock.advance(60)
        handles = [send.enqueue(n) for n in range(31)]
        open_serving(jobs, "mail")
        reason = jobs.why(handles[-1].id)

        assert reason.code == "behind"
        assert reason.facts["ended_per_second"] == 1.0
        assert reason.until == clock.now() + timedelta(seconds=30)

    @pytest.mark.parametrize(("after", "is_stuck"), [(1, False), (60, True)])
    def test_a_run_that_takes_ten_times_as_long_as_usual_may_be_stuck(self, jobs, clock, put, after, is_stuck):
        @jobs.job(queue="mail")
        def send(n: int) -> None: ...

        put({"jobs_succeeded": 20}, run=20)
        clock.advance(60)
        handle = send.enqueue(1)
        owner = open_serving(jobs, "mail")
        jobs.backend.turn(Turn(owner=owner, claim=Claim(queues=("mail",))))
        clock.advance(after)
        reason = jobs.why(handle.id)

        assert reason.code == "running"
        assert "95 of 100 runs of this job take less than" in reason.text
        assert (reason.facts["stuck"], "Is it stuck?" in reason.text) == (is_stuck, is_stuck)
