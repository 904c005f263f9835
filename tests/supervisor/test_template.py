"""Processes for single jobs that are forked from a template: real processes, really killed."""

import os
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from onward.attempt.prepare import prepare
from onward.backend import Claim, Session, Turn
from onward.job.outcome import Crashed, Done
from onward.supervisor.options import ProcessOptions
from onward.worker.inflight import Work
from onward.worker.isolated import IsolatedProcesses
from tests.supervisor.fleets import alive, eventually, gone

MORE = """
import random

note("imported", parent=os.getppid())


@jobs.job(isolation="process")
def numbers() -> list[str]:
    return [str(random.random()), plain.enqueue().id]
"""


@pytest.fixture
def shop(shop, monkeypatch):
    with (shop.folder / "shop.py").open("a") as file:
        file.write(MORE)
    monkeypatch.chdir(shop.folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    session = Session(owner="me", lease_for=timedelta(seconds=600), host="here", pid=1, version="0")
    shop.jobs.backend.open_session(session)
    return shop


class Recorder:
    """Remembers in which order the pids of templates and of runs were recorded."""

    def __init__(self):
        self.pids = []

    def template(self, pid):
        self.pids.append(("template", pid))

    def begin(self, key, deadline, pid):
        self.pids.append(("run", pid))

    @property
    def current(self):
        """The template that was recorded last."""
        return [pid for what, pid in self.pids if what == "template"][-1]


class Isolated(IsolatedProcesses):
    """Those of a worker without its engine: jobs that have crashed before, each in a new process."""

    def __init__(self, shop, **options):
        def program(module):
            settings = ProcessOptions(app="shop:jobs", **options)
            return (sys.executable, "-m", module, msgspec.json.encode(settings).decode())

        self.shop, self.recorder = shop, Recorder()
        parts = shop.jobs.parts()
        template = program("onward.entry.template")
        alone = program("onward.entry.isolated")
        super().__init__(alone, parts.runtime, self.recorder, parts.reporter, template_program=template)

    def attempt(self, job, *args):
        backend = self.shop.jobs.backend
        handle = job.using(queue="suspects").enqueue(*args)
        (lease,) = backend.turn(Turn(owner="me", claim=Claim(queues=("suspects",), limit=1))).leases
        assert lease.envelope.id == handle.id
        lease = msgspec.structs.replace(lease, crashes=1)
        work = Work(prepare(lease, self.shop.jobs.parts().runtime), (handle.id, lease.token), order=1, claimed=0.0)
        work.isolated = True
        return self.run(work)

    def result(self, job, *args):
        attempt = self.attempt(job, *args)
        assert isinstance(attempt.outcome, Done), attempt
        return msgspec.json.decode(attempt.result)


@contextmanager
def isolated_in(shop):
    isolated = Isolated(shop)
    try:
        yield isolated
    finally:
        isolated.close()


@pytest.fixture
def isolated(shop):
    with isolated_in(shop) as isolated:
        yield isolated


def imports(shop):
    """The processes that have imported the application, except this one."""
    return [line["pid"] for line in shop.diary("imported") if line["pid"] != os.getpid()]


@pytest.mark.promise("S172")
def test_isolated_processes_are_forked_from_one_that_has_imported_the_application(shop, isolated):
    pids = [isolated.result(shop.alone) for _ in range(3)]
    numbers = [isolated.result(shop.numbers) for _ in range(2)]
    template = isolated.recorder.current
    isolated.close()

    assert imports(shop) == [template]
    assert len({*pids, template, os.getpid()}) == 5
    assert isolated.recorder.pids[:2] == [("template", template), ("run", pids[0])]
    assert len({number for each in numbers for number in each}) == 4  # random numbers and ids are each process's own
    assert not any(alive(pid) for pid in (template, *pids))


@pytest.mark.promise("A11")
def test_the_end_of_a_forked_process_is_told_as_that_of_a_fresh_one(shop, isolated):
    outcomes = [isolated.attempt(shop.die, number).outcome for number in (signal.SIGKILL, signal.SIGSEGV)]
    outcomes.append(isolated.attempt(shop.leave, 3).outcome)

    assert outcomes == [Crashed("killed by SIGKILL"), Crashed("killed by SIGSEGV"), Crashed("exited with code 3")]
    assert len(imports(shop)) == 1


@pytest.mark.promise("S172")
@pytest.mark.parametrize(
    ("left_behind", "reason"),
    [
        ("threading.Thread(target=wait_for, args=('never',), name='busy').start()", r"1 threads running \(busy\)"),
        ("kept = socket.socket()", r"leaves socket:\[\d+\] open"),
        ("kept = open(HERE / 'cache.db', 'w+b')", r"leaves .*/cache.db open"),
    ],
)
def test_a_template_whose_import_leaves_something_behind_is_not_forked(shop, isolated, caplog, left_behind, reason):
    caplog.set_level("INFO", "onward.worker")
    shop.add(left_behind)
    pids = [isolated.result(shop.alone) for _ in range(2)]

    assert imports(shop)[1:] == pids
    assert not alive(imports(shop)[0])
    told = [record.getMessage() for record in caplog.records if "fresh interpreters" in record.getMessage()]
    assert len(told) == 1
    assert re.search(reason, told[0])


@pytest.mark.promise("S173")
def test_a_template_that_was_killed_is_replaced(shop, isolated):
    """A job that runs then dies with it, and has crashed: it may have been the culprit."""
    isolated.result(shop.alone)
    first = isolated.recorder.current
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(isolated.attempt, shop.hold_the_lock_alone)
        pid = shop.noted("locking")["pid"]
        os.kill(first, signal.SIGKILL)
        outcome = running.result().outcome
    gone(pid)

    assert outcome == Crashed("ended with the template process that it was forked from")
    assert isolated.result(shop.alone) not in (first, pid)
    assert isolated.recorder.current not in (0, first)


@pytest.mark.promise("S173")
def test_a_job_whose_import_fails_is_put_aside_and_the_next_imports_again(shop, isolated):
    module = shop.folder / "shop.py"
    whole = module.read_text()
    module.write_text(whole + "\nraise ValueError('half deployed')")
    attempt = isolated.attempt(shop.alone)
    module.write_text(whole)

    assert "half deployed" in str(attempt.outcome)
    assert attempt.failure is None
    assert isolated.recorder.current == 0
    assert isolated.result(shop.alone)


def test_an_import_that_hangs_does_not_keep_the_worker_from_ending(shop, isolated):
    shop.add("note('importing'); wait_for('never')")
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(isolated.attempt, shop.alone)
        template = shop.noted("importing")["pid"]
        isolated.close()
        attempt = running.result()

    gone(template)
    assert "before the job began" in str(attempt.outcome)


@pytest.mark.promise("A3", "S173")
@pytest.mark.parametrize("supervisor_too", [False, True])
def test_a_worker_that_is_killed_takes_its_template_and_all_forks_along(shop, start, supervisor_too):
    fleet = start(shop)
    shop.alone.enqueue().result(60)  # its process is kept
    shop.hold_the_lock_alone.enqueue()
    shop.noted("locking")
    (worker,) = fleet.workers(1)
    processes = [worker, *fleet.templates(), *fleet.solos()]
    if supervisor_too:
        fleet.process.kill()
    os.kill(worker, signal.SIGKILL)

    assert len(processes) >= 3
    for pid in processes:
        gone(pid)


def test_preloading_can_be_switched_off(shop, start):
    fleet = start(shop, "--no-preload")
    pid = shop.alone.enqueue().result(60)

    assert b"onward.entry.isolated" in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert fleet.templates() == []
    eventually(lambda: pid in imports(shop))
    assert fleet.stop() == 0
