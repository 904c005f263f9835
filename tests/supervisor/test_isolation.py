"""Jobs in processes of their own."""

import os
import signal

import pytest

from onward import State
from tests.supervisor.fleets import alive, eventually, gone


def test_isolated_jobs_run_elsewhere_and_their_processes_are_used_again(shop, start):
    fleet = start(shop, "--concurrency", 1)
    (worker,) = fleet.workers(1)
    pids = [shop.alone.enqueue().result(20), shop.alone_async.enqueue().result(20), shop.alone.enqueue().result(20)]

    assert set(pids) == set(fleet.solos())
    assert len(set(pids)) == 1
    assert pids[0] != worker
    assert fleet.stop() == 0


def test_the_progress_of_an_isolated_job_is_seen(shop, start):
    fleet = start(shop)
    handle = shop.hold_alone.enqueue("x")
    progress = eventually(lambda: handle.record().progress)
    shop.let("x")

    assert (progress.fraction, progress.note) == (0.5, "half of x")
    assert handle.result(20)
    assert fleet.stop() == 0


def test_an_isolated_job_that_asks_for_too_much_memory_fails(shop, start):
    fleet = start(shop)
    (record,) = shop.ended(shop.devour.enqueue())

    assert (record.state, record.attempts, record.crashes) == (State.DISCARDED, 1, 0)
    assert record.errors[0].kind == "MemoryError"
    assert shop.alone.enqueue().result(20) == fleet.solos()[0]  # the limit was that job's
    assert fleet.stop() == 0


@pytest.mark.promise("F83")
def test_the_time_out_of_an_isolated_job_kills_it_whatever_it_does(shop, start):
    fleet = start(shop)
    hanging, cooperative = shop.hang_alone.enqueue(), shop.hang_async_alone.enqueue()
    pid = shop.noted("hanging")["pid"]
    records = shop.ended(hanging, cooperative)

    assert not alive(pid)
    assert [(each.state, each.attempts, each.crashes) for each in records] == [(State.DISCARDED, 1, 0)] * 2
    assert [each.errors[0].message for each in records] == [
        "the job's process was killed at its time-out of 0.5 s",
        "the job's task was cancelled at its time-out of 0.2 s",
    ]
    assert records[0].errors[0].duration_ms < 500 + 5 * 1000  # five times the second that it may be late
    assert fleet.stop() == 0


@pytest.mark.promise("F83")
def test_what_an_isolated_handler_started_ends_with_it_at_its_time_out(shop, start):
    fleet = start(shop)
    handle = shop.start_a_program_alone.enqueue("x")
    child = shop.noted("holding", name="x")["child"]
    shop.ended(handle)

    gone(child)
    assert fleet.stop() == 0


@pytest.mark.promise("A3")
def test_an_isolated_job_whose_worker_is_killed_does_not_run_while_its_lease_is_given_back(shop, start):
    """Not even if it can hear nothing."""
    fleet = start(shop)
    handle = shop.hold_the_lock_alone.enqueue()
    isolated = shop.noted("locking", delivery=1)["pid"]
    (worker,) = fleet.workers(1)
    os.kill(worker, signal.SIGKILL)
    shop.noted("locking", delivery=2)

    assert not alive(isolated)
    (record,) = shop.ended(handle)
    assert (record.state, record.attempts, record.crashes, record.interruptions) == (State.COMPLETED, 1, 0, 1)
    assert fleet.stop() == 0


@pytest.mark.promise("A3")
def test_an_isolated_job_dies_with_its_worker_when_the_supervisor_is_dead_too(shop, start):
    fleet = start(shop)
    shop.hold_the_lock_alone.enqueue()
    isolated = shop.noted("locking")["pid"]
    (worker,) = fleet.workers(1)
    fleet.process.kill()
    os.kill(worker, signal.SIGKILL)

    gone(isolated)


