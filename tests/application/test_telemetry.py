"""Subscribers and log lines: they learn what happened and can do no harm."""

import logging
import re
import threading

import pytest

from onward import JobDiscardedError, NoDelay, OptionError
from onward.telemetry import Event, JobCompleted, JobEnqueued, JobEvent, JobFailed, JobStarted
from onward.testing.contract.builders import an_envelope


@pytest.fixture
def work(jobs):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work(fails: bool = False):
        if fails:
            raise RuntimeError("no luck")

    return work


def lines(caplog, at_least=logging.INFO):
    return [record for record in caplog.records if record.levelno >= at_least]


class TestSubscribers:
    def test_one_hears_the_kind_it_asked_for(self, jobs, work):
        heard = []
        jobs.on(JobCompleted, heard.append)
        handle = work.enqueue()
        jobs.drain()
        jobs.telemetry.flush()

        assert [(type(event), event.id, event.attempt) for event in heard] == [(JobCompleted, handle.id, 1)]

    def test_one_that_asks_for_a_kind_hears_every_kind_below_it(self, jobs, work):
        heard = []
        jobs.on(JobEvent, heard.append)
        work.enqueue()
        jobs.pause("mail")
        jobs.drain()
        jobs.telemetry.flush()

        assert [type(event) for event in heard] == [JobEnqueued, JobStarted, JobCompleted]

    def test_one_can_be_a_decorated_function(self, jobs, work):
        heard = []

        @jobs.on(JobEnqueued)
        def remember(event):
            heard.append(event.id)

        handle = work.enqueue()
        jobs.telemetry.flush()

        assert heard == [handle.id]
        assert callable(remember)

    def test_several_hear_the_same_in_the_order_they_came(self, jobs, work):
        heard = []
        jobs.on(JobEnqueued, lambda event: heard.append("first"))
        jobs.on(JobEnqueued, lambda event: heard.append("second"))
        work.enqueue()
        jobs.telemetry.flush()

        assert heard == ["first", "second"]

    def test_one_that_comes_late_hears_from_then_on(self, jobs, work):
        heard = []
        work.enqueue()
        jobs.on(JobEnqueued, heard.append)
        work.enqueue()
        jobs.telemetry.flush()

        assert len(heard) == 1

    @pytest.mark.promise("F92")
    @pytest.mark.parametrize("error", [RuntimeError("broken"), SystemExit(1), KeyboardInterrupt()], ids=repr)
    def test_one_that_raises_hurts_neither_jobs_nor_others(self, jobs, work, error, caplog):
        heard = []

        def broken(event):
            raise error

        jobs.on(Event, broken)
        jobs.on(Event, heard.append)
        handles = work.enqueue_many([(n % 2 == 0,) for n in range(10)])
        jobs.drain()
        jobs.telemetry.flush()

        assert {handle.state() for handle in handles} == {"completed", "discarded"}
        assert len(heard) == 10 + 15 + 15
        assert len([record for record in lines(caplog) if "broken" in record.getMessage()]) == 1

    @pytest.mark.promise("F92")
    def test_one_that_hangs_hurts_no_job(self, jobs, work):
        hang = threading.Event()
        jobs.on(Event, lambda event: hang.wait(60))
        handles = work.enqueue_many([()] * 20)
        jobs.drain()

        assert {handle.state() for handle in handles} == {"completed"}
        assert not jobs.telemetry.flush(timeout=0.01)
        hang.set()
        assert jobs.telemetry.flush()

    @pytest.mark.promise("F92")
    def test_what_a_slow_one_cannot_keep_up_with_is_dropped_and_counted(self, jobs, work, monkeypatch, caplog):
        hang, heard = threading.Event(), []
        monkeypatch.setattr(jobs.telemetry._queue, "maxsize", 10)

        def slow(event):
            hang.wait(60)
            heard.append(event)

        jobs.on(JobEnqueued, slow)
        for _ in range(30):
            work.enqueue()
        hang.set()
        jobs.telemetry.flush()

        assert jobs.telemetry.dropped == 30 - len(heard)
        assert 10 <= len(heard) <= 11
        assert len([record for record in lines(caplog) if "behind" in record.getMessage()]) == 1

    def test_closing_delivers_what_is_on_its_way(self, open_app):
        jobs = open_app()
        heard = []
        jobs.on(JobEnqueued, heard.append)

        @jobs.job
        def work(): ...

        work.enqueue_many([()] * 50)
        jobs.close()

        assert len(heard) == 50

    def test_flushing_without_subscribers_ends_at_once(self, jobs, work):
        work.enqueue()

        assert jobs.telemetry.flush(timeout=0)

    @pytest.mark.parametrize("kind", [JobDiscardedError, ValueError, "JobFailed", None], ids=repr)
    def test_asking_for_something_that_is_no_event_is_refused(self, jobs, kind):
        """The error a result raises has the name of the event: asking for it would be asking for silence."""
        with pytest.raises(OptionError, match=r"onward\.telemetry"):
            jobs.on(kind, print)

    def test_a_subscriber_may_enqueue(self, jobs, work):
        jobs.on(JobFailed, lambda event: work.enqueue(False))
        work.enqueue(True)
        jobs.drain()
        jobs.telemetry.flush()

        assert jobs.list(newest_first=True)[0].payload == {"fails": False}


