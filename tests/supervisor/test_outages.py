"""The store does not answer: that costs time, and no job anything else."""

import os
import re
import signal

import pytest

from onward import State
from tests.supervisor.fleets import IMPATIENT, alive, eventually, gone, let_pass

pytestmark = pytest.mark.every_store

LEASE = 1.0


@pytest.mark.redis_too
@pytest.mark.promise("A5", "F25")
@pytest.mark.parametrize("patience", [30, 0.1], ids=["calls hang", "calls fail"])
def test_an_outage_of_three_leases_costs_no_job_a_crash(open_shop, start, patience):
    """Every session has expired, and the first worker to come back could reap the living."""
    shop = open_shop(lease_for=LEASE, patience=patience)
    silence = ("--max-silence", 2 * LEASE) if patience < LEASE else ()  # a pump that waits for the store is not dead
    fleets = [start(shop, "--queues", queue, *silence) for queue in ("default", "other")]
    handles = [
        shop.hold.enqueue("one"),
        shop.hold.using(queue="other").enqueue("two"),
        shop.hold_alone.enqueue("three"),
    ]
    for name in ("one", "two", "three"):
        shop.noted("holding", name=name)
    workers = [pid for fleet in fleets for pid in fleet.workers(1)]
    with shop.locked():
        shop.let("one")  # it ends while no settlement can be sent
        shop.noted("held", name="one")
        let_pass(3 * LEASE)
    lost = shop.claimed_by_the_dead()
    eventually(lambda: lost.record().crashes)  # so they sweep again, and had the time to do harm
    shop.let("two", "three")
    records = shop.ended(*handles)

    assert [(each.state, each.attempts, each.delivery) for each in records] == [(State.COMPLETED, 1, 1)] * 3
    assert [(each.crashes, each.interruptions) for each in records] == [(0, 0)] * 3
    assert all(alive(pid) for pid in workers)
    assert [fleet.stop() for fleet in fleets] == [0, 0]


@pytest.mark.redis_too
def test_an_outage_is_told_once_when_it_begins_and_once_when_it_is_over_by_every_process(open_shop, start):
    shop = open_shop(lease_for=LEASE, patience=0.1)
    fleet = start(shop)
    processes = {str(fleet.pid), *map(str, fleet.workers(1))}
    held = shop.hold.enqueue("one")
    shop.noted("holding", name="one")
    with shop.locked():
        shop.let("one")  # it ends while the store cannot be told
        fleet.said(r"the store did not answer \(", 2, within=20)
        let_pass(2 * LEASE)  # long enough to be tried many times
    fleet.said(r"the store is back after \d", 2, within=20)
    shop.ended(held)

    told = re.findall(r" WARNING +\[(\d+)\] onward\.\w+: the store (did not answer|is back)", fleet.log)
    assert sorted(told) == sorted((pid, line) for pid in processes for line in ("did not answer", "is back"))
    assert fleet.log.count("WARNING") == 4
    assert fleet.stop() == 0


@pytest.mark.promise("F83")
def test_a_job_that_ended_in_time_is_not_late_because_its_end_could_not_be_told(shop, start):
    fleet = start(shop, "--processes", 2, "--concurrency", 1, "--timeout-grace", 0.1)
    punctual = shop.punctual.enqueue("done")
    worker = shop.noted("holding", name="done")["pid"]
    deaf = shop.deaf.enqueue("deaf")
    shop.noted("holding", name="deaf")
    with shop.locked():
        shop.let("done")
        shop.noted("held", name="done")
        fleet.said("ignores its time-out: " + deaf.id)
        let_pass(5)  # its own time is out, and the supervisor looks once a second
    (record,) = shop.ended(punctual)

    assert (record.state, record.attempts, record.delivery) == (State.COMPLETED, 1, 1)
    assert alive(worker)
    assert punctual.id not in fleet.log


