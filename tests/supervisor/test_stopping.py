"""Being told to stop, politely and often: nothing is lost, nothing runs twice, nothing is burned."""

import random
import signal
import time
from collections import Counter

import pytest

from onward import State
from tests.supervisor.fleets import CLAIMS_ALL, alive, eventually, let_pass

pytestmark = pytest.mark.every_store


@pytest.mark.redis_too
@pytest.mark.promise("F24", "F69", "F82")
def test_what_has_begun_is_finished_and_what_has_not_goes_back(shop, start):
    shop.add(CLAIMS_ALL)
    fleet = start(shop, "--concurrency", 1)
    held, waiting = shop.hand_full()
    fleet.tell(signal.SIGTERM)
    eventually(lambda: shop.jobs.counts()[State.EXECUTING] == 1)
    late = shop.plain.enqueue(1000)
    shop.let("work")
    code = fleet.wait()

    assert code == 0
    assert (held.record().state, held.record().delivery) == (State.COMPLETED, 1)
    assert {record.attempts + record.crashes for record in (each.record() for each in [*waiting, late])} == {0}
    assert shop.jobs.counts()[State.AVAILABLE] == 101
    assert shop.sessions() == {}


@pytest.mark.promise("A3", "F69", "F82")
def test_what_runs_at_the_deadline_is_killed_given_back_and_run_by_another(shop, start):
    """Only when its process is gone, and as an interruption that burns nothing."""
    first = start(shop, "--shutdown-timeout", 0.3)
    handles = [shop.hold.enqueue("here"), shop.hold_async.enqueue("loop"), shop.hold_alone.enqueue("alone")]
    names = ["here", "loop", "alone"]
    pids = [shop.noted("holding", name=name)["pid"] for name in names]
    second = start(shop)
    told_at = time.monotonic()
    first.tell(signal.SIGTERM)
    again = [shop.noted("holding", 2, name=name) for name in names]

    assert not any(alive(pid) for pid in pids)
    assert max(run["at"] for run in again) - told_at < 0.3 + 5 * 2.0  # five times what is promised
    assert first.wait() == 0
    shop.let(*names)
    records = shop.ended(*handles)
    assert [(each.state, each.attempts, each.crashes) for each in records] == [(State.COMPLETED, 1, 0)] * 3
    assert [each.interruptions for each in records] == [1] * 3
    assert second.stop() == 0


@pytest.mark.promise("F03", "F24", "F69")
def test_signals_at_any_moment_leave_no_orphan_and_run_nothing_twice(shop, start, scale, report):
    """Rolling restarts, three workers at a time, under a stream of short jobs."""
    restarts = max(9, round(10_000 * scale / 20))
    dice = random.Random(3)
    handles = []
    for _ in range(restarts // 3):
        handles += shop.brief.enqueue_many([(n,) for n in range(len(handles), len(handles) + 40)])
        fleets = [start(shop, "--processes", 1, "--concurrency", 4, ready=False) for _ in range(3)]
        for fleet in fleets:
            let_pass(dice.uniform(0.05, 0.4))
            # While Python starts it may swallow a SIGINT; the others end it, before it has started a process.
            heard = (
                [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
                if "ready" in fleet.log
                else [signal.SIGTERM, signal.SIGHUP]
            )
            fleet.tell(dice.choice(heard))
        codes = [fleet.wait() for fleet in fleets]
        assert set(codes) <= {0, -signal.SIGTERM, -signal.SIGHUP}
        assert shop.jobs.counts()[State.EXECUTING] == 0
        assert shop.sessions() == {}
    assert start(shop, "--until-empty").wait() == 0

    records = [handle.record() for handle in handles]
    assert {(each.state, each.attempts, each.crashes) for each in records} == {(State.COMPLETED, 1, 0)}
    assert set(Counter(run["n"] for run in shop.diary("done")).values()) == {1}
    assert len(shop.diary("brief")) == len(shop.diary("done")) == len(handles)
    report(f"restarts: {restarts} at random moments, {len(handles)} jobs, each ran once, none was left behind")


@pytest.mark.promise("F82")
def test_a_job_that_hears_nothing_does_not_keep_its_worker_from_stopping(shop, start):
    fleet = start(shop, "--shutdown-timeout", 0.3)
    handle = shop.hold_the_lock.enqueue(300)
    shop.noted("locking")

    assert fleet.stop(within=15) == 0
    record = handle.record()
    assert (record.state, record.attempts, record.crashes, record.interruptions) == (State.AVAILABLE, 0, 0, 1)


@pytest.mark.promise("A17")
def test_a_supervisor_that_fails_leaves_its_processes_to_finish(shop, start):
    patch = (
        "import onward.supervisor.supervisor as supervisor, pathlib; whole = supervisor.Supervisor._check_processes; "
        f"supervisor.Supervisor._check_processes = lambda self: 1 / 0 if pathlib.Path({str(shop.folder / 'fail.go')!r})"
        ".exists() else whole(self)"
    )
    fleet = start(shop, patch=patch)
    held = shop.hold.enqueue("held")
    shop.noted("holding", name="held")
    shop.let("fail")
    fleet.process.wait(20)
    shop.let("held")
    (record,) = shop.ended(held)

    assert (record.state, record.delivery, record.crashes) == (State.COMPLETED, 1, 0)
    eventually(lambda: not fleet.members())
