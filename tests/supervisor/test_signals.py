"""One signal, two, three; to whom, and as which process."""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from onward import State
from tests.supervisor.fleets import alive, eventually, gone, status


@pytest.fixture
def holding(shop, start):
    """A worker in the middle of a job: ``fleet, held, pid = holding()``."""

    def holding(*arguments, **options):
        fleet = start(shop, *arguments, **options)
        held = shop.hold.enqueue("held")
        return fleet, held, shop.noted("holding", name="held")["pid"]

    return holding


@pytest.mark.promise("F93")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_the_first_signal_drains(shop, holding, number):
    fleet, held, _ = holding()
    fleet.tell(number)
    fleet.said(f"stopping: {number.name}")
    shop.let("held")

    assert fleet.wait() == 0
    assert (held.record().state, held.record().interruptions) == (State.COMPLETED, 0)


@pytest.mark.promise("F93")
@pytest.mark.parametrize("numbers", [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGHUP")], ids="+".join)
def test_the_second_kills_and_gives_back(holding, numbers):
    fleet, held, worker = holding()
    first, second = (signal.Signals[name] for name in numbers)
    fleet.tell(first)
    fleet.said(f"stopping: {first.name}")
    fleet.tell(second)

    assert fleet.wait(20) == 0
    assert not alive(worker)
    record = held.record()
    assert (record.state, record.attempts, record.crashes, record.interruptions) == (State.AVAILABLE, 0, 0, 1)


@pytest.mark.promise("F93")
def test_the_third_exits_at_once_and_leases_expire(open_shop, start):
    shop = open_shop(lease_for=1)
    fleet = start(shop)
    held = shop.hold.enqueue("held")
    worker = shop.noted("holding", name="held")["pid"]
    with shop.locked():  # so that the second cannot end it
        fleet.tell(signal.SIGTERM)
        fleet.said("stopping: SIGTERM")
        fleet.tell(signal.SIGTERM)
        fleet.said("SIGTERM again")
        fleet.tell(signal.SIGTERM)
        assert fleet.wait(20) == 143
        gone(worker)
    assert eventually(shop.jobs.reap)
    assert held.record().state is State.RETRYABLE


@pytest.mark.promise("F93")
def test_signals_to_the_processes_themselves_change_nothing(shop, holding):
    fleet, held, worker = holding()
    alone = shop.hold_alone.enqueue("alone")
    isolated = shop.noted("holding", name="alone")["pid"]
    for pid in (worker, isolated):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) * 2:
            os.kill(pid, number)
    later = shop.plain.enqueue().result(20)
    shop.let("held", "alone")
    records = shop.ended(held, alone)

    assert later == worker
    assert [(each.state, each.delivery) for each in records] == [(State.COMPLETED, 1)] * 2
    assert (alive(worker), alive(isolated)) == (True, True)
    assert fleet.stop() == 0


@pytest.mark.promise("F93")
def test_a_signal_that_its_parent_told_it_to_ignore_is_ignored(shop, holding):
    """`nohup onward worker ... &` outlives its terminal."""
    fleet, held, _ = holding(before=("/bin/sh", "-c", 'trap "" HUP INT; exec "$@"', "sh"))
    fleet.tell(signal.SIGHUP)
    fleet.tell(signal.SIGINT)
    shop.let("held")

    assert shop.ended(held)[0].state is State.COMPLETED
    assert shop.plain.enqueue().result(20)
    assert fleet.stop() == 0
    assert "SIGHUP" not in fleet.log


@pytest.mark.promise("F93")
def test_a_worker_that_is_process_1_stops_politely_and_waits_for_orphans(shop, start):
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode
    ):
        pytest.skip("this system allows no process namespaces: `unshare --pid --fork` fails")
    fleet = start(shop, before=("unshare", "--pid", "--fork", "--kill-child"))
    (supervisor,) = [pid for pid in fleet.members("onward\0worker") if status(pid)[1] == str(fleet.pid)]
    held = shop.hold.enqueue("held")
    shop.noted("holding", name="held")
    shop.ended(shop.orphan.enqueue())
    eventually(lambda: not zombies(supervisor))
    os.kill(supervisor, signal.SIGTERM)
    fleet.said("stopping: SIGTERM")
    shop.let("held")

    assert fleet.wait() == 0
    assert held.record().state is State.COMPLETED


@pytest.mark.promise("F93")
def test_a_worker_waits_for_orphans_even_if_it_is_not_process_1(shop, start):
    fleet = start(shop)
    shop.ended(shop.orphan.enqueue())
    eventually(lambda: not zombies(fleet.pid))

    assert fleet.stop() == 0


def zombies(parent):
    """Children that it should have waited for."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdecimal() and status(folder.name)[:2] == ["Z", str(parent)]:
                found.append(folder.name)
    return found
