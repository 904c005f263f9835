"""Schedules whose job is a flow, on every store that keeps both."""

from datetime import UTC, datetime, timedelta

import pytest

from onward import FlowError, InvalidSchedule, JobContext, Onward, OptionError, Secret, State
from onward.base.ids import occurrence_id, scheduled_flow_id
from onward.errors import ArgumentError, BackendUnavailable, DefinitionError
from onward.flow.schedule import spread_of
from onward.testing import FakeClock
from tests.application.every_store import *  # noqa: F403

pytestmark = pytest.mark.every_store

START = datetime(2030, 1, 1, tzinfo=UTC)  # where the clock of the tests starts


@pytest.fixture
def jobs(open_app):
    jobs = open_app()
    can = jobs.backend.capabilities
    if not (can.schedules and can.flows):
        pytest.skip("this store keeps no schedules, or no flows")
    return jobs


@pytest.fixture
def ran():
    return []


@pytest.fixture
def note(jobs, ran):
    return noting(jobs, ran)


def noting(jobs, ran):
    @jobs.job
    def note(ctx: JobContext, word: str) -> str:
        ran.append((word, ctx.scheduled_for))
        return word

    return note


def a_flow(jobs, note, name="publish"):
    """Build a flow of three nodes: one job, two, one."""
    flow = jobs.flow(name)
    first = flow.add(note, "first", node="first")
    parts = flow.map(note, [("left",), ("right",)], after=first, node="parts")
    flow.add(note, "last", after=parts, node="last")
    return flow


def words(ran):
    return [word for word, _ in ran]


def started(jobs):
    """Return the flows that were started, the oldest first."""
    return [jobs.flows.get(flow.id) for flow in reversed(jobs.flows.list())]


def at(**past):
    return START + timedelta(**past)


# Ticks


def test_every_tick_starts_the_whole_flow_once(jobs, clock, note, ran):
    jobs.schedules.create("nightly", "@every 30s", a_flow(jobs, note))
    jobs.drain()
    assert ran == []

    for _ in range(3):
        clock.advance(30)
        jobs.drain()

    assert words(ran) == ["first", "left", "right", "last"] * 3
    assert [tick for _, tick in ran[::4]] == [at(seconds=30), at(seconds=60), at(seconds=90)]
    assert len({tick for _, tick in ran}) == 3  # every job of a flow knows its tick
    assert [handle.state() for handle in started(jobs)] == ["completed"] * 3


def test_a_chain_may_be_scheduled(jobs, clock, note, ran):
    jobs.schedules.create("chained", "@every 30s", jobs.chain(note.call("one"), note.call("two")))

    jobs.drain()
    clock.advance(30)
    jobs.drain()

    assert words(ran) == ["one", "two"]


def test_ids_follow_from_the_name_and_the_tick(jobs, clock, note):
    jobs.schedules.create("nightly", "@every 30s", a_flow(jobs, note))
    jobs.drain()
    clock.advance(30)
    jobs.drain()

    tick = round(at(seconds=30).timestamp()) * 1_000_000
    occurrence = occurrence_id(jobs.settings.namespace, "nightly", tick)
    (record,) = jobs.schedules.get("nightly").last(1)
    (flow,) = started(jobs)

    assert record.id == occurrence
    assert flow.id == record.result == scheduled_flow_id(jobs.settings.namespace, "nightly", occurrence)


def test_a_flow_starts_within_its_spread(jobs, clock, note, ran):
    jobs.schedules.create("nightly", "@every 60s", a_flow(jobs, note), spread="20s")
    jobs.drain()
    (booked,) = jobs.list(state="scheduled")

    later = spread_of("nightly", round(at(seconds=60).timestamp()) * 1_000_000, 20.0)

    assert booked.available_at == at(seconds=60, microseconds=later)
    assert 0 < later < 20_000_000


