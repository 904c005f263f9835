"""What is kept of every run that failed."""

import pytest

from onward import NoDelay


@pytest.mark.promise("S45")
def test_every_failed_run_is_kept_with_its_time_and_duration(jobs, clock):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work():
        clock.advance(5)
        raise ValueError("bad input")

    handle = work.enqueue()
    started = clock.now()
    jobs.drain()

    errors = jobs.get(handle.id).errors
    assert [(error.attempt, error.kind, error.message) for error in errors] == [
        (1, "ValueError", "bad input"),
        (2, "ValueError", "bad input"),
    ]
    assert [(error.at - started).total_seconds() for error in errors] == [5, 10]
    assert all(error.duration_ms >= 0 for error in errors)


def test_a_job_that_succeeds_at_last_keeps_the_record_of_its_failures(jobs):
    failures = iter([OSError("one"), OSError("two")])

    @jobs.job(max_retries=5, retry=NoDelay())
    def work():
        for failure in failures:
            raise failure

    handle = work.enqueue()
    jobs.drain()

    record = jobs.get(handle.id)
    assert (record.state, [error.message for error in record.errors]) == ("completed", ["one", "two"])


def test_a_traceback_names_the_line_that_failed_and_its_cause(jobs):
    def inner():
        raise LookupError("the cause")

    @jobs.job
    def work():
        try:
            inner()
        except LookupError as error:
            raise ValueError("the effect") from error

    handle = work.enqueue()
    jobs.drain()

    told = jobs.get(handle.id).errors[-1].traceback
    assert 'raise LookupError("the cause")' in told
    assert 'raise ValueError("the effect") from error' in told
    assert told.index("the cause") < told.index("the effect")
    assert "which directly caused" in told


def test_a_traceback_shows_no_local_variables(jobs):
    @jobs.job
    def work(password):
        token = password.upper()
        raise ValueError(len(token))

    handle = work.enqueue("hunter2")
    jobs.drain()

    told = jobs.get(handle.id).errors[-1].traceback
    assert "hunter2" not in told
    assert "HUNTER2" not in told


@pytest.mark.promise("S45")
@pytest.mark.parametrize("message", ["x" * 1_000_000, "\n" * 100_000])
def test_messages_and_tracebacks_are_bounded(jobs, message):
    def dive(depth):
        if depth == 0:
            raise ValueError(message)
        dive(depth - 1)

    @jobs.job
    def work():
        dive(500)

    handle = work.enqueue()
    jobs.drain()

    (error,) = jobs.get(handle.id).errors
    assert len(error.message) <= 4_096
    assert len(error.traceback) <= 16_384
    assert "outer frames" in error.traceback


@pytest.mark.promise("F60")
def test_error_text_that_no_store_accepts_is_stored_as_its_escapes(jobs):
    @jobs.job
    def work():
        raise ValueError("nul \x00 surrogate \ud800")

    handle = work.enqueue()
    jobs.drain()

    (error,) = jobs.get(handle.id).errors
    assert error.message == "nul \\x00 surrogate \\ud800"


def test_a_traceback_begins_with_the_handler_and_keeps_what_it_called(jobs):
    @jobs.job
    def work():
        try:
            int("no number")
        except ValueError as error:
            raise OSError("no bank") from error

    handle = work.enqueue()
    jobs.drain()

    (error,) = jobs.get(handle.id).errors
    cause, _, effect = error.traceback.partition("which directly caused:")
    for part in (cause, effect):
        assert part.lstrip("\n").startswith(f'  File "{__file__}", line ')
        assert "in work\n" in part
    assert "onward/runner.py" not in error.traceback


def test_a_handler_that_comes_with_the_package_keeps_its_frames(open_app):
    jobs = open_app(handlers={"shell": {"allow": ["/bin/false"]}}, queue_handlers={"ops": ["shell"]})
    handle = jobs.define("shell", ["/bin/false"]).queue("ops").dispatch()
    jobs.drain("ops")

    (error,) = jobs.get(handle.id).errors
    assert "onward/handlers/" in error.traceback
