"""Programs that fork: neither side hangs or shares what cannot be shared."""

import os
import signal
import threading
import time
import traceback

import pytest

from onward import BackendMisconfigured, Onward
from onward.telemetry import JobEnqueued

shared = pytest.mark.parametrize("store", ["sqlite"])


@pytest.fixture
def in_child():
    """Fork, run something in the child, and give its exit code: 0 if it returned.  A child that hangs is killed."""

    def in_child(work):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:  # noqa: BLE001  the parent is told by the code, a reader by the traceback
                traceback.print_exc()
            finally:
                os._exit(code)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "hangs"

    return in_child


@pytest.fixture
def work(jobs):
    @jobs.job
    def work(n: int = 0) -> int:
        return n

    return work


@pytest.mark.parametrize("store", ["memory"])
@pytest.mark.promise("F31")
def test_a_forked_child_cannot_use_the_memory_of_its_parent(jobs, work, in_child):
    def enqueue():
        with pytest.raises(BackendMisconfigured, match="fork"):
            work.enqueue()
        with pytest.raises(BackendMisconfigured, match="sqlite"):
            jobs.drain()

    assert in_child(enqueue) == 0
    assert work.enqueue().state() == "available"


@shared
@pytest.mark.promise("F31")
def test_both_sides_of_a_fork_enqueue_and_run(jobs, work, in_child):
    work.enqueue(1)
    jobs.drain()

    def child():
        handle = work.enqueue(2)
        jobs.drain()
        assert handle.result(timeout=5) == 2

    assert in_child(child) == 0
    handle = work.enqueue(3)
    jobs.drain()

    assert handle.result() == 3
    assert jobs.counts()["completed"] == 3


@shared
@pytest.mark.promise("F31")
def test_a_child_does_not_run_under_its_parents_session(jobs, work, in_child):
    """The parent may end while the child works on: its session must not take the child's jobs along."""

    @jobs.job
    def who() -> str:
        return jobs.list(state="executing")[0].owner

    first = who.enqueue()
    jobs.drain()
    second = who.enqueue()
    assert in_child(jobs.drain) == 0

    assert first.result() != second.result()


@shared
@pytest.mark.promise("F31")
def test_a_child_that_ends_politely_leaves_its_parents_session_alone(jobs, work, in_child):
    work.enqueue()
    jobs.drain()

    assert in_child(jobs.close) == 0
    handle = work.enqueue()
    jobs.drain()
    assert handle.state() == "completed"


@shared
@pytest.mark.promise("F31")
def test_a_fork_in_the_midst_of_enqueues_neither_hangs_nor_loses_anything(open_app, in_child):
    """The child inherits locks held by threads it does not have; a forking thread waits for none that waits for it."""
    apps = [open_app() for _ in range(3)]
    for app in apps:

        @app.job(name="work")
        def work(n: int): ...

        app.work = work
    stop, counted = threading.Event(), []

    def enqueue(app):
        made = 0
        while not stop.is_set():
            app.work.enqueue(made)
            made += 1
        counted.append(made)

    threads = [threading.Thread(target=enqueue, args=(app,), daemon=True) for app in apps * 3]
    for thread in threads:
        thread.start()

    codes = [in_child(lambda: [app.work.enqueue(0) for app in apps]) for _ in range(8)]
    stop.set()
    for thread in threads:
        thread.join(30)

    assert codes == [0] * 8
    assert not any(thread.is_alive() for thread in threads)
    assert sum(apps[0].counts().values()) == sum(counted) + 8 * 3


@shared
@pytest.mark.promise("F31")
def test_two_threads_that_fork_at_once_both_go_on(jobs, work, in_threads, in_child):
    codes = in_threads(2, lambda _: [in_child(work.enqueue) for _ in range(10)])

    assert codes == [[0] * 10] * 2
    assert work.enqueue().state() == "available"


@shared
def test_a_job_may_fork(jobs, in_child):
    @jobs.job
    def forks() -> int:
        return in_child(lambda: None)

    handle = forks.enqueue()
    jobs.drain()

    assert handle.result() == 0


@shared
def test_async_handlers_run_on_both_sides(jobs, in_child):
    @jobs.job
    async def work() -> str:
        return "done"

    work.enqueue()
    jobs.drain()

    def child():
        handle = work.enqueue()
        jobs.drain()
        assert handle.result(timeout=5) == "done"

    assert in_child(child) == 0


@shared
def test_events_of_the_parent_are_not_told_again_in_the_child(jobs, work, in_child):
    hang, heard = threading.Event(), []

    def slow(event):
        hang.wait(20)
        heard.append(event.id)

    jobs.on(JobEnqueued, slow)
    work.enqueue_many([()] * 5)

    def child():
        hang.set()
        handle = work.enqueue()
        assert jobs.telemetry.flush(timeout=5)
        assert heard == [handle.id]

    assert in_child(child) == 0
    hang.set()
    assert jobs.telemetry.flush()
    assert len(heard) == 5


@shared
def test_ids_made_on_both_sides_never_meet(jobs, work, in_child, tmp_path):
    def child():
        (tmp_path / "ids").write_text("\n".join(handle.id for handle in work.enqueue_many([()] * 200)))

    assert in_child(child) == 0
    mine = {handle.id for handle in work.enqueue_many([()] * 200)}
    theirs = set((tmp_path / "ids").read_text().split())

    assert (len(mine), len(theirs), mine & theirs) == (200, 200, set())


def test_a_fork_without_any_application_in_use_is_harmless(in_child, url):
    def child():
        with Onward("memory://") as jobs:

            @jobs.job
            def work(): ...

            work.enqueue()
            jobs.drain()

    assert in_child(child) == 0