def test_a_start_that_is_repeated_stores_nothing_twice(jobs, clock, note, ran, monkeypatch):
    jobs.schedules.create("nightly", "@every 30s", a_flow(jobs, note))
    jobs.drain()
    clock.advance(30)
    applied = jobs.backend.enqueue

    def lost(envelopes, **options):
        applied(envelopes, **options)
        monkeypatch.undo()
        raise RuntimeError("the process is killed here, for all that the store knows")

    monkeypatch.setattr(jobs.backend, "enqueue", lost)
    jobs.drain()
    assert jobs.list(job="onward.flow")[0].state is State.RETRYABLE
    assert sorted(words(ran)) == ["first", "last", "left", "right"]  # the flow was stored, and is over

    clock.advance(3600)
    jobs.schedules.pause("nightly")
    jobs.drain()

    assert jobs.list(job="onward.flow")[0].state is State.COMPLETED
    assert len(ran) == 4
    (flow,) = started(jobs)
    assert flow.counts()[State.COMPLETED] == sum(flow.counts().values()) == 4
    assert jobs.list(job="onward.flow")[0].result == flow.id


def test_a_store_that_is_away_delays_the_start(jobs, clock, note, ran, monkeypatch):
    jobs.schedules.create("nightly", "@every 30s", a_flow(jobs, note))
    jobs.drain()
    clock.advance(30)

    def away(envelopes, **options):
        raise BackendUnavailable("away")

    monkeypatch.setattr(jobs.backend, "enqueue", away)
    monkeypatch.setattr(jobs.client, "_timeout", 0.01)
    jobs.drain()
    monkeypatch.undo()
    assert ran == []
    jobs.schedules.pause("nightly")

    clock.advance(3600)
    jobs.drain()

    assert words(ran) == ["first", "left", "right", "last"]


def test_delays_and_expiry_of_members_count_from_the_start(jobs, clock, note, ran):
    flow = jobs.flow("slow")
    first = flow.add(note.using(expires="1m"), "first")
    flow.add(note.using(delay="10s"), "later", after=first)
    jobs.schedules.create("slow", "@every 1h", flow, spread=None)
    clock.advance(3590)
    jobs.drain()
    clock.advance(10)
    jobs.drain()
    assert words(ran) == ["first"]

    clock.advance(9)
    jobs.drain()
    assert words(ran) == ["first"]
    clock.advance(1)
    jobs.drain()

    assert words(ran) == ["first", "later"]


# Policies


@pytest.fixture
def slow(jobs, ran):
    """A flow that is over only when its second job is: that one waits for a signal that the test sends."""

    @jobs.job
    def wait(ctx: JobContext) -> None:
        if "stop" not in words(ran):
            ctx.sleep("pause", "10m")
        ran.append(("waited", ctx.scheduled_for))

    def build(note, name="slow"):
        flow = jobs.flow(name)
        flow.add(wait, after=flow.add(note, "begun"))
        return flow

    return build


def test_while_a_flow_runs_the_next_one_waits(jobs, clock, note, slow, ran):
    jobs.schedules.create("s", "@every 1m", slow(note), overlap="queue")
    jobs.drain()

    for _ in range(9 * 6):
        clock.advance(10)
        jobs.drain()
    assert words(ran) == ["begun"]

    for _ in range(3 * 6):
        clock.advance(10)
        jobs.drain()

    # The first is over after eleven minutes.  Of those that waited one runs, and the others are skipped.
    assert words(ran) == ["begun", "waited", "begun"]
    assert [handle.state() for handle in started(jobs)] == ["completed", "running"]
    waiting = [job for job in jobs.list(job="onward.flow", limit=100) if job.state is State.SCHEDULED]
    assert len(waiting) <= 2  # the one that waits, and the one that is booked ahead


def test_while_a_flow_runs_ticks_are_skipped(jobs, clock, note, slow, ran):
    jobs.schedules.create("s", "@every 1m", slow(note), overlap="skip")
    jobs.drain()

    for _ in range(5):
        clock.advance(60)
        jobs.drain()

    assert words(ran) == ["begun"]
    assert len(started(jobs)) == 1
    (first,) = started(jobs)
    skipped = [job for job in jobs.list(job="onward.flow", limit=100) if "still runs" in (job.reason or "")]
    assert len(skipped) == 4
    assert {job.reason for job in skipped} == {f"flow {first.id} of the schedule still runs"}


