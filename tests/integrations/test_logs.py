"""Log lines of a handler carry its job."""

import asyncio
import io
import json
import logging
import threading

import pytest
import structlog

from onward import JobContext, NoDelay, OptionError
from onward.cli.log_lines import log_handler
from onward.integrations import logs, otel

FACTS = ("job_id", "job", "queue", "attempt")

logger = logging.getLogger("tests.shop")


@pytest.fixture
def lines():
    """What a worker would write to stderr, as JSON."""
    handler, written = log_handler("json"), io.StringIO()
    handler.setStream(written)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in written.getvalue().splitlines()]
    root.removeHandler(handler)
    root.setLevel(before)


def facts(line):
    return {name: line.get(name) for name in FACTS}


@pytest.mark.promise("S156")
def test_every_record_inside_a_handler_carries_its_job_and_none_outside(jobs, lines):
    logs.install(jobs)

    @jobs.job(queue="mail", max_retries=1, retry=NoDelay())
    def work(ctx: JobContext) -> None:
        logger.info("inside")
        if ctx.attempt == 1:
            raise KeyError("once")

    handle = work.enqueue()
    logger.info("before")
    jobs.drain()
    jobs.drain()
    logger.info("after")

    told = {line["message"]: line for line in lines()}
    written = [line for line in told.values() if line["logger"] == "tests.shop"]
    assert len(written) == 3
    assert facts(told["inside"]) == {"job_id": handle.id, "job": "work", "queue": "mail", "attempt": 2}
    assert facts(told["before"]) == facts(told["after"]) == dict.fromkeys(FACTS)


@pytest.mark.promise("S156")
@pytest.mark.parametrize("is_async", [False, True], ids=["threads", "tasks"])
def test_jobs_that_run_at_once_do_not_mix_their_facts(jobs, lines, is_async):
    logs.install(jobs)
    together = threading.Barrier(4)
    arrived = []

    @jobs.job
    def in_thread(n: int) -> None:
        together.wait(20)
        logger.info("row %d", n)

    @jobs.job
    async def in_task(n: int) -> None:
        arrived.append(n)
        while len(arrived) < 4:  # noqa: ASYNC110  the others are begun by the worker
            await asyncio.sleep(0.001)
        logger.info("row %d", n)

    work = in_task if is_async else in_thread
    handles = [work.enqueue(n) for n in range(4)]
    with jobs.worker(concurrency=4):
        for handle in handles:
            handle.result(20)

    told = {line["message"]: line["job_id"] for line in lines() if line["logger"] == "tests.shop"}
    assert told == {f"row {n}": handle.id for n, handle in enumerate(handles)}


@pytest.mark.promise("S156")
def test_structlog_has_the_facts_in_its_context_while_the_job_runs(jobs):
    logs.install(jobs)
    seen = []

    @jobs.job
    def work() -> None:
        seen.append(structlog.contextvars.get_contextvars())

    with structlog.contextvars.bound_contextvars(request="r1", job="mine"):
        handle = work.enqueue()
        jobs.drain()
        after = structlog.contextvars.get_contextvars()

    assert seen == [{"request": "r1", "job_id": handle.id, "job": "work", "queue": "default", "attempt": 1}]
    assert after == {"request": "r1", "job": "mine"}


@pytest.mark.parametrize("otel_first", [True, False])
def test_the_trace_is_on_every_line_whichever_is_installed_first(jobs, lines, otel_first):
    from opentelemetry.sdk.trace import TracerProvider

    def trace():
        otel.install(jobs, tracer_provider=TracerProvider())

    for install in (trace, lambda: logs.install(jobs)) if otel_first else (lambda: logs.install(jobs), trace):
        install()

    @jobs.job
    def work() -> None:
        logger.info("inside")

    handle = work.enqueue()
    jobs.drain()

    (line,) = [line for line in lines() if line["logger"] == "tests.shop"]
    assert line["trace_id"] == handle.record().meta["onward.traceparent"].split("-")[1]


def test_what_a_record_says_itself_stays(jobs, lines):
    logs.install(jobs)

    @jobs.job
    def work() -> None:
        logger.info("mine", extra={"job": "a job of the bank", "queue": "counter"})

    work.enqueue()
    jobs.drain()

    (line,) = [line for line in lines() if line["logger"] == "tests.shop"]
    assert (line["job"], line["queue"], line["attempt"]) == ("a job of the bank", "counter", 1)


def test_a_handler_of_a_logger_that_does_not_propagate_takes_the_filter_itself(jobs, capsys):
    logs.install(jobs)
    own, handler = logging.getLogger("tests.own"), log_handler("json")
    handler.addFilter(logs.JobFilter())
    own.propagate = False
    own.addHandler(handler)
    own.setLevel(logging.INFO)

    @jobs.job
    def work() -> None:
        own.info("inside")

    handle = work.enqueue()
    try:
        jobs.drain()
    finally:
        own.removeHandler(handler)

    assert json.loads(capsys.readouterr().err)["job_id"] == handle.id


@pytest.mark.promise("S155")
def test_a_handler_of_logging_that_cannot_be_filtered_fails_no_job(jobs, caplog):
    class Odd(logging.NullHandler):
        def addFilter(self, filter):  # noqa: N802, A002  logging's own names
            raise RuntimeError("no filters here")

    logs.install(jobs)

    @jobs.job
    def work(n: int) -> int:
        return n

    odd = Odd()
    logging.getLogger().addHandler(odd)
    try:
        handles = [work.enqueue(n) for n in range(2)]
        jobs.drain()
    finally:
        logging.getLogger().removeHandler(odd)

    assert [handle.result(1) for handle in handles] == [0, 1]
    assert sum("jobs go on without it" in record.getMessage() for record in caplog.records) == 1


def test_installing_twice_is_refused(jobs):
    logs.install(jobs)
    with pytest.raises(OptionError, match="installed in this application already"):
        logs.install(jobs)