@pytest.mark.promise("F06", "F25")
def test_a_process_that_cannot_import_the_application_for_a_while_is_started_again(shop, start):
    shop.add(
        "from onward.errors import BackendUnavailable\n"
        "if allowed('outage'): raise BackendUnavailable('the store is away')\n"
        "if allowed('mistake'): raise KeyError('what a mistake')"
    )
    fleet = start(shop)
    (worker,) = fleet.workers(1)
    shop.let("outage")
    os.kill(worker, signal.SIGKILL)
    fleet.said("ERROR.*the store is away", 2)
    (shop.folder / "outage.go").unlink()
    first = shop.plain.enqueue().result(30)
    shop.let("mistake")  # it does not pass: where no process can work the supervisor ends
    os.kill(first, signal.SIGKILL)

    assert fleet.wait() == 3
    assert fleet.log.count("what a mistake") > 0


@pytest.mark.promise("F06")
def test_a_mistake_in_new_code_does_not_stop_those_who_run_the_old(shop, start):
    shop.add("if allowed('mistake'): raise KeyError('what a mistake')")
    fleet = start(shop, "--processes", 2, "--no-preload")  # a forked process would go on with the old code
    victim, survivor = fleet.workers(2)
    eventually(lambda: len(shop.sessions()) == 2)  # both have imported it
    shop.let("mistake")
    os.kill(victim, signal.SIGKILL)
    fleet.said("importing shop failed", 2)

    assert shop.plain.enqueue().result(30) == survivor
    (shop.folder / "mistake.go").unlink()
    fleet.workers(2)
    assert fleet.stop() == 0


@pytest.mark.promise("F25")
@pytest.mark.parametrize("options", [(), ("--no-preload",)], ids=["forked", "fresh"])
def test_an_isolated_job_whose_process_cannot_import_the_application_waits(shop, start, options):
    shop.add("if allowed('mistake'): raise KeyError('what a mistake')\nif allowed('crash'): os._exit(1)")
    for name in ("mistake", "crash"):
        fleet = start(shop, *options)  # another one each time: what has imported the application is used again
        shop.plain.enqueue().result(20)
        shop.let(name)
        handle = shop.hold_alone.enqueue(name)  # its name was called already
        record = eventually(lambda handle=handle: each if (each := handle.record()).state is State.SCHEDULED else None)
        assert (record.attempts, record.crashes) == (0, 0)
        (shop.folder / f"{name}.go").unlink()
        shop.let(f"{name}-2")
        shop.jobs.retry(handle.id)
        (record,) = shop.ended(handle)
        assert (record.state, record.attempts, record.crashes) == (State.COMPLETED, 1, 0)
        assert fleet.stop() == 0


@pytest.mark.promise("A4")
def test_an_isolated_job_whose_lease_was_lost_while_its_process_started_is_not_begun(open_shop, start):
    shop = open_shop(lease_for=LEASE)
    fleet = start(shop)
    shop.add("note('importing')\nif not allowed('import'): wait_for('import')")
    handle = shop.jobs.enqueue("hold_alone", {"name": "x"})
    shop.noted("importing")
    fleet.pause()
    eventually(shop.jobs.reap)
    shop.let("x-2")
    assert shop.jobs.drain() == 1
    fleet.resume()
    shop.let("import")
    fleet.said(handle.id)

    assert shop.plain.enqueue().result(20)
    assert [run["delivery"] for run in shop.diary("holding")] == [2]
    assert fleet.stop() == 0


@pytest.mark.promise("F82")
def test_a_store_that_does_not_answer_does_not_keep_a_worker_from_stopping(shop, start):
    fleet = start(shop, "--shutdown-timeout", 0.5, patch=IMPATIENT)
    held = shop.hold.enqueue("held")
    worker = shop.noted("holding", name="held")["pid"]
    with shop.locked():
        fleet.tell(signal.SIGTERM)
        gone(worker)
        assert fleet.wait(20) == 0
    assert held.state() is State.EXECUTING
    assert eventually(shop.jobs.reap)
