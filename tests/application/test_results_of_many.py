"""The results of many jobs, read together."""

import asyncio
import threading

import pytest

from onward import JobDiscardedError, ResultTimeout
from onward.errors import JobCancelledError, JobNotFound, NoWorker, OptionError, Unsupported


@pytest.fixture
def double(jobs):
    @jobs.job
    def double(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return 2 * n

    return double


@pytest.fixture
def reads(jobs, monkeypatch):
    """How many ids each read of the store asked for."""
    counted, read = [], jobs.backend.get_many
    monkeypatch.setattr(jobs.backend, "get_many", lambda ids: counted.append(len(ids)) or read(ids))
    return counted


def test_results_come_in_the_order_of_the_handles(jobs, double):
    handles = [double.enqueue(n) for n in (3, 1, 2)]
    jobs.drain()

    assert jobs.results(handles) == [6, 2, 4]
    assert asyncio.run(jobs.aresults(handles)) == [6, 2, 4]
    assert jobs.results([*reversed(handles), handles[0]]) == [4, 2, 6, 6]


def test_no_handles_have_no_results(jobs, reads):
    assert jobs.results([]) == []


def test_many_are_read_in_one_statement(jobs, double, reads):
    handles = double.enqueue_many([(n,) for n in range(300)])
    jobs.drain()
    reads.clear()

    assert jobs.results(handles) == [2 * n for n in range(300)]
    assert reads == [300]


def test_more_than_a_statement_should_hold_are_read_in_several(jobs, double, reads):
    handles = double.enqueue_many([(n,) for n in range(1100)])
    jobs.drain()
    reads.clear()

    assert jobs.results(handles) == [2 * n for n in range(1100)]
    assert reads == [500, 500, 100]


@pytest.mark.parametrize("store", ["sqlite"])
def test_only_those_that_have_not_ended_are_read_again(jobs, double, reads):
    handles = [double.enqueue(1), double.using(queue="later").enqueue(2)]
    jobs.drain("default")
    reads.clear()
    thread = threading.Thread(target=lambda: (looked.wait(20), jobs.drain()))
    looked = threading.Event()
    thread.start()
    real = jobs.backend.get_many
    jobs.backend.get_many = lambda ids: (looked.set(), real(ids))[1]

    assert jobs.results(handles, timeout=20) == [2, 4]
    thread.join()
    assert reads[0] == 2
    assert set(reads[1:]) == {1}


def test_the_first_that_failed_raises_as_its_handle_does(jobs, double):
    handles = [double.enqueue(n) for n in (1, -1, -2)]
    jobs.drain()

    with pytest.raises(JobDiscardedError, match="ValueError: negative") as ended:
        jobs.results(handles)
    assert ended.value.job_id == handles[1].id
    with pytest.raises(JobDiscardedError):
        asyncio.run(jobs.aresults(handles))


@pytest.mark.parametrize("store", ["sqlite"])
def test_a_failure_raises_without_waiting_for_the_others(jobs, double):
    handles = [double.using(queue="later").enqueue(1), double.enqueue(-1)]
    jobs.drain("default")

    with pytest.raises(JobDiscardedError):
        jobs.results(handles)


def test_exceptions_can_take_the_place_of_results(jobs, double):
    handles = [double.enqueue(n) for n in (1, -1, 2, 3)]
    handles[2].cancel("not needed")
    jobs.drain()

    one, failed, cancelled, three, missing = jobs.results([*handles, jobs.handle("0" * 32)], return_exceptions=True)

    assert (one, three) == (2, 6)
    assert isinstance(failed, JobDiscardedError)
    assert isinstance(cancelled, JobCancelledError)
    assert isinstance(missing, JobNotFound)


@pytest.mark.parametrize("store", ["sqlite"])
def test_what_has_not_ended_in_time_is_counted_and_named(jobs, double):
    handles = [double.enqueue(1), *(double.using(queue="later").enqueue(n) for n in (2, 3))]
    jobs.drain("default")

    with pytest.raises(ResultTimeout, match=rf"2 of 3 jobs .* within 0\.01 s.*{handles[1].id}"):
        jobs.results(handles, timeout=0.01)
    done, *late = jobs.results(handles, 0.01, return_exceptions=True)
    assert done == 2
    assert [type(each) for each in late] == [ResultTimeout, ResultTimeout]


@pytest.mark.parametrize("store", ["memory"])
@pytest.mark.parametrize("return_exceptions", [False, True])
def test_waiting_for_jobs_that_no_worker_can_run_raises_at_once(jobs, double, return_exceptions):
    with pytest.raises(NoWorker, match=r"jobs\.drain"):
        jobs.results([double.enqueue(1)], return_exceptions=return_exceptions)


def test_ids_are_no_handles(jobs):
    with pytest.raises(OptionError, match=r"jobs\.handle\(id\)"):
        jobs.results(["0" * 32])


def test_a_broker_without_a_store_has_no_results(jobs, double):
    from onward.operate.unsupported_inspection import Uninspected

    handles = [double.enqueue(1)]

    with pytest.raises(Unsupported, match="ONWARD_STORE"):
        Uninspected(jobs.backend).get_many([each.id for each in handles])