class TestLogLines:
    @pytest.fixture(autouse=True)
    def everything(self, caplog):
        caplog.set_level(logging.INFO)

    def test_a_success_says_nothing(self, jobs, work, caplog):
        work.enqueue_many([()] * 3)
        jobs.drain()

        assert lines(caplog) == []

    def test_a_success_is_logged_at_debug_level(self, jobs, work, caplog):
        caplog.set_level(logging.DEBUG)
        handle = work.enqueue()
        jobs.drain()

        (line,) = [record for record in caplog.records if record.name == "onward.job"]
        assert re.fullmatch(rf"job\.completed work {handle.id} attempt 1 in \d+ ms", line.getMessage())

    def test_each_failure_says_one_line_and_the_last_one_is_critical(self, jobs, work, caplog):
        handle = work.enqueue(True)
        jobs.drain()

        failed, discarded = lines(caplog)
        assert failed.levelno == logging.WARNING
        assert re.fullmatch(
            rf"job\.failed work {handle.id} attempt 1 in \d+ ms, retry in 0 ms: RuntimeError: no luck",
            failed.getMessage(),
        )
        assert discarded.levelno == logging.CRITICAL
        assert re.fullmatch(
            rf"job\.discarded work {handle.id} attempt 2 in \d+ ms: gave up after 2 attempts: max_retries is 1; "
            rf"RuntimeError: no luck",
            discarded.getMessage(),
        )

    def test_lines_of_one_event_have_one_template(self, jobs, work, caplog):
        work.enqueue_many([(True,), (True,), (True,)])
        jobs.drain()

        templates = {(line.event, line.msg) for line in lines(caplog)}
        assert len(lines(caplog)) == 6
        assert sorted(event for event, _ in templates) == ["job.discarded", "job.failed"]

    def test_a_job_that_was_never_run_is_told_to_be_discarded_without_a_time(self, jobs, caplog):
        jobs.backend.enqueue([an_envelope(job="work", payload=b"", namespace="another")])
        jobs.drain()

        (line,) = lines(caplog)
        assert "which was not run: " in line.getMessage()
        assert line.levelno == logging.CRITICAL

    @pytest.mark.promise("S21")
    def test_the_line_of_a_permanent_failure_says_that_no_retries_were_allowed(self, jobs, caplog):
        @jobs.job
        def work():
            raise RuntimeError

        work.enqueue()
        jobs.drain()

        (line,) = lines(caplog)
        assert "max_retries is 0" in line.getMessage()

    def test_a_line_carries_its_facts_apart(self, jobs, work, caplog):
        handle = work.enqueue(True)
        jobs.process_once()

        (line,) = lines(caplog)
        assert (line.event, line.job_id, line.job, line.queue, line.attempt) == (
            "job.failed",
            handle.id,
            "work",
            "default",
            1,
        )
        assert line.duration_ms >= 0

    def test_a_lost_lease_says_one_line(self, jobs, clock, caplog):
        @jobs.job
        def work():
            clock.advance(31)
            jobs.reap()

        work.enqueue()
        jobs.process_once()

        crashed, lost = lines(caplog)
        assert (crashed.levelno, crashed.event) == (logging.ERROR, "job.crashed")
        assert (lost.levelno, lost.event) == (logging.WARNING, "lease.lost")

    def test_a_crash_that_is_the_last_straw_is_critical(self, open_app, crash_elsewhere, caplog):
        jobs = open_app(max_crashes=1)

        @jobs.job
        def work(): ...

        work.enqueue()
        crash_elsewhere(jobs)

        (line,) = lines(caplog)
        assert (line.levelno, line.event) == (logging.CRITICAL, "job.crashed")
        assert "now discarded" in line.getMessage()

    def test_a_broken_log_handler_hurts_no_job(self, jobs, work, monkeypatch):
        class Broken(logging.Handler):
            def emit(self, record):
                raise OSError("the disk of the logs is full")

        monkeypatch.setattr(logging, "raiseExceptions", False)
        handler = Broken()
        logging.getLogger("onward.job").addHandler(handler)
        try:
            handle = work.enqueue(True)
            jobs.drain()
        finally:
            logging.getLogger("onward.job").removeHandler(handler)

        assert handle.state() == "discarded"
        assert jobs.metrics.count("jobs_failed") == 2
