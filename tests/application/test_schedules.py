"""Schedules through an application: what is booked, run, caught up, steered and refused, on every store that keeps them."""

import logging
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from onward import ArgumentError, InvalidSchedule, JobContext, Onward, OptionError, State, daily_at, every
from onward.backend import ScheduleChange
from onward.base.clock import SECOND, to_micros
from onward.errors import BackendUnavailable, DefinitionError, PayloadTooLarge, ScheduleNotFound, ScheduleTaken
from onward.flow.schedule import spread_of
from onward.telemetry import ScheduleRejected, TicksMissed
from onward.testing import FakeClock
from tests.application.every_store import *  # noqa: F403

pytestmark = pytest.mark.every_store

NOON = datetime(2030, 1, 1, tzinfo=UTC)  # where the clock of the tests starts


@pytest.fixture
def jobs(open_app):
    jobs = open_app()
    if not jobs.backend.capabilities.schedules:
        pytest.skip("this store keeps no schedules")
    return jobs


@pytest.fixture
def ran():
    return []


@pytest.fixture
def report(jobs, ran):
    return reporting(jobs, ran)


def reporting(jobs, ran):
    @jobs.job
    def report(ctx: JobContext, customer: str = "acme") -> None:
        ran.append((customer, ctx.scheduled_for))

    return report


def at(**past):
    return NOON + timedelta(**past)


def ticks(ran):
    return [tick for _, tick in ran]


def steps(jobs, clock, number, length):
    """Run what is due, again and again."""
    for _ in range(number):
        clock.advance(length)
        jobs.drain()


# Booking


def test_a_schedule_of_the_code_runs_its_job_at_every_tick(jobs, clock, ran):
    @jobs.schedule("*/10 * * * *")
    @jobs.job
    def above(ctx: JobContext) -> None:
        ran.append(("above", ctx.scheduled_for))

    @jobs.job
    @jobs.schedule(every("15m"), name="other", args={"word": "below"})
    def below(ctx: JobContext, word: str) -> None:
        ran.append((word, ctx.scheduled_for))

    jobs.drain()
    steps(jobs, clock, 30, 60)

    assert [tick for word, tick in ran if word == "above"] == [at(minutes=10), at(minutes=20), at(minutes=30)]
    assert [tick for word, tick in ran if word == "below"] == [at(minutes=15), at(minutes=30)]


@pytest.mark.promise("S85")
def test_a_tick_is_a_job_of_the_next_minute_that_needs_no_ticker_any_more(jobs, clock, report, claim_elsewhere):
    jobs.schedules.create("s", "@every 40s", report.call("acme"))
    assert jobs.schedules.tick() == 1

    clock.advance(39.999)
    assert claim_elsewhere(jobs, owner="early") == []
    clock.advance(0.001)
    (lease,) = claim_elsewhere(jobs, owner="in time")

    assert jobs.get(lease.envelope.id).available_at == at(seconds=40)


@pytest.mark.promise("S84")
def test_many_that_look_at_once_book_every_tick_once(jobs, open_app, clock, report, in_threads, store):
    apps = [jobs] if store == "memory" else [jobs, *(open_app() for _ in range(3))]
    for app in apps[1:]:
        reporting(app, [])
    jobs.schedules.create("s", "* * * * * *", report.call("acme"), catch_up=1000, overlap="allow")
    booked = 0
    for _ in range(3):
        booked += sum(in_threads(8, lambda number: apps[number % len(apps)].schedules.tick()))
        clock.advance(50)

    found = [job.id for job in jobs.list(limit=1000)]
    assert booked == len(found) == 160  # 60 s ahead of the last look, 100 s after the first
    assert len({job_id[:12] for job_id in found}) == 160


@pytest.mark.promise("S84")
def test_a_lost_answer_books_no_tick_twice(jobs, clock, report, ran, monkeypatch):
    jobs.schedules.create("s", "@every 30s", report.call("acme"))
    applied = jobs.backend.change_schedule

    def lose(change):
        applied(change)
        monkeypatch.undo()
        raise BackendUnavailable("the answer was lost")

    monkeypatch.setattr(jobs.backend, "change_schedule", lose)
    with pytest.raises(BackendUnavailable):
        jobs.schedules.tick()

    jobs.schedules.tick()
    steps(jobs, clock, 4, 30)

    assert ticks(ran) == [at(seconds=30 * number) for number in range(1, 5)]


def test_nothing_is_written_while_no_tick_is_near(jobs, clock, report, monkeypatch):
    jobs.schedules.create("s", daily_at("12:00"), report.call("acme"))
    jobs.schedules.tick()
    monkeypatch.setattr(jobs.backend, "change_schedule", pytest.fail)

    for _ in range(100):
        clock.advance(60)
        jobs.schedules.tick()


def test_a_program_that_runs_one_job_after_the_other_reads_the_schedules_every_ten_seconds(jobs, clock, monkeypatch):
    looks = []
    schedules = jobs.backend.schedules
    monkeypatch.setattr(jobs.backend, "schedules", lambda: looks.append(1) or schedules())

    for _ in range(50):
        jobs.process_once()
        clock.advance(1)

    assert len(looks) == 5


