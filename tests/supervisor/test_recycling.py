"""How much is done before a process, or the whole worker, ends by itself."""

from collections import Counter

import pytest

from onward import State
from tests.supervisor.fleets import alive, eventually, gone


def ran(shop):
    return sorted(run["n"] for run in shop.diary("plain"))


@pytest.mark.promise("F85")
def test_a_process_is_recycled_after_so_many_jobs_and_interrupts_none(shop, start):
    fleet = start(shop, "--max-jobs-per-process", 20, "--concurrency", 2)
    held = shop.hold.enqueue("held")
    worker = shop.noted("holding", name="held")["pid"]
    handles = shop.plain.enqueue_many([(n,) for n in range(50)])
    records = shop.ended(*handles)
    still_there = alive(worker)
    shop.let("held")
    gone(worker)
    (last,) = shop.ended(held)

    processes = Counter(run["pid"] for run in shop.diary("plain"))
    assert max(processes.values()) <= 20
    assert len(processes) >= 3
    assert still_there
    assert {(each.state, each.attempts, each.delivery - each.interruptions) for each in records} == {
        (State.COMPLETED, 1, 1)
    }
    assert (last.state, last.delivery, last.interruptions) == (State.COMPLETED, 1, 0)
    assert fleet.log.count("it has begun 20 jobs") + fleet.log.count("it has run 20 jobs") >= 2
    assert fleet.stop() == 0


@pytest.mark.promise("F85")
def test_a_process_that_grows_too_large_is_recycled_and_finishes_what_it_runs(shop, start):
    fleet = start(shop, "--max-rss", "200M")
    held = shop.hold.enqueue("held")
    worker = shop.noted("holding", name="held")["pid"]
    large = shop.grow.enqueue(300).result(20)
    fleet.said("is recycled: it occupies")
    replacement = eventually(lambda: pid if (pid := shop.plain.enqueue().result(20)) != worker else None)
    still_there = alive(worker)
    shop.let("held")
    (record,) = shop.ended(held)
    gone(worker)

    assert large == worker != replacement
    assert still_there
    assert (record.state, record.delivery, record.interruptions) == (State.COMPLETED, 1, 0)
    assert fleet.stop() == 0


def test_once_runs_one_job_that_is_due_and_ends(shop, start):
    shop.plain.using(delay=3600).enqueue(1)
    assert start(shop, "--once").wait() == 0
    assert ran(shop) == []

    shop.plain.enqueue_many([(n,) for n in range(2, 5)])
    assert start(shop, "--once", "--processes", 3).wait() == 0
    assert ran(shop) == [2]


def test_so_many_jobs_are_run_and_not_one_more(shop, start):
    shop.plain.enqueue_many([(n,) for n in range(20)])

    assert start(shop, "--max-jobs", 7, "--processes", 2, "--concurrency", 3).wait() == 0
    assert len(ran(shop)) == 7
    assert shop.jobs.counts()[State.AVAILABLE] == 13
    assert shop.sessions() == {}


def test_so_many_jobs_are_run_even_if_processes_die_or_are_recycled_meanwhile(shop, start):
    fleet = start(shop, "--max-jobs", 7, "--max-jobs-per-process", 3, "--concurrency", 1)
    shop.ended(*shop.plain.enqueue_many([(n,) for n in range(2)]))
    shop.die_once.enqueue()
    shop.plain.enqueue_many([(n,) for n in range(2, 20)])

    assert fleet.wait() == 0
    assert ran(shop) == [*range(7)]


def test_until_empty_runs_all_that_is_due_and_ends(shop, start):
    handles = shop.plain.enqueue_many([(n,) for n in range(30)])
    shop.plain.using(delay=3600).enqueue(30)
    shop.die_once.enqueue()

    assert start(shop, "--until-empty", "--processes", 2, "--max-jobs-per-process", 10, "--concurrency", 2).wait() == 0
    assert {*ran(shop)} == {*range(30)}  # some twice, if their process died before their ends were stored
    assert {handle.record().state for handle in handles} == {State.COMPLETED}
    assert shop.jobs.counts()[State.SCHEDULED] == 1
