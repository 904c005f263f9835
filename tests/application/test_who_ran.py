"""What a record tells of each failed run: by whom, of which class, and for which cause."""

from datetime import timedelta

import pytest

from onward import NoDelay, Onward, Retry
from onward.telemetry import JobDiscarded
from tests.application.every_store import redis_server, store, url

__all__ = ["redis_server", "store", "url"]


class Weird(Exception): ...


@pytest.fixture
def jobs(url):
    with Onward(url) as jobs:
        yield jobs


@pytest.mark.promise("S54")
def test_a_class_is_named_with_its_module_unless_it_is_pythons_own(jobs):
    @jobs.job
    def work(own: bool) -> None:
        raise Weird("odd") if own else ValueError("bad")

    handles = [work.enqueue(own=True), work.enqueue(own=False)]
    jobs.drain()

    kinds = [handle.record().errors[0].kind for handle in handles]
    assert kinds == [f"{__name__}.Weird", "ValueError"]


@pytest.mark.promise("S54")
def test_behind_a_retry_stands_its_cause(jobs):
    events = []
    jobs.on(JobDiscarded, events.append)

    @jobs.job(max_retries=1)
    def work(caused: bool) -> None:
        raise Retry(after=0, message="later") from (ConnectionResetError("the line is dead") if caused else None)

    caused, plain = work.enqueue(caused=True), work.enqueue(caused=False)
    jobs.drain()
    jobs.telemetry.flush()

    for error in caused.record().errors:
        assert (error.kind, error.message) == ("ConnectionResetError", "the line is dead")
        assert "which directly caused" in error.traceback
        assert "onward.job.signals.Retry: later" in error.traceback
    assert {(error.kind, error.message) for error in plain.record().errors} == {("onward.job.signals.Retry", "later")}
    assert {event.kind for event in events} == {"ConnectionResetError", "onward.job.signals.Retry"}


@pytest.mark.promise("S54")
def test_each_failed_run_tells_which_session_ran_it(jobs):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work() -> None:
        raise ValueError("bad")

    handle = work.enqueue()
    jobs.drain()

    record = handle.record()
    assert len(record.errors) == 2
    assert {error.owner for error in record.errors} == {record.owner}
    assert record.owner is not None


def test_a_record_tells_when_its_job_was_asked_to_be_due(jobs):
    @jobs.job
    def work() -> None: ...

    plain, later = work.enqueue(), work.using(delay="1h").enqueue()

    assert plain.record().not_before is None
    assert later.record().not_before == later.enqueued_at + timedelta(hours=1)


def test_a_handle_tells_when_its_job_was_enqueued(jobs):
    @jobs.job
    def work(n: int = 0) -> None: ...

    handles = [
        work.enqueue(),
        *work.enqueue_many([(1,), (2,)]),
        jobs.enqueue("elsewhere", {}),
        *jobs.enqueue_many("elsewhere", [{}, {}]),
        jobs.enqueue(work),
    ]
    known = [handle.enqueued_at for handle in handles]

    assert known == [handle.record().enqueued_at for handle in handles]
    assert jobs.handle(handles[0].id).enqueued_at == known[0]


def test_the_handle_of_another_call_s_job_tells_when_that_was_enqueued(jobs):
    @jobs.job
    def work() -> None: ...

    first = work.using(unique_key="k").enqueue()
    second = work.using(unique_key="k").enqueue()

    assert not second.created
    assert second.enqueued_at == first.enqueued_at
