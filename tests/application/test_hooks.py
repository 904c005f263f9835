"""`jobs.around`: a generator of the application is entered around every attempt, where its handler runs."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import pytest

from onward import Discard, JobContext, JobTimeout, NoDelay, Onward, Retry, Snooze
from onward.errors import DefinitionError, HookError, OptionError

tenant: ContextVar[str] = ContextVar("tenant")


@pytest.fixture
def seen():
    return []


def log(jobs, seen, name):
    """Register a hook that notes when it is entered and left, and by which error."""

    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        seen.append(f"in {name}")
        try:
            yield
        except BaseException as error:
            seen.append(f"{name} saw {type(error).__name__}")
            raise
        seen.append(f"out {name}")


@pytest.mark.promise("S51")
def test_a_hook_is_entered_before_the_handler_and_left_after_it_the_first_outermost(jobs, seen):
    log(jobs, seen, "outer")
    log(jobs, seen, "inner")

    @jobs.job
    def work(n: int) -> int:
        seen.append(f"run {n}")
        return n

    handle = work.enqueue(7)
    jobs.drain()

    assert seen == ["in outer", "in inner", "run 7", "out inner", "out outer"]
    assert handle.result() == 7


@pytest.mark.promise("S51")
def test_every_attempt_has_hooks_of_its_own(jobs, seen, clock):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        seen.append((ctx.job, ctx.attempt))
        yield

    @jobs.job(max_retries=2, retry=NoDelay())
    def work() -> None:
        raise ValueError("again")

    work.enqueue()
    jobs.drain()

    assert seen == [("work", 1), ("work", 2), ("work", 3)]


@pytest.mark.promise("S51")
def test_what_a_hook_sets_in_the_context_reaches_the_handler_and_no_other(jobs, seen):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        if "tenant" in ctx.meta:
            tenant.set(ctx.meta["tenant"])
        yield

    @jobs.job
    def work() -> None:
        seen.append((tenant.get("none"), threading.get_ident()))

    @jobs.job
    async def awork() -> None:
        await asyncio.sleep(0)
        seen.append((tenant.get("none"), None))

    for job in (work, awork):
        job.using(meta={"tenant": "acme"}).enqueue()
        job.enqueue()
    jobs.drain()

    assert sorted(name for name, _ in seen) == ["acme", "acme", "none", "none"]
    assert tenant.get("none") == "none"


@pytest.mark.promise("S52")
@pytest.mark.parametrize("before", [True, False])
def test_what_a_hook_raises_is_the_attempts_error(jobs, seen, before):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        if before:
            raise LookupError("no connection")
        yield
        raise LookupError("the commit failed")

    @jobs.job
    def work() -> None:
        seen.append("run")

    handle = work.enqueue()
    jobs.drain()
    record = handle.record()

    assert seen == ([] if before else ["run"])
    assert (record.state, record.attempts) == ("discarded", 1)
    assert record.errors[0].kind == "LookupError"
    assert 'in hook\n    raise LookupError("' in record.errors[0].traceback
    assert "hooked.py" not in record.errors[0].traceback


@pytest.mark.promise("S52")
def test_a_hook_sees_what_the_handler_raises_and_may_raise_something_else(jobs, seen):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        try:
            yield
        except KeyError as error:
            raise Discard("there is no such user") from error

    log(jobs, seen, "inner")

    @jobs.job(max_retries=5)
    def work() -> None:
        raise KeyError("ada")

    handle = work.enqueue()
    jobs.drain()

    assert seen == ["in inner", "inner saw KeyError"]
    assert (handle.state(), handle.record().reason) == ("discarded", "there is no such user")


@pytest.mark.promise("S52")
def test_a_traceback_shows_the_handlers_frames_and_not_those_of_its_hooks(jobs, seen):
    log(jobs, seen, "outer")

    @jobs.job
    def work() -> None:
        raise KeyError("ada")

    handle = work.enqueue()
    jobs.drain()
    (error,) = handle.record().errors

    assert error.traceback.count("File ") == 1
    assert "in work" in error.traceback


@pytest.mark.parametrize("returned", [True, False])
@pytest.mark.parametrize(
    ("signal", "state", "attempts"),
    [(Retry(after=60), "retryable", 1), (Snooze(60), "scheduled", 0), (Discard("no"), "discarded", 1)],
)
def test_signals_pass_through_hooks_whether_raised_or_returned(jobs, seen, signal, state, attempts, returned):
    log(jobs, seen, "outer")

    @jobs.job(max_retries=3)
    def work() -> object:
        if returned:
            return signal
        raise signal

    handle = work.enqueue()
    jobs.drain()

    assert seen == ["in outer", f"outer saw {type(signal).__name__}"]
    assert (handle.state(), handle.record().attempts) == (state, attempts)


def test_a_hook_that_catches_the_error_has_made_the_run_a_success_and_the_log_says_so_once(jobs, store, caplog):
    @jobs.around
    def forgiving(ctx: JobContext) -> Iterator[None]:
        try:
            yield
        except ZeroDivisionError:
            ctx.progress(1)

    @jobs.job(name=f"forgiven_on_{store}")
    def work() -> float:
        return 1 / 0

    with caplog.at_level(logging.WARNING):
        handles = [work.enqueue() for _ in range(2)]
        jobs.drain()

    assert [(handle.state(), handle.result()) for handle in handles] == [("completed", None)] * 2
    told = [record.getMessage() for record in caplog.records if "caught ZeroDivisionError" in record.getMessage()]
    assert len(told) == 1


@pytest.mark.parametrize("error", [StopIteration("stop"), StopAsyncIteration("stop"), RuntimeError("own")])
def test_errors_that_generators_treat_in_a_way_of_their_own_stay_what_they_are(jobs, seen, error):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        yield

    @jobs.job
    def work() -> None:
        raise error

    handle = work.enqueue()
    jobs.drain()

    (found,) = handle.record().errors
    assert (found.kind, found.message) == (type(error).__name__, str(error))


def test_a_hook_that_yields_on_and_on_is_named_too(jobs):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        for _ in range(3):
            with suppress(GeneratorExit):
                yield

    @jobs.job
    def work() -> None: ...

    handle = work.enqueue()
    jobs.drain()

    (found,) = handle.record().errors
    assert found.kind == "onward.errors.HookError"
    assert "hook' yielded twice" in found.message


@pytest.mark.promise("S52")
def test_a_hook_that_yields_twice_or_never_fails_the_attempt_and_says_why(jobs, seen):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        if ctx.meta["yields"] == 0:
            return
        yield
        seen.append("left")
        yield
        seen.append("never reached")

    @jobs.job
    def work() -> None:
        seen.append("run")

    never, twice = (work.using(meta={"yields": n}).enqueue() for n in (0, 2))
    jobs.drain()

    assert seen == ["run", "left"]
    for handle, told in ((never, "ended without a yield"), (twice, "yielded twice")):
        (error,) = handle.record().errors
        assert error.kind.endswith("HookError")
        assert told in error.message
        assert "hook" in error.message
    work.using(meta={"yields": 2}).enqueue()
    with pytest.raises(HookError):
        jobs.drain(raising=True)


def test_draining_with_raising_raises_what_the_hook_raised(jobs):
    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        yield
        raise LookupError("the commit failed")

    @jobs.job
    def work() -> None: ...

    work.enqueue()
    with pytest.raises(LookupError, match="the commit failed"):
        jobs.drain(raising=True)


@pytest.mark.promise("S51")
def test_a_handler_named_by_key_has_the_hooks_too(open_app, seen):
    class Note:
        def check(self, payload: object) -> None: ...

        def run(self, ctx: JobContext) -> str:
            seen.append(f"run {ctx.payload}")
            return "done"

    jobs = open_app(handlers={"note": Note()}, queue_handlers={"default": ["note"]})
    log(jobs, seen, "outer")

    handle = jobs.define("note", "this").dispatch()
    jobs.drain()

    assert seen == ["in outer", "run this", "out outer"]
    assert handle.result() == "done"


def test_no_hook_is_entered_for_a_job_that_does_not_fit(jobs, seen):
    log(jobs, seen, "outer")

    @jobs.job
    def work(n: int) -> None: ...

    handle = jobs.enqueue("later", {"m": "x"})

    @jobs.job(name="later")
    def later(n: int) -> None: ...

    assert jobs.process_once().status == "parked"
    assert seen == []
    assert handle.state() == "scheduled"


@pytest.mark.promise("S51")
def test_hooks_are_entered_where_jobs_run_as_they_are_enqueued(seen):
    with Onward("sync://") as jobs:
        log(jobs, seen, "outer")

        @jobs.job
        def work() -> None:
            seen.append("run")

        work.enqueue()

        assert seen == ["in outer", "run", "out outer"]


@pytest.mark.promise("S52")
def test_a_time_out_unwinds_the_hooks(jobs, seen):
    log(jobs, seen, "outer")
    never = threading.Event()

    @jobs.job(timeout=0.2)
    def work() -> None:
        while not never.is_set():
            never.wait(0.01)

    @jobs.job(timeout=0.2)
    async def awork() -> None:
        await asyncio.sleep(3600)

    handles = [work.enqueue(), awork.enqueue()]
    jobs.drain()

    assert seen == ["in outer", "outer saw JobTimeout", "in outer", "outer saw CancelledError"]
    assert [handle.record().errors[0].kind.rpartition(".")[2] for handle in handles] == [JobTimeout.__name__] * 2


def test_a_time_out_counts_the_time_in_hooks_too(jobs, seen):
    never = threading.Event()

    @jobs.around
    def hook(ctx: JobContext) -> Iterator[None]:
        yield
        while not never.is_set():
            never.wait(0.01)

    @jobs.job(timeout=0.2)
    def work() -> None:
        seen.append("run")

    handle = work.enqueue()
    jobs.drain()

    assert seen == ["run"]
    assert handle.record().errors[0].kind.endswith("JobTimeout")


class TestAsync:
    @pytest.mark.promise("S51")
    def test_async_and_plain_hooks_keep_their_order_around_an_async_handler(self, jobs, seen):
        log(jobs, seen, "first")

        @jobs.around
        async def second(ctx: JobContext) -> AsyncIterator[None]:
            seen.append(f"in second {ctx.attempt}")
            await asyncio.sleep(0)
            yield
            await asyncio.sleep(0)
            seen.append("out second")

        log(jobs, seen, "third")

        @jobs.job
        async def work() -> str:
            seen.append("run")
            return "done"

        handle = work.enqueue()
        jobs.drain()

        assert seen == ["in first", "in second 1", "in third", "run", "out third", "out second", "out first"]
        assert handle.result() == "done"

    @pytest.mark.promise("S52")
    def test_an_async_hook_raises_sees_errors_and_is_told_when_it_yields_wrongly(self, jobs, seen):  # noqa: C901
        @jobs.around
        async def hook(ctx: JobContext) -> AsyncIterator[None]:
            match ctx.meta["case"]:
                case "never":
                    return
                case "twice":
                    yield
                    yield
                case "after":
                    yield
                    raise LookupError("the commit failed")
                case "sees":
                    try:
                        yield
                    except ValueError as error:
                        seen.append(str(error))
                        raise
                case "catches":
                    try:
                        yield
                    except ValueError:
                        await asyncio.sleep(0)

        @jobs.job
        async def work(fails: bool = False) -> None:
            if fails:
                raise ValueError("bad")

        def ran(case, *, fails=False):
            handle = work.using(meta={"case": case}).enqueue(fails=fails)
            jobs.drain()
            return handle.record()

        assert "without a yield" in ran("never").errors[0].message
        assert "yielded twice" in ran("twice").errors[0].message
        assert ran("after").errors[0].message == "the commit failed"
        assert ran("sees", fails=True).errors[0].kind == "ValueError"
        assert seen == ["bad"]
        assert ran("catches", fails=True).state == "completed"

    def test_an_async_hook_is_refused_where_a_plain_job_would_be_missed(self, jobs):
        @jobs.job
        def plain() -> None: ...

        async def hook(ctx: JobContext) -> AsyncIterator[None]:
            yield

        with pytest.raises(DefinitionError, match=r"'.*hook' is async and job 'plain' is not.*only='async'"):
            jobs.around(hook)

    def test_a_plain_job_is_refused_where_an_async_hook_would_miss_it(self, jobs):
        @jobs.around
        async def hook(ctx: JobContext) -> AsyncIterator[None]:
            yield

        with pytest.raises(DefinitionError, match=r"only='async'"):

            @jobs.job
            def plain() -> None: ...

        assert "plain" not in jobs.names

    def test_only_async_leaves_plain_jobs_alone(self, jobs, seen):
        @jobs.around(only="async")
        async def hook(ctx: JobContext) -> AsyncIterator[None]:
            seen.append(f"async around {ctx.job}")
            yield

        @jobs.around(only="async")
        def also(ctx: JobContext) -> Iterator[None]:
            seen.append(f"plain around {ctx.job}")
            yield

        @jobs.job
        def plain() -> None: ...

        @jobs.job
        async def awaited() -> None: ...

        plain.enqueue()
        awaited.enqueue()
        jobs.drain()

        assert seen == ["async around awaited", "plain around awaited"]


class TestRefusals:
    def test_what_is_no_generator_is_refused_with_the_fix(self, jobs):
        def hook(ctx: JobContext) -> None: ...

        with pytest.raises(DefinitionError, match="is no generator: write `yield` once"):
            jobs.around(hook)

    def test_a_context_manager_is_told_to_be_a_plain_generator(self, jobs):
        @contextmanager
        def hook(ctx: JobContext) -> Iterator[None]:
            yield

        with pytest.raises(DefinitionError, match="leave out @contextmanager"):
            jobs.around(hook)

    def test_a_hook_without_a_parameter_is_refused(self, jobs):
        def hook() -> Iterator[None]:
            yield

        with pytest.raises(DefinitionError, match=r"def hook\(ctx: JobContext\)"):
            jobs.around(hook)

    def test_only_has_one_value(self, jobs):
        with pytest.raises(OptionError, match="only='sync': the one value is 'async'"):
            jobs.around(only="sync")(lambda ctx: (yield))

    def test_options_are_keywords(self, jobs):
        with pytest.raises(OptionError, match="its option is a keyword"):
            jobs.around("async")