def test_a_newer_tick_cancels_the_flow_that_runs(jobs, clock, note, slow, ran):
    jobs.schedules.create("s", "@every 1m", slow(note), overlap="cancel")
    jobs.drain()
    clock.advance(60)
    jobs.drain()

    clock.advance(60)
    jobs.drain()
    clock.advance(5)
    jobs.drain()

    assert words(ran) == ["begun", "begun"]
    assert [handle.state() for handle in started(jobs)] == ["cancelled", "running"]


def test_flows_may_run_beside_each_other(jobs, clock, note, slow, ran):
    jobs.schedules.create("s", "@every 1m", slow(note), overlap="allow")
    jobs.drain()

    for _ in range(3):
        clock.advance(60)
        jobs.drain()

    assert words(ran) == ["begun"] * 3
    assert [handle.state() for handle in started(jobs)] == ["running"] * 3


def test_flows_of_the_same_name_that_no_tick_has_started_hinder_none(jobs, clock, note, slow, ran):
    jobs.schedules.create("s", "@every 1m", slow(note), overlap="skip")
    jobs.schedules.create("other", "@every 1m", slow(note), overlap="skip")
    for _ in range(101):  # more than one page
        slow(note).enqueue()
    jobs.schedules.run_now("s")
    jobs.drain()
    ran.clear()

    clock.advance(60)
    jobs.drain()

    assert words(ran) == ["begun", "begun"]


def test_a_schedule_that_was_changed_still_knows_the_flow_that_runs(jobs, clock, note, slow, ran):
    jobs.schedules.create("s", "@every 1m", slow(note), overlap="skip")
    jobs.drain()
    clock.advance(60)
    jobs.drain()

    jobs.schedules.update("s", cron="@every 25s")
    for _ in range(4):
        clock.advance(25)
        jobs.drain()

    assert words(ran) == ["begun"]


@pytest.mark.parametrize(("catch_up", "late"), [("skip", 0), ("once", 1), (3, 3)])
def test_ticks_that_were_missed_are_caught_up_as_jobs_are(jobs, clock, note, ran, catch_up, late):
    jobs.schedules.create("s", "@every 10m", a_flow(jobs, note), catch_up=catch_up)
    clock.advance(55 * 60)

    jobs.drain()

    assert words(ran).count("last") == late
    assert jobs.schedules.get("s").missed == 5 - late


def test_a_late_start_stands_for_the_newer_ticks(jobs, clock, note, ran):
    jobs.schedules.create("s", "@every 20s", a_flow(jobs, note))
    jobs.schedules.tick()  # three of them
    clock.advance(60)

    jobs.drain()

    assert words(ran).count("first") == 1
    assert {tick for _, tick in ran} == {at(seconds=60)}


# Steering


@pytest.mark.parametrize("act", ["pause", "delete", "update"])
def test_what_is_booked_is_taken_back_whole(jobs, clock, note, ran, act):
    jobs.schedules.create("s", "@every 30s", a_flow(jobs, note))
    jobs.schedules.tick()
    assert jobs.counts()[State.SCHEDULED] == 2

    match act:
        case "update":
            jobs.schedules.update("s", cron="0 0 1 1 *")
        case _:
            getattr(jobs.schedules, act)("s")

    assert sum(jobs.counts().values()) == 0
    assert jobs.flows.list() == []
    clock.advance(120)
    jobs.drain()
    assert ran == []


def test_a_pause_shortly_before_a_tick_books_it_again(jobs, clock, note, ran):
    jobs.schedules.create("s", "@every 60s", a_flow(jobs, note))
    jobs.schedules.tick()
    clock.advance(30)
    jobs.schedules.pause("s")
    jobs.schedules.resume("s")
    jobs.drain()

    clock.advance(30)
    jobs.drain()

    assert words(ran) == ["first", "left", "right", "last"]


