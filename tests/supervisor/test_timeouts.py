"""Handlers that do not end: time-outs that are ignored, engines that stand still, jobs that are cancelled."""

import pytest

from onward import State
from tests.supervisor.fleets import alive, gone
from tests.waiting import eventually


@pytest.mark.promise("F83")
def test_a_job_that_ignores_its_time_out_has_its_process_recycled(shop, start):
    """Its neighbours finish, those with a process of their own too; the offender is a failed attempt."""
    fleet = start(shop, "--timeout-grace", 0.2)
    neighbours = [shop.hold.enqueue("here"), shop.hold_alone.enqueue("alone")]
    worker = shop.noted("holding", name="here")["pid"]
    shop.noted("holding", name="alone")
    deaf = shop.deaf.using(max_retries=1, retry=shop.module.Fixed(0)).enqueue("deaf")
    shop.noted("holding", name="deaf", attempt=1)
    fleet.said(f"is recycled: a job ignores its time-out: {deaf.id}")
    # The line is said before the worker is told: it may claim once more.
    replacement = eventually(lambda: pid if (pid := shop.plain.enqueue().result(20)) != worker else None)
    still_there = alive(worker)
    shop.let("here", "alone")
    records = shop.ended(*neighbours)
    gone(worker)
    shop.noted("holding", name="deaf", attempt=2)
    gone(shop.diary("holding", name="deaf", attempt=2)[0]["pid"])
    (failed,) = shop.ended(deaf)

    assert replacement != worker
    assert still_there
    assert [(each.state, each.delivery, each.interruptions) for each in records] == [(State.COMPLETED, 1, 0)] * 2
    assert (failed.state, failed.attempts, failed.crashes) == (State.DISCARDED, 2, 0)
    assert {error.message for error in failed.errors} == {"the job ignored its time-out, and its process was killed"}
    assert fleet.stop() == 0
    assert shop.sessions() == {}


@pytest.mark.promise("F83")
def test_an_offender_that_holds_the_interpreter_is_a_failed_attempt_too(shop, start):
    fleet = start(shop, "--timeout-grace", 0.2)
    (record,) = shop.ended(shop.hold_the_lock.using(timeout=0.5).enqueue(300))

    assert (record.state, record.attempts, record.crashes) == (State.DISCARDED, 1, 0)
    assert shop.plain.enqueue().result(20)
    assert fleet.stop() == 0


@pytest.mark.promise("F83")
def test_a_worker_that_stops_gives_an_offender_back_as_interrupted(shop, start):
    fleet = start(shop, "--timeout-grace", 0.2, "--shutdown-timeout", 0.2)
    held, deaf = shop.hold.enqueue("held"), shop.deaf.enqueue("deaf")
    shop.noted("holding", name="held")
    shop.noted("holding", name="deaf")
    fleet.said("ignores its time-out")

    assert fleet.stop() == 0
    for handle in (held, deaf):
        record = handle.record()
        assert (record.state, record.attempts, record.interruptions) == (State.AVAILABLE, 0, 1)


@pytest.mark.promise("A20")
def test_an_interruption_never_hits_the_next_job(shop, start):
    """They end about when their time is out."""
    fleet = start(shop, "--concurrency", 2)
    close = shop.close_call.enqueue_many([(n,) for n in range(100)])
    plain = shop.plain.enqueue_many([(n,) for n in range(200)])
    records = shop.ended(*plain, *close)

    assert {record.state for record in records[:200]} == {State.COMPLETED}
    assert {record.state for record in records[200:]} <= {State.COMPLETED, State.DISCARDED}
    assert {error.kind for record in records for error in record.errors} <= {"onward.errors.JobTimeout"}
    assert fleet.log.count("died") == 0
    assert fleet.stop() == 0


@pytest.mark.promise("A16", "F16")
def test_a_process_whose_pump_stands_still_is_killed(shop, start):
    """The supervisor renews its session, and no worker would ever run its jobs."""
    fleet = start(shop, "--max-silence", 1.5)
    (record,) = shop.ended(shop.hold_the_lock.enqueue(300))

    assert (record.state, record.result, record.crashes) == (State.COMPLETED, 2, 1)
    assert record.errors[0].message.startswith("its pump made no turn for")
    fleet.said("was killed: its pump made no turn")
    assert fleet.stop() == 0


@pytest.mark.promise("A16", "F16")
def test_a_process_whose_pump_died_ends(shop, start):
    fleet = start(shop)
    (record,) = shop.ended(shop.kill_the_pump.enqueue())

    assert (record.state, record.result, record.crashes) == (State.COMPLETED, 2, 1)
    assert record.errors[0].message == "exited with code 70"
    assert fleet.stop() == 0


@pytest.mark.promise("F87")
def test_a_running_job_is_cancelled_from_another_process_wherever_it_runs(shop, start):
    fleet = start(shop)
    names = ["here", "loop", "alone"]
    handles = [shop.insist.enqueue("here"), shop.hold_async.enqueue("loop"), shop.hold_alone.enqueue("alone")]
    pids = [shop.noted("holding", name=name)["pid"] for name in names]
    assert [handle.cancel("enough") for handle in handles] == [State.EXECUTING] * 3
    records = shop.ended(*handles)

    assert [(each.state, each.reason, each.crashes) for each in records] == [(State.CANCELLED, "enough", 0)] * 3
    assert len(shop.diary("cancelled", name="loop")) == 1
    assert shop.diary("held") == []
    assert (alive(pids[0]), alive(pids[2])) == (True, False)
    assert fleet.stop() == 0
