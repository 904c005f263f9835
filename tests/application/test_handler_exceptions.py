"""Whatever a handler raises is a failed attempt of that job, and no more."""

import asyncio
import concurrent.futures
import subprocess
import sys
import threading

import pytest

from onward import BackendUnavailable, JobContext, NoDelay
from onward.base.failure import kind_of


class CannotBeTold(Exception):
    def __str__(self):
        raise RuntimeError("not even my own text")


class OfItsOwnKind(BaseException):
    pass


def deep():
    deep()


KINDS = [
    Exception("plain"),
    TimeoutError("the handler's own"),
    TimeoutError(),
    asyncio.CancelledError(),
    concurrent.futures.CancelledError(),
    concurrent.futures.TimeoutError(),
    StopIteration("next"),
    StopAsyncIteration(),
    GeneratorExit(),
    SystemExit(3),
    MemoryError(),
    RecursionError("deep"),
    AssertionError(),
    OSError(28, "no space left on device"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    BackendUnavailable("of the handler's own doing"),
    subprocess.CalledProcessError(1, "ls"),
    ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
    BaseExceptionGroup("worse", [KeyboardInterrupt()]),
    OfItsOwnKind("rare"),
    CannotBeTold(),
    RuntimeError("nul \x00, surrogate \ud800, \U0001f4a9"),
    RuntimeError("x" * 1_000_000),
]


def name_of(error):
    return type(error).__name__


@pytest.mark.promise("F84", "F60")
@pytest.mark.parametrize("error", KINDS, ids=name_of)
def test_any_kind_of_exception_is_a_failure_that_is_retried(jobs, error):
    @jobs.job(max_retries=1, retry=NoDelay())
    def work(ctx: JobContext):
        if ctx.attempt == 1:
            raise error

    handle = work.enqueue()

    assert jobs.process_once().status == "requeued"
    assert jobs.process_once().status == "acked"
    assert jobs.get(handle.id).errors[0].kind == kind_of(error)


@pytest.mark.promise("F84")
@pytest.mark.parametrize("error", KINDS, ids=name_of)
def test_any_kind_of_exception_of_an_async_handler_is_a_failure_that_is_retried(jobs, error):
    @jobs.job(max_retries=1, retry=NoDelay())
    async def work(ctx: JobContext):
        if ctx.attempt == 1:
            raise error

    handle = work.enqueue()

    assert jobs.process_once().status == "requeued"
    assert jobs.process_once().status == "acked"
    # A coroutine cannot raise StopIteration: Python turns it into a RuntimeError.
    assert jobs.get(handle.id).errors[0].kind in (kind_of(error), "RuntimeError")


@pytest.mark.promise("F84")
def test_a_keyboard_interrupt_raised_outside_the_main_thread_is_a_failure(jobs, in_threads):
    @jobs.job
    def work():
        raise KeyboardInterrupt

    handle = work.enqueue()
    (result,) = in_threads(1, lambda _: jobs.process_once())

    assert result.status == "dead-lettered"
    assert jobs.get(handle.id).errors[-1].kind == "KeyboardInterrupt"


@pytest.mark.promise("F84")
def test_a_keyboard_interrupt_raised_by_an_async_handler_is_a_failure(jobs):
    @jobs.job
    async def work():
        raise KeyboardInterrupt

    handle = work.enqueue()

    assert jobs.process_once().status == "dead-lettered"
    assert handle.state() == "discarded"


@pytest.mark.promise("F84", "S9")
def test_an_interrupt_in_the_main_thread_gives_the_job_back_and_goes_on_its_way(jobs):
    assert threading.current_thread() is threading.main_thread()

    @jobs.job
    def work(ctx: JobContext):
        if ctx.delivery == 1:
            raise KeyboardInterrupt

    handle = work.enqueue()
    with pytest.raises(KeyboardInterrupt):
        jobs.drain()
    assert handle.state() == "available"

    jobs.drain()
    assert handle.state() == "completed"


def test_recursion_without_end_is_a_failure(jobs):
    @jobs.job
    def work():
        deep()

    handle = work.enqueue()
    jobs.drain()

    assert jobs.get(handle.id).errors[-1].kind == "RecursionError"


def test_a_handler_that_exits_does_not_end_the_program(jobs):
    @jobs.job
    def work():
        sys.exit("bye")

    handle = work.enqueue()
    jobs.drain()

    error = jobs.get(handle.id).errors[-1]
    assert (error.kind, error.message) == ("SystemExit", "bye")


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator"])
def test_a_handler_that_returns_something_never_run_has_not_succeeded(jobs, kind):
    """A plain function around an async one returns a coroutine that is never awaited: its work was not done."""

    async def coroutine(): ...

    def generator():
        yield

    async def async_generator():
        yield

    makers = {"coroutine": coroutine, "generator": generator, "async generator": async_generator}

    @jobs.job
    def work():
        return makers[kind]()

    handle = work.enqueue()

    assert jobs.process_once().status == "dead-lettered"
    article = "an" if kind == "async generator" else "a"
    told = f"the handler returned {article} {kind.replace(' ', '_')}, which was never run"
    assert told in jobs.get(handle.id).errors[-1].message