def test_a_flow_that_has_started_goes_on_when_its_schedule_is_deleted(jobs, clock, note, slow, ran):
    jobs.schedules.create("s", "@every 1m", slow(note))
    jobs.drain()
    clock.advance(60)
    jobs.drain()

    jobs.schedules.delete("s")
    clock.advance(601)
    jobs.drain()

    assert words(ran) == ["begun", "waited"]


def test_a_schedule_may_change_from_a_job_to_a_flow_and_back(jobs, clock, note, ran):
    jobs.schedules.create("s", "@every 30s", note.call("job"))
    jobs.schedules.update("s", call=a_flow(jobs, note))
    assert jobs.schedules.get("s").flow == "publish"
    jobs.drain()
    clock.advance(30)
    jobs.drain()
    assert words(ran) == ["first", "left", "right", "last"]

    jobs.schedules.update("s", call=note.call("job"))
    ran.clear()
    jobs.drain()
    clock.advance(30)
    jobs.drain()

    assert words(ran) == ["job"]
    assert jobs.schedules.get("s").flow is None


def test_run_now_enqueues_the_flow_at_once(jobs, note, ran):
    jobs.schedules.create("s", "@every 1h", a_flow(jobs, note))

    handles = [jobs.schedules.run_now("s") for _ in range(2)]
    jobs.drain()

    assert [handle.state() for handle in handles] == ["completed", "completed"]
    assert list(handles[0].results_of("parts")) == ["left", "right"]
    assert len(ran) == 8
    assert {tick for _, tick in ran} == {None}


def test_a_schedule_shows_its_flow(jobs, note):
    jobs.schedules.create("s", "@every 1h", a_flow(jobs, note))

    shown = jobs.schedules.get("s")

    assert (shown.job, shown.flow, shown.queue) == ("onward.flow", "publish", "default")
    assert shown.arguments == {"first": 1, "parts": 2, "last": 1}
    assert shown.problem is None


def test_a_process_that_does_not_know_all_jobs_books_nothing(jobs, open_app, store, note, clock):
    if store == "memory":
        pytest.skip("no other process sees this store")
    jobs.schedules.create("s", "@every 30s", jobs.chain(note.call("one"), noting_too(jobs).call()))
    other = open_app()
    noting(other, [])

    assert other.schedules.tick() == 0
    assert jobs.schedules.tick() == 2


def noting_too(jobs):
    @jobs.job
    def too() -> None: ...

    return too


# Keys


@pytest.mark.parametrize("encryption", [False, True])
def test_members_are_signed_and_encrypted_when_the_flow_starts(open_app, clock, encryption):
    keys = {"k1": "first-signing-key-of-32-characters!!"}
    jobs = open_app(signing="require", signing_keys=keys, encryption=encryption)
    if not (jobs.backend.capabilities.schedules and jobs.backend.capabilities.flows):
        pytest.skip("this store keeps no schedules, or no flows")
    ran = []
    note = noting(jobs, ran)
    jobs.schedules.create("s", "@every 30s", jobs.chain(note.call("one"), note.call("two")))
    jobs.drain()
    booked = jobs.list(job="onward.flow", state="scheduled")
    assert [b"two" in job.raw for job in booked] == [not encryption] * 2

    clock.advance(30)
    jobs.drain()

    assert words(ran) == ["one", "two"]
    assert all(job.raw.startswith(b"onward/1 k1 ") for job in jobs.list())


def test_secrets_of_members_are_not_shown(jobs, clock):
    @jobs.job
    def login(password: Secret[str]) -> None: ...

    jobs.schedules.create("s", "@every 30s", jobs.chain(login.call(Secret("hunter2"))))
    jobs.drain()
    booked = jobs.list(job="onward.flow")

    assert len(booked) == 2
    assert "hunter2" not in repr(booked)
    assert "hunter2" not in repr(jobs.schedules.get("s"))


# Refused


def nothing_is_stored(jobs):
    return jobs.schedules.list() == [] and sum(jobs.counts().values()) == 0


