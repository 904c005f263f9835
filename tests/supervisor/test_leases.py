"""Who runs a job: long runs, blocked interpreters, the pause of a whole machine, a supervisor that dies."""

import os
import signal

import pytest

from onward import State
from tests.supervisor.fleets import CLAIMS_ALL, eventually, gone

pytestmark = pytest.mark.every_store


@pytest.fixture
def shop(open_shop):
    return open_shop(lease_for=1)


@pytest.mark.redis_too
@pytest.mark.promise("F01", "F14", "F15", "F16")
def test_a_long_run_is_left_alone_while_the_jobs_of_a_dead_worker_come_back(shop, start):
    living = start(shop, "--queues", "default")
    long = shop.hold.enqueue("long")
    shop.noted("holding", name="long")
    dead = start(shop, "--queues", "other")
    lost = shop.hold.using(queue="other").enqueue("lost")
    shop.noted("holding", name="lost")
    dead.kill()  # supervisor and all: only the end of its lease can tell
    record = eventually(lambda: back if (back := lost.record()).state is not State.EXECUTING else None)
    shop.let("long")
    (kept,) = shop.ended(long)

    assert (record.state, record.attempts, record.crashes) == (State.RETRYABLE, 0, 1)
    assert [error.message for error in record.errors] == ["its session expired"]
    assert (kept.state, kept.delivery, kept.crashes, kept.interruptions) == (State.COMPLETED, 1, 0, 0)
    assert living.stop() == 0
    assert shop.sessions() == {}


@pytest.mark.promise("F18", "F88")
def test_a_handler_that_holds_the_interpreter_or_blocks_the_loop_keeps_its_lease(shop, start):
    fleet = start(shop, "--processes", 2, "--concurrency", 1)
    handles = [shop.hold_the_lock.enqueue(3), shop.block_the_loop.enqueue(3)]
    shop.noted("locking")
    shop.noted("blocking")
    records = shop.ended(*handles)

    assert [(each.state, each.delivery, each.crashes) for each in records] == [(State.COMPLETED, 1, 0)] * 2
    assert len(shop.diary("locking")) == len(shop.diary("blocking")) == 1
    assert fleet.stop() == 0


@pytest.mark.redis_too
@pytest.mark.promise("A4", "F17")
def test_a_worker_that_stood_still_past_its_lease_changes_nothing_and_begins_nothing_that_it_lost(shop, start):
    """A settlement that comes late is refused by the store; a handler that begins late would not be refused."""
    shop.add(CLAIMS_ALL)
    fleet = start(shop, "--concurrency", 1)
    held, waiting = shop.hand_full()
    fleet.pause()
    taken = shop.jobs.counts()[State.EXECUTING]
    lost = eventually(shop.jobs.reap)
    shop.let("work-2")
    shop.jobs.drain()
    before = held.record()
    fleet.resume()
    late = shop.noted("held", name="work", delivery=1)
    fleet.said(f"lease.*{held.id}|{held.id}.*lost")
    (last,) = shop.ended(shop.plain.enqueue(1000))

    assert len(lost) == taken > 1
    assert (late["cancelled"], late["lost"]) == (True, True)
    assert held.record() == before
    assert (before.state, before.result, before.attempts, before.crashes) == (State.COMPLETED, 2, 1, 1)
    assert sorted(run["n"] for run in shop.diary("plain")) == [*range(400), 1000]  # each once
    assert {record.state for record in shop.ended(*waiting)} == {State.COMPLETED}
    assert last.result != os.getpid()  # and it works on
    assert fleet.stop() == 0


@pytest.mark.promise("A17", "F24")
def test_a_process_that_loses_its_supervisor_finishes_what_runs_and_takes_nothing_new(shop, start):
    shop.add(CLAIMS_ALL)
    fleet = start(shop, "--concurrency", 1)
    held, _ = shop.hand_full()
    worker = shop.diary("holding", name="work")[0]["pid"]
    fleet.process.kill()
    fleet.said("the supervisor is gone")
    eventually(lambda: shop.jobs.counts()[State.EXECUTING] == 1)  # what had not begun was given back
    shop.renewed(held.record().owner, 4)  # for several leases
    reaped = shop.jobs.reap()
    shop.let("work")
    gone(worker)
    record = held.record()

    assert not reaped
    assert (record.state, record.delivery, record.crashes) == (State.COMPLETED, 1, 0)
    assert len(shop.diary("plain")) == 300
    assert shop.sessions() == {}
    assert fleet.members() == []


@pytest.mark.promise("A17", "F82")
def test_a_process_that_loses_its_supervisor_does_not_outlive_the_shutdown_time_out(shop, start):
    fleet = start(shop, "--shutdown-timeout", 0.5)
    held, alone = shop.hold.enqueue("held"), shop.hold_alone.enqueue("alone")
    workers = [shop.noted("holding", name=name)["pid"] for name in ("held", "alone")]
    fleet.process.kill()
    for worker in workers:
        gone(worker)
    eventually(shop.jobs.reap)

    assert [each.record().state for each in (held, alone)] == [State.RETRYABLE] * 2


@pytest.mark.promise("A17")
def test_a_process_whose_supervisor_stands_still_keeps_its_lease(shop, start):
    fleet = start(shop)
    held = shop.hold.enqueue("held")
    shop.noted("holding", name="held")
    os.kill(fleet.pid, signal.SIGSTOP)
    shop.renewed(held.record().owner, 4)
    os.kill(fleet.pid, signal.SIGCONT)
    lost = shop.claimed_by_the_dead()
    eventually(lambda: lost.record().crashes)  # it sweeps again
    shop.let("held")
    (record,) = shop.ended(held)

    assert (record.state, record.delivery, record.crashes) == (State.COMPLETED, 1, 0)
    assert fleet.stop() == 0
