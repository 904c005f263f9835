"""What can be wrong with an application or with its system, and what a worker makes of it."""

import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from onward import State
from tests.supervisor.fleets import IMPATIENT, alive, eventually, gone


def open_files(pid):
    """Their names, by number."""
    found = {}
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it was closed meanwhile
            found[int(each.name)] = str(each.readlink())
    return found


@pytest.mark.promise("F93")
@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("raise KeyError('the shop is closed')", 3, "the shop is closed"),
        ("this is no Python", 3, "SyntaxError"),
        ("sys.exit(0)", 3, "SystemExit"),
        ("os._exit(0)", 1, "3 processes ended before the application was imported: exited with code 0"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 1, "imported: killed by SIGSEGV"),
        ("jobs = Onward('memory://')", 3, "give it a store that processes share, such as sqlite:///jobs.db"),
        ("jobs = None", 3, "jobs is None and no application"),
        ("jobs = Onward('sqlite:////dev/null/jobs.db')", 3, "/dev/null"),
    ],
    ids=["raises", "syntax", "exits", "exits hard", "segfault", "memory", "nothing there", "no store"],
)
def test_an_application_that_cannot_be_served_ends_the_worker(shop, start, source, code, words):
    shop.add(source)
    fleet = start(shop, "--processes", 2, ready=False)

    assert fleet.wait() == code
    assert words in fleet.log
    assert fleet.log.count("stopping: ") == 1
    assert "ready" not in fleet.log


def test_queues_that_hold_jobs_and_are_not_served_are_named(shop, start):
    shop.plain.using(queue="forgotten").enqueue(1)
    shop.plain.enqueue(1)
    fleet = start(shop, "--queues", "default,other")

    fleet.said("these queues hold jobs that this worker does not serve: forgotten\n")
    assert fleet.stop() == 0


def test_the_store_of_an_application_that_changes_its_folder_is_found(open_shop, start, monkeypatch):
    shop = open_shop(lease_for=1)
    monkeypatch.chdir(shop.folder)
    inner = shop.folder / "inner"
    inner.mkdir()
    shop.add(
        "os.chdir(HERE / 'inner')\n"
        "jobs = Onward('sqlite:///jobs.db', lease_for=1)\n"
        "@jobs.job\n"
        "def hold(ctx: JobContext, name: str) -> int:\n"
        "    note('holding', name=name)\n"
        "    wait_in(ctx, name)\n"
        "    return ctx.delivery\n"
    )
    fleet = start(shop)
    shop.store.file = inner / "jobs.db"
    with shop.module.Onward(shop.store.url()) as jobs:
        handle = jobs.enqueue("hold", {"name": "x"})
        shop.noted("holding", name="x")
        shop.renewed(handle.record().owner, 4)
        shop.let("x")

        assert handle.result(20) == 1
    assert "session is gone" not in fleet.log
    assert fleet.stop() == 0


@pytest.mark.promise("F93")
def test_an_application_that_hears_signals_itself_does_not_take_its_worker_down(shop, start):
    shop.add(
        "for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n    signal.signal(each, lambda *_: sys.exit(1))"
    )
    fleet = start(shop)
    handles = [shop.hold.enqueue("here"), shop.hold_alone.enqueue("alone")]
    pids = [shop.noted("holding", name=name)["pid"] for name in ("here", "alone")]
    for pid in pids:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(pid, number)
    shop.let("here", "alone")
    records = shop.ended(*handles)

    assert [(record.state, record.crashes) for record in records] == [(State.COMPLETED, 0)] * 2
    assert all(alive(pid) for pid in pids)
    assert fleet.stop() == 0


@pytest.mark.promise("F06")
def test_a_process_that_cannot_be_started_is_tried_again_and_the_others_work_on(shop, start):
    fleet = start(shop, "--processes", 2)
    held = shop.hold.enqueue("held")
    worker = shop.noted("holding", name="held")["pid"]
    (other,) = [pid for pid in fleet.workers(2) if pid != worker]
    limits = resource.prlimit(fleet.pid, resource.RLIMIT_NOFILE)
    # It says that it is ready before its store thread has both of its connections.
    eventually(lambda: sum(name.endswith("jobs.db") for name in open_files(fleet.pid).values()) == 2)
    files = open_files(fleet.pid)
    resource.prlimit(fleet.pid, resource.RLIMIT_NOFILE, (max(files) - 1, limits[1]))
    os.kill(other, signal.SIGKILL)
    fleet.said("a worker process cannot be started, and will be tried again", 3)
    resource.prlimit(fleet.pid, resource.RLIMIT_NOFILE, limits)
    fleet.workers(2)
    shop.let("held")

    assert held.result(20) == 1
    # More are open for a moment, while a process is started.
    eventually(lambda: len(open_files(fleet.pid)) <= len(files) + 2, what=lambda: (files, open_files(fleet.pid)))
    assert fleet.stop() == 0


@pytest.mark.promise("F93")
def test_a_worker_whose_store_is_locked_while_it_starts_can_be_stopped(shop, start):
    assert shop.plain.enqueue(1)
    with shop.locked():
        fleet = start(shop, "--shutdown-timeout", 0.5, patch=IMPATIENT)
        assert fleet.stop() == 0


@pytest.mark.promise("F93")
def test_a_worker_whose_application_hangs_while_it_is_imported_can_be_stopped_and_leaves_no_process_behind(shop, start):
    shop.add("note('importing')\nwait_for('never')")
    fleet = start(shop, ready=False)
    shop.noted("importing")
    assert fleet.stop() == 0

    fleet = start(shop, ready=False)
    worker = shop.noted("importing", 2)["pid"]
    fleet.process.kill()
    gone(worker)


@pytest.mark.promise("F50")
def test_a_library_that_should_be_replaced_is_named_once_at_the_start_unless_it_is_quiet(shop, start):
    old = "import sqlite3; sqlite3.sqlite_version_info = (3, 40, 1)"
    fleet = start(shop, "--processes", 2, patch=old)
    fleet.said("INFO .*onward.supervisor: about the store: SQLite 3.40.1 has the WAL-reset bug, fixed in 3.51.3")
    fleet.workers(2)
    shop.plain.enqueue().result(30)
    assert fleet.stop() == 0
    assert fleet.log.count("WAL-reset") == 1

    quiet = start(shop, "--quiet", patch=old, ready=False)
    shop.plain.enqueue().result(30)
    assert quiet.stop() == 0
    assert "WAL-reset" not in quiet.log