def test_a_flow_without_jobs_is_refused(jobs):
    with pytest.raises(FlowError, match="flow empty has no jobs: add one"):
        jobs.schedules.create("s", "@every 1h", jobs.flow("empty"))
    assert nothing_is_stored(jobs)


def test_a_flow_in_a_circle_is_refused(jobs, note):
    flow = jobs.flow("circle")
    flow.add(note, "a", node="a", after="b")
    flow.add(note, "b", node="b", after="a")

    with pytest.raises(FlowError, match="in a circle: a, b"):
        jobs.schedules.create("s", "@every 1h", flow)
    assert nothing_is_stored(jobs)


def test_a_flow_that_is_too_large_is_refused_with_the_fix(jobs, note):
    flow = jobs.flow("large")
    flow.map(note, [("x" * 1000,) for _ in range(300)])

    with pytest.raises(
        InvalidSchedule, match=r"flow large travel in one job of 3\d\d,\d+ bytes, .*ctx\.flow\.map"
    ) as told:
        jobs.schedules.create("s", "@every 1h", flow)
    assert "max_payload" in str(told.value)
    assert nothing_is_stored(jobs)


@pytest.mark.parametrize(
    ("options", "said"),
    [({"at": at(hours=1)}, "leave out delay and at"), ({"idempotency_key": "k"}, "no tick after the first would run")],
)
def test_options_that_no_tick_can_keep_are_refused(jobs, note, options, said):
    flow = jobs.flow("timed")
    flow.add(note.using(**options), "x")

    with pytest.raises(OptionError, match=said):
        jobs.schedules.create("s", "@every 1h", flow)
    assert nothing_is_stored(jobs)


def test_a_flow_of_another_application_is_refused(jobs, clock):
    other = Onward("memory://", clock=FakeClock())
    flow = a_flow(other, noting(other, []))

    with pytest.raises(ArgumentError, match="flow publish is one of another application"):
        jobs.schedules.create("s", "@every 1h", flow)
    assert nothing_is_stored(jobs)


def test_what_is_no_flow_is_refused(jobs, note):
    with pytest.raises(OptionError, match=r"needs a call of a job, such as report.call\('acme'\), or a flow, not"):
        jobs.schedules.create("s", "@every 1h", a_flow(jobs, note).enqueue())


def test_the_name_of_the_job_that_starts_flows_is_taken(jobs):
    with pytest.raises(DefinitionError, match=r"the name 'onward\.flow' is Onward's own"):

        @jobs.job(name="onward.flow")
        def mine() -> None: ...


def test_a_start_that_no_schedule_has_booked_is_refused(jobs):
    with pytest.raises(ArgumentError, match="give a schedule a flow"):
        jobs.enqueue("onward.flow", {})


# Queues that allow some handlers only, and jobs that run where they are enqueued


def test_a_queue_that_allows_some_jobs_only_starts_flows_of_these(open_app, clock):
    jobs = open_app(queue_handlers={"ops": ["note"]})
    if not (jobs.backend.capabilities.schedules and jobs.backend.capabilities.flows):
        pytest.skip("this store keeps no schedules, or no flows")
    ran = []
    note = noting(jobs, ran)

    @jobs.job(queue="ops")
    def other() -> None:
        ran.append(("other", None))

    jobs.schedules.create("s", "@every 30s", jobs.chain(note.using(queue="ops").call("allowed"), other.call()))
    jobs.drain()
    clock.advance(30)
    jobs.drain()

    assert words(ran) == ["allowed"]
    (flow,) = started(jobs)
    assert flow.state() == "failed"


def test_on_sync_a_tick_runs_the_whole_flow():
    clock, ran = FakeClock(), []
    jobs = Onward("sync://", clock=clock)
    jobs.schedules.create("s", "@every 30s", a_flow(jobs, noting(jobs, ran)))
    jobs.schedules.tick()
    assert ran == []

    clock.advance(30)
    jobs.schedules.tick()

    assert words(ran) == ["first", "left", "right", "last"]