# The clock


@pytest.mark.promise("S86")
def test_a_night_with_a_change_of_clocks_has_its_tick_once(jobs, clock, report, ran):
    clock.set(datetime(2030, 3, 30, 12, tzinfo=UTC))  # Berlin's clocks go forward in the next night
    jobs.schedules.create("spring", "30 2 * * *", report.call("acme"), tz="Europe/Berlin")
    jobs.drain()
    steps(jobs, clock, 24, 3600)
    clock.set(datetime(2030, 10, 26, 12, tzinfo=UTC))  # and back in this one
    jobs.drain()
    ran.clear()
    steps(jobs, clock, 48, 1800)

    assert ticks(ran) == [datetime(2030, 10, 27, 0, 30, tzinfo=UTC)]


@pytest.mark.promise("S89")
@pytest.mark.parametrize("back", [90, 7200])
def test_a_store_clock_that_goes_back_runs_no_tick_twice(jobs, clock, report, ran, back, caplog):
    jobs.schedules.create("s", "@every 30s", report.call("acme"), catch_up=10)
    jobs.drain()
    steps(jobs, clock, 4, 30)
    booked = len(ran)
    assert booked == 4

    clock.advance(-back)
    jobs.drain()
    steps(jobs, clock, (back + 120) // 30, 30)

    assert len(ticks(ran)) == len(set(ticks(ran)))
    assert [late - early for early, late in pairwise(sorted(ticks(ran)))].count(timedelta(seconds=30)) >= 7
    assert ("starts over" in caplog.text) == (back == 7200)


@pytest.mark.promise("S89")
def test_a_store_clock_that_goes_forward_an_hour_is_caught_up(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 10m", report.call("acme"), catch_up=3)
    jobs.drain()

    clock.advance(3661)
    jobs.drain()

    assert ticks(ran) == [at(minutes=40), at(minutes=50), at(minutes=60)]
    assert jobs.schedules.get("s").missed == 3


@pytest.mark.promise("S86")
@pytest.mark.parametrize("skew", [-3600, 3600])
def test_a_worker_whose_own_clock_is_an_hour_off_books_and_runs_in_time(jobs, clock, report, ran, skew):
    theirs = FakeClock(at(seconds=skew))
    jobs.client.letters._clock = jobs._parts.producer.booker._clock = theirs
    jobs.schedules.create("s", "*/30 * * * *", report.call("acme"), tz="Asia/Kolkata")
    for _ in range(8):
        jobs.drain()
        clock.advance(900)
        theirs.advance(900)
    jobs.drain()

    assert ticks(ran) == [at(minutes=30 * number) for number in range(1, 5)]


# Catching up


@pytest.mark.promise("S87")
@pytest.mark.parametrize("away", [0, 1, 2, 7])
@pytest.mark.parametrize(("catch_up", "late"), [("skip", 0), ("once", 1), (3, 3)])
def test_of_the_ticks_that_are_late_so_many_run_the_newest_last(jobs, clock, report, ran, listen, away, catch_up, late):
    heard = listen(jobs)
    jobs.schedules.create("s", "@every 1h", report.call("acme"), catch_up=catch_up)
    jobs.drain()

    clock.advance(3600 * away + 61.1)
    jobs.drain()

    assert ticks(ran) == [at(hours=hour) for hour in range(1, away + 1)][max(0, away - late) :][: late or 0]
    missed = max(0, away - late)
    assert jobs.schedules.get("s").missed == missed
    assert [event.missed for event in heard(TicksMissed)] == [missed] * bool(missed)


@pytest.mark.promise("S87")
def test_in_a_line_that_is_longer_than_its_period_a_schedule_still_runs(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 30s", report.call("acme"))
    for _ in range(10):
        jobs.schedules.tick()
        clock.advance(31)  # nothing is run before the next tick is due
        jobs.schedules.tick()
        clock.advance(31)
        jobs.drain()

    assert len(ran) >= 8
    assert all(clock.now() - tick >= timedelta() for tick in ticks(ran))
    assert len(set(ticks(ran))) == len(ran)


@pytest.mark.promise("S87")
def test_an_occurrence_that_starts_late_runs_in_place_of_the_newer_ones(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 20s", report.call("acme"))
    jobs.schedules.tick()

    clock.advance(60)
    jobs.drain()

    assert ticks(ran) == [at(seconds=60)]
    assert [job.state for job in jobs.schedules.get("s").last(5)] == [State.COMPLETED]


def test_occurrences_that_one_claim_takes_together_run_once(jobs, clock, report, ran, eventually):
    jobs.schedules.create("s", "@every 20s", report.call("acme"))
    jobs.schedules.tick()
    clock.advance(60)

    with jobs.worker(concurrency=5):
        eventually(lambda: len(ran) and jobs.counts()[State.COMPLETED] + jobs.counts()[State.SCHEDULED] >= 3)
        eventually(lambda: not jobs.counts()[State.EXECUTING])
    clock.advance(10)
    jobs.drain()

    assert len(ran) == 1


def test_an_occurrence_that_starts_late_is_skipped_where_that_is_the_policy(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 20s", report.call("acme"), catch_up="skip")
    jobs.schedules.tick()

    clock.advance(60)
    jobs.drain()

    assert ticks(ran) == [at(seconds=60)]
    newest, *others = jobs.schedules.get("s").last(5)
    assert newest.reason is None
    assert {job.reason for job in others} == {"a newer tick of its schedule is due"}


def test_a_dead_occurrence_that_is_replayed_runs_whatever_is_due_by_then(jobs, clock, ran):
    @jobs.job
    def broken(ctx: JobContext) -> None:
        ran.append(("broken", ctx.scheduled_for))
        if len(ran) == 1:
            raise ValueError

    jobs.schedules.create("s", "@every 30s", broken.call(), catch_up="skip")
    jobs.drain()
    steps(jobs, clock, 1, 30)
    jobs.schedules.pause("s")
    clock.advance(300)
    (dead,) = jobs.dead_letters.list()

    jobs.retry(dead.id)
    jobs.drain()

    assert ticks(ran) == [at(seconds=30)] * 2


@pytest.mark.parametrize("policy", [{"catch_up": 3}, {"overlap": "allow"}])
def test_all_occurrences_run_where_that_is_the_policy(jobs, clock, report, ran, policy):
    jobs.schedules.create("s", "@every 20s", report.call("acme"), **policy)
    jobs.schedules.tick()

    clock.advance(60)
    jobs.drain()

    assert sorted(ticks(ran)) == [at(seconds=20), at(seconds=40), at(seconds=60)]


# Overlapping


@pytest.fixture
def busy(jobs, clock, report, claim_elsewhere):
    """A schedule whose first occurrence runs elsewhere while the second one is due: gives the lease of the first."""

    def busy(overlap, **policies):
        jobs.schedules.create("s", "@every 30s", report.call("acme"), overlap=overlap, **policies)
        jobs.schedules.tick()
        clock.advance(30)
        (lease,) = claim_elsewhere(jobs)
        clock.advance(29)
        jobs.backend.extend(lease.owner)
        clock.advance(1)
        jobs.drain()
        return lease

    return busy


def second(jobs):
    return next(job for job in jobs.schedules.get("s").last(5) if job.available_at >= at(seconds=60))


@pytest.mark.promise("S88")
def test_an_occurrence_may_run_beside_the_one_before(busy, ran):
    busy("allow")

    assert ticks(ran) == [at(seconds=60)]


@pytest.mark.promise("S88")
def test_an_occurrence_waits_for_the_one_before_and_only_one_does(jobs, clock, busy, ran):
    lease = busy("queue")
    assert ran == []
    clock.advance(30)
    jobs.drain()
    (newest,) = jobs.schedules.get("s").last(1)
    assert "of an earlier tick waits, and runs in its place" in newest.reason

    jobs.backend.ack(lease)
    clock.advance(1)
    jobs.drain()

    assert ticks(ran) == [at(seconds=60)]


@pytest.mark.promise("S88")
def test_an_occurrence_is_skipped_while_the_one_before_runs(jobs, clock, busy, ran):
    lease = busy("skip")

    assert second(jobs).reason == f"job {lease.envelope.id} of the schedule still runs"
    jobs.backend.ack(lease)
    clock.advance(30)
    jobs.drain()
    assert ticks(ran) == [at(seconds=90)]


@pytest.mark.promise("S88")
def test_an_occurrence_asks_the_one_before_to_stop_and_waits(jobs, clock, busy, ran):
    lease = busy("cancel")

    assert jobs.get(lease.envelope.id).cancel_requested
    assert ran == []
    jobs.backend.ack(lease)
    clock.advance(2)
    jobs.drain()
    assert ticks(ran) == [at(seconds=60)]


@pytest.mark.promise("S88")
@pytest.mark.parametrize("overlap", ["allow", "queue", "skip", "cancel"])
def test_a_retry_that_waits_hinders_no_tick_and_is_not_lost(jobs, clock, ran, overlap):
    @jobs.job(max_retries=1, retry={"strategy": "fixed", "base": 45})
    def flaky(ctx: JobContext) -> None:
        ran.append((ctx.attempt, ctx.scheduled_for))
        if len(ran) == 1:
            raise ValueError

    jobs.schedules.create("s", "@every 30s", flaky.call(), overlap=overlap)
    jobs.drain()
    steps(jobs, clock, 3, 30)

    assert ran == [(1, at(seconds=30)), (1, at(seconds=60)), (2, at(seconds=30)), (1, at(seconds=90))] or ran == [
        (1, at(seconds=30)),
        (1, at(seconds=60)),
        (1, at(seconds=90)),
        (2, at(seconds=30)),
    ]


@pytest.mark.promise("S88")
@pytest.mark.parametrize("overlap", ["allow", "queue", "skip", "cancel"])
def test_a_dead_process_keeps_no_later_tick_from_running(jobs, clock, report, ran, claim_elsewhere, overlap):
    jobs.schedules.create("s", "@every 30s", report.call("acme"), overlap=overlap)
    jobs.schedules.tick()
    clock.advance(30)
    claim_elsewhere(jobs)
    clock.advance(31)
    jobs.reap()
    jobs.drain()
    steps(jobs, clock, 3, 30)

    assert ticks(ran)[-1] == at(seconds=150)
    assert len(ticks(ran)) == len(set(ticks(ran)))


def test_a_job_that_is_single_already_keeps_its_own_key(jobs, clock, ran, claim_elsewhere):
    @jobs.job(single_instance=True)
    def single(ctx: JobContext) -> None:
        ran.append(("single", ctx.scheduled_for))

    for refused in ("allow", "cancel"):
        with pytest.raises(InvalidSchedule, match="single_instance"):
            jobs.schedules.create("s", "@every 30s", single.call(), overlap=refused)
    jobs.schedules.create("s", "@every 30s", single.call(), overlap="skip")
    single.enqueue()
    claim_elsewhere(jobs)
    jobs.drain()
    clock.advance(30)
    jobs.drain()

    assert ran == []
    assert "still runs" in jobs.schedules.get("s").last(1)[0].reason


# Steering


@pytest.mark.promise("S90")
def test_what_is_paused_takes_back_what_has_not_begun_and_resuming_catches_nothing_up(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 30s", report.call("acme"))
    jobs.schedules.tick()
    clock.advance(30)  # one is due, one is booked

    assert jobs.schedules.pause("s")
    assert not jobs.schedules.pause("s")
    assert jobs.schedules.get("s").paused
    assert jobs.counts()[State.SCHEDULED] + jobs.counts()[State.AVAILABLE] == 0
    steps(jobs, clock, 10, 30)
    assert ran == []
    assert jobs.schedules.resume("s")
    assert not jobs.schedules.resume("s")
    jobs.drain()
    steps(jobs, clock, 2, 30)

    assert ticks(ran) == [at(seconds=360), at(seconds=390)]
    assert jobs.schedules.get("s").missed == 0


@pytest.mark.promise("S90")
@pytest.mark.parametrize("meanwhile", ["pause", "arguments", "both"])
def test_a_tick_in_thirty_seconds_fires_once_whatever_is_changed_now(jobs, clock, report, ran, meanwhile):
    jobs.schedules.create("s", "@every 60s", report.call("acme"))
    jobs.schedules.tick()
    clock.advance(30)

    if meanwhile != "arguments":
        jobs.schedules.pause("s")
        jobs.schedules.resume("s")
    if meanwhile != "pause":
        jobs.schedules.update("s", call=report.call("other"))
    jobs.drain()
    steps(jobs, clock, 2, 30)

    assert ran == [("acme" if meanwhile == "pause" else "other", at(seconds=60))]


@pytest.mark.promise("S90")
def test_an_occurrence_that_is_due_or_runs_goes_on_as_it_is_when_its_schedule_changes(
    jobs, clock, report, ran, claim_elsewhere
):
    jobs.schedules.create("s", "@every 30s", report.call("acme"), overlap="allow", catch_up=5)
    jobs.schedules.tick()
    clock.advance(30)
    (lease,) = claim_elsewhere(jobs)
    clock.advance(29)
    jobs.schedules.tick()
    clock.advance(1)

    jobs.schedules.update("s", cron="@every 45s")

    jobs.drain()
    assert ran == [("acme", at(seconds=60))]
    assert jobs.get(lease.envelope.id).state is State.EXECUTING
    steps(jobs, clock, 2, 15)
    assert ticks(ran) == [at(seconds=60), at(seconds=90)]


@pytest.mark.promise("S90")
def test_what_is_deleted_runs_no_more(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 30s", report.call("acme"))
    jobs.schedules.tick()
    clock.advance(30)

    jobs.schedules.delete("s")
    steps(jobs, clock, 3, 30)

    assert ran == []
    with pytest.raises(ScheduleNotFound):
        jobs.schedules.get("s")


@pytest.mark.promise("S90")
@pytest.mark.parametrize("verb", ["pause", "delete"])
def test_an_occurrence_that_runs_goes_on_when_its_schedule_is_stopped(jobs, clock, report, claim_elsewhere, verb):
    jobs.schedules.create("s", "@every 30s", report.call("acme"))
    jobs.schedules.tick()
    clock.advance(30)
    (lease,) = claim_elsewhere(jobs)

    getattr(jobs.schedules, verb)("s")

    assert jobs.get(lease.envelope.id).state is State.EXECUTING
    assert jobs.backend.ack(lease).applied
    assert jobs.counts()[State.SCHEDULED] == 0


def test_a_schedule_of_leap_days_is_steered_like_any_other(jobs, report):
    jobs.schedules.create("s", "0 0 29 2 *", report.call())
    jobs.schedules.tick()

    assert jobs.schedules.get("s").last(1000) == []
    assert jobs.schedules.pause("s")
    jobs.schedules.delete("s")
    assert jobs.schedules.list() == []


def test_every_tick_of_a_job_with_a_unique_key_runs(open_app, jobs, clock, ran):
    if not jobs.backend.capabilities.deduplicates:
        pytest.skip("this store keeps no unique keys")

    @jobs.job(unique_key="one")
    def refresh(ctx: JobContext) -> None:
        ran.append(("", ctx.scheduled_for))

    jobs.schedules.create("s", "@every 20s", refresh.call())
    jobs.drain()
    steps(jobs, clock, 6, 20)

    assert ticks(ran) == [at(seconds=20 * number) for number in range(1, 7)]
    assert jobs.schedules.run_now("s").created
    assert not jobs.schedules.run_now("s").created


def test_a_schedule_with_an_idempotency_key_is_refused(jobs, report):
    if not jobs.backend.capabilities.holds:
        pytest.skip("this store keeps no idempotency keys")
    with pytest.raises(OptionError, match="no tick after the first would run"):
        jobs.schedules.create("s", "@every 20s", report.using(idempotency_key="k").call())
    assert jobs.schedules.list() == []


def test_a_list_with_the_next_tick_of_each_is_one_read(jobs, report, monkeypatch):
    for number in range(5):
        jobs.schedules.create(f"s{number}", "@every 20s", report.call())
    reads, read = [], jobs.backend.schedules
    monkeypatch.setattr(jobs.backend, "schedules", lambda: reads.append(1) or read())

    assert {tick for schedule in jobs.schedules.list() for tick in schedule.next(1)} == {at(seconds=20)}
    assert len(reads) == 1


@pytest.mark.promise("S90")
def test_running_now_is_one_more_job_and_moves_no_tick(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 30s", report.call("acme"), overlap="skip")
    jobs.schedules.tick()

    handle = jobs.schedules.run_now("s")
    jobs.drain()
    steps(jobs, clock, 2, 30)

    assert jobs.get(handle.id).state is State.COMPLETED
    assert ticks(ran) == [None, at(seconds=30), at(seconds=60)]


def test_a_schedule_shows_what_it_says_what_comes_and_what_was(jobs, clock, report, ran):
    made = jobs.schedules.create(
        "s", "0 */2 * * *", report.call("acme"), tz="Europe/Berlin", catch_up=2, overlap="skip", spread="5s"
    )

    assert (made.name, made.cron, made.tz, made.job, made.queue) == (
        "s",
        "0 */2 * * *",
        "Europe/Berlin",
        "report",
        "default",
    )
    assert (made.catch_up, made.overlap, made.spread, made.origin) == (2, "skip", 5.0, "runtime")
    assert made.arguments == {"customer": "acme"}
    assert not made.paused
    assert made.next(2) == [at(hours=1), at(hours=3)]
    jobs.drain()
    steps(jobs, clock, 80, 60)
    (last,) = jobs.schedules.get("s").last(3)
    assert (last.state, last.name) == (State.COMPLETED, "report")


# The code


@pytest.mark.promise("S91")
def test_a_schedule_that_left_the_code_is_booked_no_more(open_app, jobs, clock, ran, store):
    if store == "memory":
        pytest.skip("no second deployment sees what lies in the memory of the first")
    report = reporting(jobs, ran)
    jobs.schedule("@every 30s", name="s")(report)
    jobs.schedules.tick()
    clock.advance(61)  # what was booked a minute ahead

    newer = open_app()
    reporting(newer, ran)
    newer.drain()
    ran.clear()
    steps(newer, clock, 10, 30)

    assert ran == []
    assert newer.schedules.get("s").origin == "code"
    clock.advance(timedelta(days=8))
    newer.drain()
    assert newer.schedules.list() == []


@pytest.mark.promise("S91")
def test_of_two_deployments_the_newer_counts_and_no_tick_is_of_both(open_app, jobs, clock, store, caplog):
    if store == "memory":
        pytest.skip("no second deployment sees what lies in the memory of the first")
    old, new = [], []
    jobs.schedule("@every 30s", name="s")(reporting(jobs, old))
    jobs.schedules.tick()
    clock.advance(10)
    newer = open_app()
    newer.schedule("@every 45s", name="s")(reporting(newer, new))
    for _ in range(12):
        clock.advance(10)
        newer.drain()
        jobs.drain()

    assert ticks(old + new) == sorted({at(seconds=45), at(seconds=90)})
    assert "declared otherwise by a newer deployment (job report there, report here)" in caplog.text


def test_an_older_deployment_takes_over_when_no_process_of_the_newer_is_left(open_app, jobs, clock, store):
    if store == "memory":
        pytest.skip("another application has another memory")

    def deploy(period):
        app = open_app()
        app.schedule(period, name="s")(reporting(app, []))
        clock.advance(1)
        return app

    old, new = deploy("@every 6h"), deploy("@every 8h")
    for app in (old, new):
        app.schedules.tick()
    for _ in range(12):  # three hours in which both run
        clock.advance(900)
        old.schedules.tick()
        new.schedules.tick()
        assert old.schedules.get("s").cron == "@every 8h"
    for _ in range(8):  # two hours in which the newer is gone
        old.schedules.tick()
        assert old.schedules.get("s").cron == "@every 8h"
        clock.advance(900)
    for _ in range(3):
        clock.advance(900)
        old.schedules.tick()
    assert old.schedules.get("s").cron == "@every 6h"

    new.schedules.tick()
    assert old.schedules.get("s").cron == "@every 8h"


def test_a_pause_survives_a_deployment(open_app, jobs, clock, ran, store):
    if store == "memory":
        pytest.skip("no second deployment sees what lies in the memory of the first")
    jobs.schedule("@every 30s", name="s")(reporting(jobs, ran))
    jobs.schedules.pause("s")
    clock.advance(10)
    newer = open_app()
    newer.schedule("@every 45s", name="s")(reporting(newer, ran))
    newer.drain()
    steps(newer, clock, 5, 30)

    assert ran == []
    assert newer.schedules.get("s").paused


def test_only_the_code_changes_what_the_code_declares(jobs, report):
    jobs.schedule("@every 30s", name="s")(report)

    assert [schedule.name for schedule in jobs.schedules.list()] == ["s"]
    with pytest.raises(ScheduleTaken, match="change it there"):
        jobs.schedules.update("s", cron="@every 45s")
    with pytest.raises(ScheduleTaken, match="change it there"):
        jobs.schedules.delete("s")
    with pytest.raises(ScheduleTaken, match="use another name"):
        jobs.schedules.create("s", "@every 30s", report.call("acme"))


def test_a_schedule_counts_in_its_environments_only(open_app, jobs):
    production = open_app(environment="production")
    for app in (jobs, production):
        app.schedule("@every 30s", environments=("production", "staging"))(reporting(app, []))

    assert "report" not in jobs._parts.producer.booker.declared
    assert "report" in production._parts.producer.booker.declared
    with pytest.raises(OptionError, match="a list of names"):
        jobs.schedule("@every 30s", environments="production")


def test_a_process_books_nothing_whose_job_it_does_not_know(open_app, jobs, report, clock, store):
    if store == "memory":
        pytest.skip("no other process sees what lies in memory")
    jobs.schedules.create("s", "@every 30s", report.call("acme"))

    assert open_app().schedules.tick() == 0
    assert jobs.schedules.tick() == 2


# Trust


def tampered(jobs, change):
    row = next(row for row in jobs.backend.schedules().rows if row.name == "s")
    data = change(row.sealed)
    assert jobs.backend.change_schedule(
        ScheduleChange(name="s", version=row.version, row=msgspec.structs.replace(row, sealed=data))
    )


@pytest.mark.promise("S92")
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"acme", b"evil"),
        lambda data: b"onward/1 - -\n" + data.partition(b"\n")[2],
        lambda data: data[:-5],
        lambda data: b"",
        lambda data: b"onward/1 - -\n{}",
    ],
    ids=["altered", "unsigned", "cut", "empty", "no schedule"],
)
def test_a_specification_that_was_tampered_with_is_not_booked(open_app, jobs, clock, listen, caplog, change):
    signed = open_app(signing_keys="k1:" + "ab" * 32, signing="require")
    ran = []
    report = reporting(signed, ran)
    heard = listen(signed)
    signed.schedules.create("s", "@every 30s", report.call("acme"))
    signed.schedules.create("fine", "@every 30s", report.call("fine"))
    tampered(signed, change)

    signed.drain()
    steps(signed, clock, 2, 30)

    assert {customer for customer, _ in ran} == {"fine"}
    assert [record.levelname for record in caplog.records if "schedule.rejected s" in record.message] == ["CRITICAL"]
    assert [event.schedule for event in heard(ScheduleRejected)] == ["s"]
    shown = signed.schedules.get("s")
    assert shown.problem
    assert shown.cron is None
    assert shown.next(3) == []
    signed.schedules.delete("s")


def test_arguments_of_a_schedule_are_encrypted_as_those_of_a_job(open_app, jobs, clock):
    ran = []
    private = open_app(signing_keys="k1:" + "ab" * 32, encryption=True)
    report = reporting(private, ran)
    private.schedules.create("s", "@every 30s", report.call("a very secret customer"))

    (row,) = (row for row in private.backend.schedules().rows if row.name == "s")
    assert b"very secret" not in row.sealed
    private.drain()
    clock.advance(30)
    assert all(b"very secret" not in job.raw for job in private.list())
    private.drain()

    assert ran == [("a very secret customer", at(seconds=30))]


K1, K2 = "k1:" + "ab" * 32, "k2:" + "cd" * 32


@pytest.mark.parametrize("encryption", [False, True])
def test_schedules_outlive_the_key_that_signed_them_paused_ones_too(open_app, jobs, clock, store, encryption):
    if store == "memory":
        pytest.skip("another application has another memory")

    def deploy(keys):
        app = open_app(signing_keys=keys, signing="require", encryption=encryption)
        ran = []
        report = reporting(app, ran)
        app.schedule("@every 30s", name="code")(report)
        return app, report, ran

    app, report, ran = deploy(K1)
    app.schedules.create("made", "@every 30s", report.call("made"))
    app.schedules.create("paused", "@every 30s", report.call("paused"))
    app.schedules.pause("paused")
    steps(app, clock, 2, 30)
    assert {customer for customer, _ in ran} == {"acme", "made"}
    app, _, ran = deploy(f"{K2},{K1}")
    steps(app, clock, 3, 30)  # runs what the old key has signed

    app, _, ran = deploy(K2)
    assert [schedule.problem for schedule in app.schedules.list()] == [None, None, None]
    app.schedules.resume("paused")
    steps(app, clock, 2, 30)
    assert {customer for customer, _ in ran} == {"acme", "made", "paused"}


def test_a_new_deployment_seals_what_the_code_says_and_tells_that_it_could_not_be_read(
    open_app, jobs, clock, store, listen
):
    if store == "memory":
        pytest.skip("another application has another memory")

    def deploy(keys):
        app = open_app(signing_keys=keys, signing="require")
        ran = []
        app.schedule("@every 30s", name="s")(reporting(app, ran))
        return app, ran

    first, _ = deploy(K1)
    first.schedules.tick()
    clock.advance(600)
    second, ran = deploy(K2)
    heard = listen(second)
    steps(second, clock, 2, 30)

    assert len(ran) >= 2
    assert [event.schedule for event in heard(ScheduleRejected)] == ["s"]
    assert second.schedules.get("s").problem is None


# Spread


@pytest.mark.promise("S93")
def test_a_spread_stays_within_its_bound_and_is_even(jobs, clock, report):
    tick = to_micros(at(hours=1))
    offsets = sorted(spread_of(f"schedule {number}", tick, 60.0) for number in range(1000))

    assert offsets[0] >= 0
    assert offsets[-1] < 60 * SECOND
    tenths = [sum(tenth * 6 <= offset / SECOND < tenth * 6 + 6 for offset in offsets) for tenth in range(10)]
    assert min(tenths) > 60
    assert max(tenths) < 140


@pytest.mark.promise("S93")
def test_a_job_is_due_within_the_spread_and_keeps_its_tick(jobs, clock, report, ran):
    jobs.schedules.create("s", "@every 60s", report.call("acme"), spread="20s")
    jobs.schedules.tick()
    (booked,) = jobs.list()

    assert at(seconds=60) < booked.available_at < at(seconds=80)
    clock.set(booked.available_at)
    jobs.drain()
    assert ticks(ran) == [at(seconds=60)]


def test_ticks_of_a_period_can_be_shifted_by_name(jobs, clock, report, ran):
    shown = [
        jobs.schedules.create(f"s{number}", "@every 1h", report.call("acme"), spread=True).next(1)[0]
        for number in range(20)
    ]

    assert len({tick.minute for tick in shown}) > 5
    assert jobs.schedules.get("s7").next(3) == [shown[7] + timedelta(hours=hour) for hour in range(3)]
    with pytest.raises(InvalidSchedule, match="spread='5m'"):
        jobs.schedules.create("s", "0 9 * * *", report.call("acme"), spread=True)


# What is refused, with nothing written


@pytest.mark.parametrize(
    ("said", "error", "text"),
    [
        ({"cron": "61 * * * *"}, InvalidSchedule, "minute must be"),
        ({"tz": "Europe/Berln"}, InvalidSchedule, "did you mean 'Europe/Berlin'"),
        ({"catch_up": 0}, InvalidSchedule, "'skip', 'once'"),
        ({"catch_up": "twice"}, InvalidSchedule, "'skip', 'once'"),
        ({"overlap": "queu"}, InvalidSchedule, "did you mean 'queue'"),
        ({"spread": "soon"}, InvalidSchedule, "cannot be read"),
        ({"spread": "2d"}, InvalidSchedule, "at most a day"),
        ({"name": ""}, InvalidSchedule, "printable text"),
        ({"name": "a\nb"}, InvalidSchedule, "printable text"),
        ({"name": "x" * 201}, InvalidSchedule, "printable text"),
        ({"call": None}, OptionError, "report.call"),
        ({"call": "report"}, OptionError, "report.call"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_said(jobs, report, said, error, text):
    given = {"name": "s", "cron": "@every 30s", "call": report.call("acme")} | said

    with pytest.raises(error, match=text):
        jobs.schedules.create(given.pop("name"), given.pop("cron"), given.pop("call"), **given)

    assert jobs.backend.schedules().rows == []


def test_arguments_that_no_caller_passes_are_missed_at_once(jobs):
    @jobs.job
    def needy(customer: str) -> None: ...

    with pytest.raises(ArgumentError, match=r"schedule 'needy': .*customer.* args=\{…\}"):
        jobs.schedule("@hourly")(needy)
    with pytest.raises(OptionError, match="args must be a mapping"):
        jobs.schedule("@hourly", args="acme")(needy)
    with pytest.raises(OptionError, match="leave out delay"):
        jobs.schedules.create("s", "@hourly", needy.using(delay=5).call("acme"))


@pytest.mark.parametrize(
    ("option", "meant"), [("catchup", "catch_up"), ("overlaps", "overlap"), ("environment", "environments")]
)
def test_an_option_that_does_not_exist_is_told_with_the_nearest(jobs, option, meant):
    with pytest.raises(OptionError, match=f"no option '{option}': did you mean '{meant}'"):
        jobs.schedule("@hourly", **{option: "skip"})


@pytest.mark.parametrize("environments", [5, "production", [5], {"production": 1}])
def test_environments_that_are_no_names_are_refused(jobs, environments):
    with pytest.raises(OptionError, match="environments must be a list of names"):
        jobs.schedule("0 9 * * *", environments=environments)


def test_arguments_are_given_by_name_or_in_order(jobs, report):
    with pytest.raises(OptionError, match="args must be a mapping such as"):
        jobs.schedule("0 9 * * *", args={1: 2})(report)


@pytest.mark.parametrize("target", [print, "x".upper, int, None])
def test_what_can_be_no_job_can_have_no_schedule(jobs, target):
    with pytest.raises(OptionError, match="decorates a job"):
        jobs.schedule("0 9 * * *")(target)


def test_the_job_of_another_application_cannot_be_scheduled(jobs):
    other = reporting(Onward("memory://"), [])
    with pytest.raises(ArgumentError, match="is a job of another application"):
        jobs.schedules.create("s", "0 9 * * *", other.call())
    with pytest.raises(ArgumentError, match="is a job of another application"):
        jobs.schedule("0 9 * * *")(other)
    assert jobs.schedules.list() == []


@pytest.mark.parametrize("encryption", [False, True])
def test_arguments_that_are_too_large_for_a_job_are_refused_where_they_are_said(open_app, jobs, encryption):
    small = open_app(max_payload=1024, encryption=encryption, signing_keys=K1)
    report = reporting(small, [])
    small.schedules.create("fine", "0 9 * * *", report.call("x" * 100))
    with pytest.raises(PayloadTooLarge):
        small.schedules.create("s", "0 9 * * *", report.call("x" * 700 if encryption else "x" * 1000))
    assert [schedule.name for schedule in small.schedules.list()] == ["fine"]


def test_two_schedules_of_one_name_are_refused(jobs, report):
    jobs.schedule("@hourly")(report)

    with pytest.raises(DefinitionError, match=r"another name with @jobs.schedule"):
        jobs.schedule("@daily")(report)
    jobs.schedules.create("s", "@hourly", report.call("acme"))
    with pytest.raises(ScheduleTaken, match=r"use update\(\)"):
        jobs.schedules.create("s", "@daily", report.call("acme"))


def test_a_function_with_a_schedule_that_is_no_job_is_told_of_before_anything_runs(jobs):
    @jobs.schedule("@hourly")
    def forgotten() -> None: ...

    with pytest.raises(DefinitionError, match=r"forgotten has a schedule and is no job: put @jobs.job above"):
        jobs.drain()


def test_an_unknown_name_is_told_with_the_nearest(jobs, report):
    with pytest.raises(ScheduleNotFound, match="there is none yet"):
        jobs.schedules.pause("s")
    jobs.schedules.create("nightly", "@daily", report.call("acme"))

    for verb in (jobs.schedules.pause, jobs.schedules.get, jobs.schedules.run_now, jobs.schedules.delete):
        with pytest.raises(ScheduleNotFound, match="did you mean 'nightly'"):
            verb("nigthly")


def test_a_broker_without_a_store_refuses_schedules_where_they_are_said():
    jobs = Onward("beanstalk://127.0.0.1:1")

    with pytest.raises(OptionError, match="give the broker a store"):
        jobs.schedule("@hourly")(jobs.job(name="report")(lambda: None))
    with pytest.raises(OptionError, match="give the broker a store"):
        jobs.schedules.list()


# Where it runs


def test_a_worker_inside_a_program_books_and_runs(url, eventually, ran, jobs):
    with Onward(url) as app:

        @app.schedule("@every 1s")
        @app.job
        def beat(ctx: JobContext) -> None:
            ran.append(("beat", ctx.scheduled_for))

        with app.worker(concurrency=2):
            eventually(lambda: len(ran) >= 3)

    assert len(set(ticks(ran))) == len(ran)


def test_a_look_that_fails_ends_no_worker(url, eventually, ran, jobs, monkeypatch, caplog):
    with Onward(url) as app:
        report = reporting(app, ran)
        asked = threading.Event()

        def broken():
            asked.set()
            raise RuntimeError("a bug")

        monkeypatch.setattr(app.backend, "schedules", broken)
        with app.worker(concurrency=2):
            assert asked.wait(20)
            report.enqueue("still there")
            eventually(lambda: ran)

    assert ran == [("still there", None)]
    assert any(record.levelno == logging.ERROR and "will be tried again" in record.message for record in caplog.records)


def test_sync_books_and_runs_what_is_due_when_it_is_told_to_tick(ran):
    clock = FakeClock()
    jobs = Onward("sync://", clock=clock)
    report = reporting(jobs, ran)
    jobs.schedules.create("s", "@every 30s", report.call("acme"))

    for _ in range(3):
        jobs.schedules.tick()
        clock.advance(30)
    jobs.schedules.tick()

    assert ticks(ran) == [at(seconds=30), at(seconds=60), at(seconds=90)]


def test_on_sync_a_job_of_a_schedule_may_enqueue_another():
    clock, ran = FakeClock(), []
    jobs = Onward("sync://", clock=clock)

    @jobs.job
    def other() -> None:
        ran.append("other")

    @jobs.schedule("@every 30s")
    @jobs.job
    def first() -> None:
        ran.append("first")
        other.enqueue()
        ran.append("end of first")

    jobs.schedules.tick()
    clock.advance(30)
    jobs.schedules.tick()

    assert ran == ["first", "end of first", "other"]
