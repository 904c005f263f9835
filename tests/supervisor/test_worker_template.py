"""Worker processes that are forked from a template: real processes, really killed."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from onward.base.packets import receive, send
from onward.supervisor.options import ProcessOptions
from onward.supervisor.run_board import RunBoard
from onward.supervisor.template_messages import DECODE, ForkWorker, TemplateReady, WorkerForked
from tests.supervisor.fleets import alive, eventually, gone, status

MORE = """
import random

note("imported", parent=os.getppid())


@jobs.job
def facts() -> list[str]:
    wait_for("facts")
    return [str(os.getpid()), str(random.random()), plain.enqueue().id]


@jobs.job(max_crashes=1)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
"""
STARTS_A_THREAD = (
    "os.register_at_fork(after_in_child=lambda: threading.Thread(target=wait_for, args=('never',)).start())"
)
DIES_WHEN_FORKED = "os.register_at_fork(after_in_child=lambda: os._exit(3))"
CANNOT_CONNECT_WHEN_FORKED = """
importer, connect = os.getpid(), Onward.connect
def connect_once(app):
    if os.getpid() != importer:
        os._exit(3)
    connect(app)
Onward.connect = connect_once
"""


@pytest.fixture
def shop(shop):
    with (shop.folder / "shop.py").open("a") as file:
        file.write(MORE)
    return shop


def imports(shop):
    """The processes that have imported the application, except this one."""
    return [line["pid"] for line in shop.diary("imported") if line["pid"] != os.getpid()]


def is_fresh(pid):
    return b"onward.entry.child" in Path(f"/proc/{pid}/cmdline").read_bytes()


def replacement(fleet, workers):
    """Its worker processes, when there are as many as before and all of them are ready."""
    return eventually(
        lambda: now if len(now := fleet.workers(len(workers))) == len(workers) and set(now) != set(workers) else None,
        what=lambda: fleet.log,
    )


@pytest.mark.promise("S180")
def test_worker_processes_are_forked_from_one_that_has_imported_the_application(shop, start):
    fleet = start(shop, "--processes", 3, "--concurrency", 1)
    handles = [shop.facts.enqueue() for _ in range(3)]
    workers = fleet.workers(3)
    shop.let("facts")
    facts = [handle.result(60) for handle in handles]
    (template,) = fleet.preloaded()

    assert imports(shop) == [template]
    assert {int(pid) for pid, _, _ in facts} <= set(workers)
    assert [int(status(pid)[1]) for pid in workers] == [fleet.pid] * 3  # as children of the supervisor
    assert len({os.getpgid(pid) for pid in [fleet.pid, template, *workers]}) == 5
    assert len({number for _, number, _ in facts}) == 3  # each has its own random numbers
    assert len({job_id for _, _, job_id in facts}) == 3
    assert fleet.stop() == 0


@pytest.mark.promise("S180")
@pytest.mark.every_store
def test_a_crash_in_a_forked_process_is_told_and_the_next_one_comes_from_the_same_template(shop, start):
    fleet = start(shop, "--processes", 2)
    workers = fleet.workers(2)
    (record,) = shop.ended(shop.crash.enqueue())
    now = replacement(fleet, workers)

    assert record.reason == "crashed 1 time: killed by SIGKILL"
    assert len(set(now) & set(workers)) == 1
    assert imports(shop) == fleet.preloaded()
    assert fleet.stop() == 0


@pytest.mark.promise("S181")
def test_a_template_that_is_killed_takes_no_worker_along_and_is_replaced_at_the_next_need(shop, start):
    fleet = start(shop, "--processes", 2)
    workers = fleet.workers(2)
    (template,) = fleet.preloaded()
    held = shop.hold.enqueue("held")
    shop.noted("holding", name="held")
    os.kill(template, signal.SIGKILL)
    gone(template)
    fleet.said("the template of worker processes killed by SIGKILL: another one is started when it is needed")
    assert fleet.workers(2) == workers
    shop.let("held")
    assert held.result(60) == 1
    os.kill(workers[0], signal.SIGKILL)
    now = replacement(fleet, workers)
    (second,) = fleet.preloaded()

    assert workers[1] in now
    assert imports(shop) == [template, second]
    assert shop.plain.enqueue().result(60) in now
    assert fleet.stop() == 0


@pytest.mark.promise("S181")
def test_a_template_that_stands_still_leaves_no_place_empty(shop, start):
    patch = "from onward.supervisor import worker_forks; worker_forks._ANSWERS_WITHIN = 0.5"
    fleet = start(shop, "--processes", 2, patch=patch)
    workers = fleet.workers(2)
    (template,) = fleet.preloaded()
    os.kill(template, signal.SIGSTOP)
    os.kill(workers[0], signal.SIGKILL)
    fleet.said("the template of worker processes did not answer for 0.5 s: it is killed")
    gone(template)

    assert workers[1] in replacement(fleet, workers)
    assert fleet.stop() == 0


@pytest.mark.promise("S180")
@pytest.mark.parametrize(
    ("left_behind", "reason"),
    [
        (
            "threading.Thread(target=wait_for, args=('never',), name='busy', daemon=True).start()",
            r"1 threads running \(busy\)",
        ),
        ("kept = socket.socket()", r"leaves socket:\[\d+\] open"),
        ("kept = open(HERE / 'cache.db', 'w+b')", r"leaves .*/cache.db open"),
        ("kept = open(__file__)", r"leaves .*/shop.py open"),
        ("import mmap; kept = mmap.mmap(-1, 4096)", r"leaves memory that a fork would share"),
    ],
    ids=["thread", "socket", "file", "file to read", "memory"],
)
def test_a_template_that_must_not_be_forked_becomes_a_worker_process_beside_fresh_ones(
    shop, start, left_behind, reason
):
    shop.add(left_behind)
    fleet = start(shop, "--processes", 2)
    fleet.said("worker processes are fresh interpreters, and not forked: the import of the application .*" + reason)
    workers = fleet.workers(2)
    eventually(lambda: sorted(imports(shop)) == sorted(workers))  # no import was in vain
    os.kill(workers[0], signal.SIGKILL)
    now = replacement(fleet, workers)

    assert shop.plain.enqueue().result(60) in now
    assert fleet.preloaded() == []
    assert fleet.log.count("not forked") == 1
    assert fleet.stop() == 0


@pytest.mark.promise("S180")
@pytest.mark.parametrize(
    ("left_behind", "words"),
    [
        (STARTS_A_THREAD, "not forked: the import of the application leaves 1 threads running"),
        (DIES_WHEN_FORKED, "not forked: a fork of the template ended at once"),
        (CANNOT_CONNECT_WHEN_FORKED, "not forked: 2 forked ones ended before they had started"),
    ],
    ids=["starts a thread", "dies at once", "dies before it is ready"],
)
def test_an_application_that_does_not_bear_a_fork_is_served_by_fresh_interpreters(shop, start, left_behind, words):
    shop.add(left_behind)
    fleet = start(shop, "--processes", 3)
    fleet.said(words)
    workers = fleet.workers(3)

    assert shop.plain.enqueue().result(60) in workers
    assert all(map(is_fresh, workers))
    assert fleet.stop() == 0


@pytest.mark.promise("A3", "S181")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_template_ends_with_its_supervisor(shop, start, number):
    fleet = start(shop, "--processes", 2)
    (template,) = fleet.preloaded()
    workers = fleet.workers(2)
    fleet.tell(number)

    for pid in (template, *workers):
        gone(pid)


@pytest.mark.promise("S181")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_supervisor_that_ends_while_the_template_imports_leaves_nothing(shop, start, number):
    shop.add("note('importing'); wait_for('never')")
    fleet = start(shop, "--processes", 2, ready=False)
    template = shop.noted("importing")["pid"]
    fleet.tell(number)

    gone(template)
    assert fleet.wait() == (-9 if number == signal.SIGKILL else 0)


@pytest.mark.promise("S181")
def test_a_forked_process_that_nobody_knows_opens_no_session(shop, monkeypatch):
    """Its supervisor died, or gave the template up, before it heard the pid."""
    shop.add("Onward.connect = lambda app: note('connects')")
    monkeypatch.chdir(shop.folder)
    options = ProcessOptions(app="shop:jobs")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "onward.entry.worker_template", msgspec.json.encode(options).decode()]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([*command, str(theirs.fileno())], pass_fds=(theirs.fileno(),), env=environment) as template:
        theirs.close()
        assert receive(ours, DECODE)[0] == TemplateReady()
        board = RunBoard.create()
        channel, end = socket.socketpair()
        send(ours, ForkWorker(7, options), (end.fileno(), board.fd))
        end.close()
        answer, _ = receive(ours, DECODE)
        assert isinstance(answer, WorkerForked)
        assert alive(answer.pid)
        channel.close()
        gone(answer.pid)
        ours.close()
        assert template.wait(60) == 0
    board.close()

    assert shop.diary("connects") == []


def test_a_fork_that_ends_without_a_word_is_told_at_once(shop, start):
    """The supervisor waits ten seconds for an answer, and kills the template if none comes."""
    shop.add(DIES_WHEN_FORKED)
    fleet = start(shop, "--processes", 2)
    fleet.said("worker processes are fresh interpreters, and not forked: a fork of the template ended at once")
    workers = fleet.workers(2)
    os.kill(workers[0], signal.SIGKILL)
    now = replacement(fleet, workers)

    assert all(map(is_fresh, now))
    assert "did not answer" not in fleet.log
    assert fleet.stop() == 0


def test_an_import_that_is_killed_is_made_again(shop, start):
    shop.add("note('importing'); wait_for('import')")
    fleet = start(shop, "--processes", 2, ready=False)
    template = shop.noted("importing")["pid"]
    os.kill(template, signal.SIGKILL)
    gone(template)
    shop.let("import")
    fleet.said("ready: ")

    assert shop.plain.enqueue().result(60) in fleet.workers(2)
    assert fleet.stop() == 0


@pytest.mark.promise("S180")
def test_recycled_processes_come_from_the_template(shop, start):
    fleet = start(shop, "--processes", 2, "--max-jobs-per-process", 2)
    pids = {shop.plain.enqueue().result(60) for _ in range(9)}

    assert len(pids) >= 4
    assert imports(shop) == fleet.preloaded()
    assert fleet.stop() == 0


@pytest.mark.parametrize("arguments", [("--processes", 2, "--no-preload"), ("--processes", 1)])
def test_without_preloading_and_alone_a_process_is_a_fresh_interpreter(shop, start, arguments):
    fleet = start(shop, *arguments)
    workers = fleet.workers(arguments[1])
    pid = shop.plain.enqueue().result(60)

    assert pid in workers
    assert all(map(is_fresh, workers))
    assert fleet.preloaded() == []
    assert fleet.stop() == 0


def test_numbers_of_numpy_differ_in_every_fork(shop, start):
    package = shop.folder / "numpy"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "random.py").write_text(
        "state = 1\ndef seed():\n    global state\n    state = __import__('os').urandom(8).hex()\n"
    )
    shop.add("import numpy.random\n@jobs.job\ndef number() -> str:\n    return str(numpy.random.state)\n")
    fleet = start(shop, "--processes", 2, "--max-jobs-per-process", 1)
    numbers = {shop.jobs.enqueue("number").result(60) for _ in range(2)}

    assert len(numbers - {"1"}) == 2
    assert fleet.stop() == 0