def test_what_a_handler_says_reaches_the_record_even_if_it_cannot_be_encoded(shop, start):
    fleet = start(shop)
    (record,) = shop.ended(shop.say_the_unsayable.enqueue())

    assert (record.state, record.attempts, record.crashes) == (State.DISCARDED, 1, 0)
    assert record.reason.startswith("the other half: ")
    assert record.progress.note.startswith("half a character: ")
    assert fleet.stop() == 0


@pytest.mark.promise("A11")
def test_a_spare_process_that_died_is_not_a_crash_of_a_job(shop, start):
    fleet = start(shop, "--concurrency", 1)
    spare = shop.alone.enqueue().result(20)
    os.kill(spare, signal.SIGKILL)
    gone(spare)
    (record,) = shop.ended(shop.alone.enqueue())

    assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 0)
    assert record.result != spare
    assert fleet.stop() == 0


@pytest.mark.promise("F17")
def test_an_isolated_job_is_told_that_its_lease_is_lost(open_shop, start):
    shop = open_shop(lease_for=1)
    fleet = start(shop)
    handle = shop.hold_alone.enqueue("x")
    shop.noted("holding", name="x", delivery=1)
    solos = fleet.solos()
    for pid in fleet.pause():
        if pid in solos:
            os.kill(pid, signal.SIGCONT)  # it runs on
    eventually(shop.jobs.reap)
    shop.let("x-2")
    shop.jobs.drain()
    fleet.resume()

    assert shop.noted("held", name="x", delivery=1)["cancelled"]
    assert handle.record().delivery == 2
    assert fleet.stop() == 0


def test_an_isolated_job_that_sends_a_malformed_message_has_crashed(shop, start):
    fleet = start(shop)
    (worker,) = fleet.workers(1)
    handle = shop.babble_alone.enqueue()
    record = eventually(lambda: each if (each := handle.record()).crashes else None)

    assert record.errors[0].message.startswith("sent a malformed message")
    assert alive(worker)


@pytest.mark.promise("A3", "A11")
def test_a_worker_that_dies_while_a_process_is_started_leaves_no_process_behind(shop, start):
    fleet = start(shop)
    (worker,) = fleet.workers(1)
    shop.add("if not allowed('import'): note('importing'); wait_for('import')")
    handle = shop.alone.enqueue()
    isolated = shop.noted("importing")["pid"]
    os.kill(worker, signal.SIGKILL)
    gone(isolated)
    shop.let("import")
    (record,) = shop.ended(handle)

    assert (record.state, record.crashes, record.interruptions) == (State.COMPLETED, 0, 1)
    assert fleet.stop() == 0


@pytest.mark.promise("S62")
def test_steps_sleep_and_signals_of_an_isolated_job(shop, start):
    fleet = start(shop)
    handle = shop.step_alone.enqueue()
    eventually(lambda: handle.record().waiting_for == "approved")
    assert shop.jobs.signal(handle.id, "approved", 7)
    (record,) = shop.ended(handle)

    assert record.state is State.COMPLETED, record.errors
    first, last, approved = record.result
    assert (first > 0, last > 0, approved) == (True, True, 7)
    assert [(note.kind, note.name) for note in shop.jobs.notes(handle.id)] == [
        ("step", "pid"),
        ("sleep", "a moment"),
        ("wait", "approved"),
        ("signal", "approved"),
    ]
    assert fleet.stop() == 0


@pytest.mark.promise("S62")
def test_a_step_is_not_called_again_when_its_isolated_process_dies(shop, start, tmp_path):
    fleet = start(shop)
    handle = shop.step_async_alone.enqueue(str(tmp_path / "calls"))
    (record,) = shop.ended(handle)

    assert (record.state, record.crashes, record.result) == (State.COMPLETED, 1, 1)
    assert (tmp_path / "calls").read_text() == "xx"
    assert fleet.stop() == 0


@pytest.mark.promise("L58")
def test_the_runs_of_isolated_jobs_are_counted_by_their_breaker(shop, start):
    shop.refused_alone.enqueue()
    fleet = start(shop, "--concurrency", 1)

    eventually(lambda: [each for each in shop.jobs.limits.list() if each.is_shut])

    assert fleet.stop() == 0
    assert len(shop.diary("refused")) == 3
