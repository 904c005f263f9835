"""A worker inside a program sends samples with its renewals, and no trouble with them changes a job."""

import pytest
from msgspec.structs import replace

from onward.backend import Look
from onward.errors import BackendUnavailable
from onward.operate.series.measured import Measured

EVERYTHING = (0, 1 << 60)


def counted(backend):
    """How many jobs the rows say that have succeeded, and from which builds."""
    rows = [Measured.decoded(row.data) for row in backend.look(Look(series=EVERYTHING)).series]
    ended = sum(each.counters.get("jobs_succeeded", 0) for row in rows for each in row.numbers.values())
    return ended, {build for row in rows for build in row.builds}


def test_the_renewal_thread_of_a_worker_sends_what_the_process_has_counted(open_app, eventually, monkeypatch):
    monkeypatch.setenv("ONWARD_BUILD", "commit-1")
    jobs = open_app(lease_for=1)

    @jobs.job
    def work() -> None: ...

    jobs._parts.engine._samples._every = 0
    handle = work.enqueue()
    with jobs.worker(concurrency=1):
        handle.result(30)
        eventually(lambda: counted(jobs.backend)[0] == 1)

    assert counted(jobs.backend) == (1, {"commit-1"})
    assert any(Measured.decoded(row.data).looked for row in jobs.backend.look(Look(series=EVERYTHING)).series)


def test_two_workers_of_one_program_count_each_job_once(open_app, eventually):
    jobs = open_app(lease_for=1)

    @jobs.job
    def work() -> None: ...

    jobs._parts.engine._samples._every = 0
    handles = [work.enqueue() for _ in range(20)]
    with jobs.worker(concurrency=1), jobs.worker(concurrency=1):
        for handle in handles:
            handle.result(30)
        eventually(lambda: counted(jobs.backend)[0] == 20)

    assert counted(jobs.backend)[0] == 20


@pytest.mark.promise("S121")
def test_what_was_counted_since_the_last_renewal_is_sent_when_the_worker_stops(open_app):
    jobs = open_app(lease_for=600)  # it is never renewed

    @jobs.job
    def work() -> None: ...

    handles = [work.enqueue() for _ in range(20)]
    with jobs.worker(concurrency=2):
        for handle in handles:
            handle.result(30)

    assert counted(jobs.backend)[0] == 20


@pytest.mark.promise("S123")
def test_a_last_sample_that_cannot_be_sent_keeps_no_worker_from_stopping(open_app, monkeypatch, caplog):
    jobs = open_app(lease_for=600)
    extend = jobs.backend.extend

    def away(owner, *, sample=None):
        if sample is not None:
            raise BackendUnavailable("the store is away")
        return extend(owner)

    monkeypatch.setattr(jobs.backend, "extend", away)
    with jobs.worker(concurrency=1) as worker:
        pass

    assert not worker.running
    assert jobs.backend.sessions() == []
    assert "the last sample could not be sent" in caplog.text


@pytest.mark.promise("S123")
def test_without_metrics_nothing_is_sent(open_app, eventually):
    jobs = open_app(lease_for=1, metrics=False)

    @jobs.job
    def work() -> None: ...

    handle = work.enqueue()
    with jobs.worker(concurrency=1) as worker:
        handle.result(30)
        assert worker._session.samples is None

    assert jobs.backend.look(Look(series=EVERYTHING)).series == ()


@pytest.mark.promise("S123")
@pytest.mark.parametrize("broken", ["numbers", "store", "look", "encoding"])
def test_trouble_with_samples_changes_no_job(open_app, eventually, monkeypatch, broken, caplog):
    def raising(*args, **kwargs):
        raise (BackendUnavailable if broken == "look" else ZeroDivisionError)("of samples")

    jobs = open_app(lease_for=1)

    @jobs.job
    def work(n: int) -> int:
        return n

    samples = jobs._parts.engine._samples
    samples._every = 0
    if broken == "numbers":
        samples._counted = raising
    elif broken == "encoding":
        monkeypatch.setattr(Measured, "encoded", raising)
    elif broken == "look":
        monkeypatch.setattr(jobs.backend, "look", raising)
    else:
        extend = jobs.backend.extend
        monkeypatch.setattr(
            jobs.backend, "extend", lambda owner, *, sample=None: replace(extend(owner), refused="of samples")
        )
    handles = [work.enqueue(n) for n in range(50)]
    with jobs.worker(concurrency=4) as worker:
        assert [handle.result(30) for handle in handles] == list(range(50))
        eventually(lambda: "of samples" in caplog.text)
        handle = work.enqueue(99)
        assert handle.result(30) == 99
        assert worker.running

    assert {handle.record().attempts for handle in handles} == {1}
    assert len([record for record in caplog.records if record.name == "onward.series"]) == 1
