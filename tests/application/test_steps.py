"""Steps, sleep and signals, as handlers and programs see them."""

import asyncio
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from onward import AsyncJobContext, JobContext, NoDelay, Onward
from onward.backend import Capabilities
from onward.errors import (
    ArgumentError,
    BackendUnavailable,
    DefinitionError,
    InvalidName,
    InvalidTime,
    JobNotFound,
    JobSuspended,
    LeaseLost,
    NotesFull,
    StepError,
    Unsupported,
)
from onward.telemetry import JobSnoozed
from onward.testing import FakeClock


@pytest.fixture
def calls():
    return []


@pytest.fixture
def effect(calls):
    def effect(value: Any = None) -> Any:
        calls.append(value)
        return value

    return effect


def failures(jobs, handle):
    return [(error.kind.rpartition(".")[2], error.message) for error in jobs.get(handle.id).errors]


class TestSteps:
    @pytest.mark.promise("S62")
    def test_a_noted_step_is_not_called_again_after_a_failure(self, jobs, calls, effect):
        @jobs.job(max_retries=2, retry=NoDelay())
        def work(ctx: JobContext) -> Any:
            first = ctx.step("first", effect, 1)
            second = ctx.step("second", effect, value=[first, ctx.attempt])
            if ctx.attempt < 3:
                raise ConnectionError
            return second

        handle = work.enqueue()
        jobs.drain()

        assert handle.result() == [1, 1]
        assert calls == [1, [1, 1]]

    @pytest.mark.promise("S62")
    def test_of_an_async_handler(self, jobs, calls, effect):
        async def slow_effect(value: int) -> int:
            await asyncio.sleep(0)
            return effect(value)

        @jobs.job(max_retries=1, retry=NoDelay())
        async def work(ctx: AsyncJobContext) -> Any:
            found = [await ctx.step("async", slow_effect, 1), await ctx.step("plain", effect, 2)]
            if ctx.attempt == 1:
                raise ConnectionError
            return found

        handle = work.enqueue()
        jobs.drain()

        assert handle.result() == [1, 2]
        assert calls == [1, 2]

    def test_steps_of_an_async_handler_may_run_beside_each_other(self, jobs, calls, effect):
        async def slow(value: int) -> int:
            await asyncio.sleep(0.001)
            return effect(value)

        @jobs.job(max_retries=1, retry=NoDelay())
        async def work(ctx: AsyncJobContext) -> Any:
            found = await asyncio.gather(*(ctx.step(f"part-{n}", slow, n) for n in range(5)))
            if ctx.attempt == 1:
                raise ConnectionError
            return found

        handle = work.enqueue()
        jobs.drain()

        assert handle.result() == [0, 1, 2, 3, 4]
        assert sorted(calls) == [0, 1, 2, 3, 4]

    def test_an_async_function_is_awaited_in_a_plain_handler(self, jobs, calls, effect):
        async def slow(value: int) -> int:
            return effect(value)

        @jobs.job
        def work(ctx: JobContext) -> int:
            return ctx.step("slow", slow, 3)

        handle = work.enqueue()
        jobs.drain()

        assert handle.result() == 3

    def test_an_async_function_is_awaited_in_a_plain_handler_although_a_loop_runs_in_this_thread(self, jobs):
        async def slow(value: int) -> int:
            await asyncio.sleep(0)
            return value

        @jobs.job
        def work(ctx: JobContext) -> int:
            return ctx.step("slow", slow, 3)

        async def main():
            handle = await work.aenqueue()
            jobs.drain()
            return handle

        assert asyncio.run(main()).result() == 3

    @pytest.mark.promise("S63")
    def test_a_crash_between_the_effect_and_its_note_calls_it_again_with_the_same_key(self, jobs, clock, calls):
        def pay(key: str) -> None:
            calls.append(key)
            if len(calls) == 1:  # for the others this process is dead
                clock.advance(31)
                jobs.reap()

        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.step("pay", pay, ctx.key("pay"))

        handle = work.enqueue()
        jobs.drain()

        assert calls == [f"{handle.id}/pay"] * 2
        assert handle.state() == "completed"

    @pytest.mark.promise("S64")
    def test_a_run_that_lost_its_lease_is_told_and_stores_nothing(self, jobs, clock, calls):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            def effect() -> None:
                clock.advance(31)
                jobs.reap()

            try:
                ctx.step("late", effect)
            except LeaseLost as error:
                calls.append((str(error), ctx.lost))
                raise

        handle = work.enqueue()
        jobs.process_once()

        ((told, lost),) = calls
        assert lost
        assert told.startswith(f"job {handle.id} is no longer this worker's")
        assert jobs.notes(handle.id) == []

    @pytest.mark.promise("S65")
    def test_a_step_that_raises_stores_nothing_and_the_run_fails_by_it(self, jobs, calls):
        def fails() -> None:
            calls.append(1)
            raise ValueError("no luck")

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            ctx.step("fails", fails)

        handle = work.enqueue()
        jobs.drain()

        assert calls == [1, 1]
        assert failures(jobs, handle) == [("ValueError", "no luck")] * 2
        assert jobs.notes(handle.id) == []

    @pytest.mark.parametrize("call", ["step", "sleep", "wait_for"])
    @pytest.mark.promise("S65")
    def test_a_step_inside_a_step_is_refused(self, jobs, call):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            calls = {
                "step": lambda: ctx.step("inner", int),
                "sleep": lambda: ctx.sleep("inner", 5),
                "wait_for": lambda: ctx.wait_for("inner", timeout=5),
            }
            ctx.step("outer", calls[call])

        handle = work.enqueue()
        jobs.drain()

        ((kind, message),) = failures(jobs, handle)
        assert kind == "StepError"
        assert message.startswith(f"ctx.{call}('inner') was called inside a step")

    def test_a_name_that_is_used_twice_is_refused_before_anything_happens(self, jobs, calls, effect):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            for page in range(2):
                ctx.step("page", effect, page)

        handle = work.enqueue()
        jobs.drain()

        assert calls == [0]
        ((kind, message),) = failures(jobs, handle)
        assert kind == "StepError"
        assert message == "ctx.step('page') was called twice in one run: in a loop, number the names: f'page-{n}'"

    def test_a_step_a_sleep_and_a_signal_may_have_one_name(self, jobs, clock):
        @jobs.job
        def work(ctx: JobContext) -> list[Any]:
            step = ctx.step("x", int)
            ctx.sleep("x", 5)
            return [step, ctx.wait_for("x", timeout=60)]

        handle = work.enqueue()
        jobs.drain()
        jobs.signal(handle.id, "x", "told")
        clock.advance(5)
        jobs.drain()

        assert handle.result() == [0, "told"]

    @pytest.mark.parametrize("name", ["", "=x", "~x", "!x", "a\nb", "x" * 201, "\ud800", 7, None])
    def test_a_name_that_no_store_could_keep_is_refused(self, jobs, name):
        errors = []

        @jobs.job
        def work(ctx: JobContext) -> None:
            for act in (lambda: ctx.step(name, int), lambda: ctx.sleep(name, 5), lambda: ctx.wait_for(name, timeout=5)):
                with pytest.raises(InvalidName) as caught:
                    act()
                errors.append(str(caught.value))

        handle = work.enqueue()
        jobs.drain()

        assert handle.state() == "completed", failures(jobs, handle)
        assert len(errors) == 3
        with pytest.raises(InvalidName):
            jobs.signal(handle.id, name)

    @pytest.mark.promise("S69")
    def test_a_job_without_a_context_of_its_own_may_be_given_one_by_hand_but_no_steps(self):
        ctx = JobContext(
            id="1", job="x", name="x", queue="q", attempt=1, max_retries=0, payload=b"{}", meta={}, delivery=1
        )

        with pytest.raises(StepError, match="made by hand"):
            ctx.step("x", int)
        assert ctx.key("x") == "1/x"


@dataclass
class Account:
    number: int
    opened: datetime


class TestValues:
    def test_a_result_is_read_as_the_type_that_the_function_says(self, jobs, clock):
        seen = []

        def open_account(number: int) -> Account:
            return Account(number, clock.now())

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            seen.append(ctx.step("open", open_account, 7))
            if ctx.attempt == 1:
                raise ConnectionError

        work.enqueue()
        jobs.drain()

        assert seen == [Account(7, clock.now())] * 2

    def test_the_first_run_gets_what_later_ones_get(self, jobs):
        """Not a tuple now and a list after a failure."""
        seen = []

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            seen.append(ctx.step("pair", lambda: (1, 2)))
            if ctx.attempt == 1:
                raise ConnectionError

        work.enqueue()
        jobs.drain()

        assert seen == [[1, 2], [1, 2]]

    @pytest.mark.parametrize("function", [int, len, print, dict, str.upper, lambda *_: None])
    def test_anything_that_can_be_called_may_be_a_step(self, jobs, function):
        args = {len: ("abc",), str.upper: ("a",)}.get(function, ())

        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> Any:
            return ctx.step("call", function, *args)

        handle = work.enqueue()
        jobs.drain()

        assert handle.result() == function(*args)

    def test_what_has_no_json_form_fails_the_run_and_says_so(self, jobs):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            ctx.step("lock", threading.Lock)

        handle = work.enqueue()
        jobs.drain()

        ((kind, message),) = failures(jobs, handle)
        assert kind == "StepError"
        assert message.startswith("the result of step 'lock' cannot be noted")
        assert jobs.notes(handle.id) == []

    @pytest.mark.parametrize(("size", "fits"), [(64 * 1024 - 2, True), (64 * 1024 - 1, False)])
    def test_a_value_has_at_most_64_kib(self, jobs, size, fits):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> int:
            return len(ctx.step("big", lambda: "x" * size))

        handle = work.enqueue()
        jobs.drain()

        assert handle.state() == ("completed" if fits else "discarded")
        if fits:
            assert jobs.signal(work.enqueue().id, "big", "x" * size)
        else:
            assert failures(jobs, handle)[0][0] == "NotesFull"
            with pytest.raises(NotesFull, match="keep it elsewhere"):
                jobs.signal(work.enqueue().id, "big", "x" * size)

    def test_a_job_has_at_most_a_thousand_notes(self, jobs):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            for number in range(1001):
                ctx.step(f"n-{number}", int)

        handle = work.enqueue()
        jobs.drain()

        ((kind, message),) = failures(jobs, handle)
        assert kind == "NotesFull"
        assert "1,000 notes" in message
        assert len(jobs.notes(handle.id)) == 1000

    def test_a_step_that_could_not_be_noted_is_not_called(self, jobs, calls, effect):
        @jobs.job(max_retries=2, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            for number in range(1001):
                ctx.step(f"n-{number}", effect, number)

        handle = work.enqueue()
        jobs.drain()

        assert [kind for kind, _ in failures(jobs, handle)] == ["NotesFull"] * 3
        assert calls == list(range(1000))

    @pytest.mark.parametrize("call", ["sleep", "wait_for"])
    def test_sleeps_and_waits_count_as_notes(self, jobs, call):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            for number in range(1000):
                ctx.step(f"n-{number}", int)
            ctx.sleep("nap", 60) if call == "sleep" else ctx.wait_for("go", timeout=60)

        handle = work.enqueue()
        jobs.drain()

        assert [kind for kind, _ in failures(jobs, handle)] == ["NotesFull"]
        assert len(jobs.notes(handle.id)) == 1000

    def test_a_job_has_at_most_4_mib_of_notes_counted_over_its_runs_and_signals(self, jobs):
        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            for number in range(40 * ctx.attempt):
                ctx.step(f"n-{number}", lambda: "x" * 65_000)
            raise ConnectionError

        handle = work.enqueue()
        jobs.drain()
        assert [kind for kind, _ in failures(jobs, handle)] == ["ConnectionError", "NotesFull"]
        jobs.retry(handle.id)

        with pytest.raises(NotesFull, match="as many notes as it may have"):
            jobs.signal(handle.id, "go", "x" * 65_000)
        assert jobs.signal(handle.id, "go", "x") is True


class TestSleep:
    @pytest.mark.promise("S66")
    def test_it_holds_no_worker_and_goes_on_once_it_is_over(self, jobs, clock, calls, effect):
        @jobs.job
        def work(ctx: JobContext) -> int:
            ctx.step("before", effect, "before")
            ctx.sleep("nap", "1h")
            ctx.step("after", effect, "after")
            return ctx.attempt

        handle = work.enqueue()
        jobs.drain()
        assert jobs.get(handle.id).state == "scheduled"
        assert jobs.get(handle.id).available_at == clock.now() + timedelta(hours=1)
        assert jobs.backend.sessions()[0].leases == 0
        clock.advance(3599)
        jobs.drain()
        assert calls == ["before"]
        clock.advance(1)
        jobs.drain()

        assert calls == ["before", "after"]
        assert handle.result() == 1  # it burned no attempt

    @pytest.mark.promise("S66")
    def test_a_sleep_that_is_over_is_over_in_later_runs(self, jobs, clock):
        runs = []

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            ctx.sleep("nap", 60)
            runs.append(clock.now())
            if ctx.attempt == 1:
                raise ConnectionError

        work.enqueue()
        jobs.drain()
        clock.advance(60)
        jobs.drain()

        assert runs == [clock.now()] * 2

    @pytest.mark.promise("S66", "S68")
    def test_a_job_that_is_run_now_sleeps_on_until_the_same_moment(self, jobs, clock):
        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.sleep("nap", 60)

        handle = work.enqueue()
        jobs.drain()
        ends = jobs.get(handle.id).available_at
        clock.advance(20)
        assert jobs.retry(handle.id)
        jobs.drain()

        assert jobs.get(handle.id).available_at == ends

    @pytest.mark.promise("S66")
    @pytest.mark.parametrize("off", [-3600, 3600])
    def test_it_goes_by_the_clock_of_the_store(self, jobs, clock, off):
        """A worker whose clock is an hour off neither shortens nor lengthens it."""
        runner = jobs._parts.engine.runner
        runner._runtime = replace(runner._runtime, clock=FakeClock(clock.now() + timedelta(seconds=off)))

        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.sleep("nap", 60)
            ctx.wait_for("nothing", timeout=60)

        handle = work.enqueue()
        for _ in range(2):
            jobs.drain()
            assert jobs.get(handle.id).available_at == clock.now() + timedelta(seconds=60)
            clock.advance(60)
        jobs.drain()
        assert handle.state() == "completed"

    @pytest.mark.promise("S66")
    def test_a_clock_of_the_worker_that_is_set_back_in_a_run_does_not_lengthen_it(self, jobs, clock):
        runner, own = jobs._parts.engine.runner, FakeClock(clock.now())
        runner._runtime = replace(runner._runtime, clock=own)

        @jobs.job
        def work(ctx: JobContext) -> int:
            if ctx.delivery == 2:
                own.advance(-3600)
            ctx.sleep("nap", 60)
            return ctx.delivery

        handle = work.enqueue()
        jobs.drain()
        clock.advance(60)
        jobs.drain()

        assert handle.result(timeout=0) == 2

    def test_it_lasts_a_second_at_least(self, jobs, clock):
        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.sleep("blink", 0)

        handle = work.enqueue()
        jobs.drain()
        assert jobs.get(handle.id).available_at == clock.now() + timedelta(seconds=1)
        clock.advance(1)
        jobs.drain()
        assert handle.state() == "completed"

    @pytest.mark.promise("S68")
    def test_a_sleeping_job_is_cancelled_at_once(self, jobs):
        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.sleep("nap", 60)

        handle = work.enqueue()
        jobs.drain()

        assert jobs.cancel(handle.id) == "cancelled"
        assert handle.state() == "cancelled"

    def test_it_is_told_as_a_snooze(self, jobs, listen):
        heard = listen(jobs)

        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.sleep("nap", 60)

        work.enqueue()

        assert jobs.process_once().status == "snoozed"
        assert len(heard(JobSnoozed)) == 1

    @pytest.mark.promise("S70")
    @pytest.mark.parametrize("wrong", [(60,), ("nap",), ("nap", None)])
    def test_a_sleep_without_a_name_or_a_length_is_refused(self, jobs, wrong):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            ctx.sleep(*wrong)

        handle = work.enqueue()
        jobs.drain()

        ((kind, message),) = failures(jobs, handle)
        assert kind == "OptionError"
        assert "raise Snooze" in message

    @pytest.mark.parametrize("length", ["soon", -1, "200000d", datetime.now])
    def test_a_length_that_cannot_be_read_is_refused(self, jobs, length):
        @jobs.job
        def work(ctx: JobContext) -> None:
            with pytest.raises(InvalidTime):
                ctx.sleep("nap", length)
            with pytest.raises(InvalidTime):
                ctx.wait_for("nap", timeout=length)

        handle = work.enqueue()
        jobs.drain()
        assert handle.state() == "completed", failures(jobs, handle)

    def test_of_an_async_handler(self, jobs, clock):
        @jobs.job
        async def work(ctx: AsyncJobContext) -> str:
            await ctx.sleep("nap", 60)
            return "awake"

        handle = work.enqueue()
        jobs.drain()
        assert jobs.get(handle.id).state == "scheduled"
        clock.advance(60)
        jobs.drain()

        assert handle.result() == "awake"


class TestSuspension:
    def test_except_exception_does_not_catch_it_and_finally_runs(self, jobs, calls):
        @jobs.job
        def work(ctx: JobContext) -> None:
            try:
                ctx.sleep("nap", 60)
            except Exception:  # noqa: BLE001  as handlers do
                calls.append("caught")
            finally:
                calls.append("finally")

        handle = work.enqueue()
        jobs.drain()

        assert calls == ["finally"]
        assert handle.state() == "scheduled"

    def test_a_handler_that_catches_it_and_goes_on_has_failed(self, jobs):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> str:
            try:
                ctx.sleep("nap", 60)
            except BaseException:  # noqa: BLE001  as handlers should not
                return "never mind"

        handle = work.enqueue()
        jobs.drain()

        ((kind, message),) = failures(jobs, handle)
        assert kind == "StepError"
        assert "catch Exception instead of BaseException" in message

    def test_a_handler_that_raises_something_else_has_failed_by_that(self, jobs):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            try:
                ctx.sleep("nap", 60)
            finally:
                raise ValueError("tidying up")

        handle = work.enqueue()
        jobs.drain()

        assert failures(jobs, handle) == [("ValueError", "tidying up")]

    @pytest.mark.parametrize("call", ["step", "sleep", "wait_for"])
    def test_a_call_that_is_not_awaited_fails_the_run(self, jobs, call):
        @jobs.job(max_retries=0)
        async def work(ctx: AsyncJobContext) -> None:
            coroutine = {
                "step": lambda: ctx.step("x", int),
                "sleep": lambda: ctx.sleep("x", 5),
                "wait_for": lambda: ctx.wait_for("x", timeout=5),
            }[call]()
            coroutine.close()  # which keeps Python from warning

        handle = work.enqueue()
        jobs.drain()

        message = f"ctx.{call}('x') was called and not awaited: write `await` before it"
        assert failures(jobs, handle) == [("StepError", message)]

    def test_in_a_task_group_it_ends_the_run_as_well(self, jobs, clock):
        @jobs.job(max_retries=0)
        async def work(ctx: AsyncJobContext) -> int:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.sleep("nap", 60))
                step = group.create_task(ctx.step("step", int))
            return step.result()

        handle = work.enqueue()
        jobs.drain()
        assert handle.state() == "scheduled", failures(jobs, handle)
        clock.advance(60)
        jobs.drain()
        assert handle.result() == 0

    def test_a_task_group_with_another_error_has_failed_by_it(self, jobs):
        async def fail() -> None:
            raise ValueError("no luck")

        @jobs.job(max_retries=0)
        async def work(ctx: AsyncJobContext) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.sleep("nap", 60))
                group.create_task(fail())

        handle = work.enqueue()
        jobs.drain()

        ((kind, _),) = failures(jobs, handle)
        assert kind == "BaseExceptionGroup"

    @pytest.mark.promise("S62")
    @pytest.mark.parametrize("first", ["step", "sleep", "wait_for"])
    def test_a_run_is_suspended_when_the_steps_beside_it_have_ended(self, jobs, clock, calls, first):
        async def slow() -> None:
            calls.append("began")
            await asyncio.sleep(0.02)
            calls.append("ended")

        @jobs.job
        async def work(ctx: AsyncJobContext) -> None:
            suspending = ctx.wait_for("go", timeout=60) if first == "wait_for" else ctx.sleep("nap", 60)
            beside = [ctx.step("slow", slow), suspending]
            await asyncio.gather(*(beside if first == "step" else reversed(beside)))

        handle = work.enqueue()
        jobs.drain()
        assert calls == ["began", "ended"] or (first != "step" and calls == [])  # a suspended run begins none
        clock.advance(60)
        jobs.drain()

        assert handle.state() == "completed"
        assert calls == ["began", "ended"]

    def test_a_suspended_run_calls_no_further_step(self, jobs, clock, calls, effect):
        @jobs.job
        def work(ctx: JobContext) -> None:
            try:
                ctx.sleep("nap", 60)
            finally:
                ctx.step("tidy", effect, ctx.delivery)

        handle = work.enqueue()
        jobs.drain()
        assert (handle.state(), calls) == ("scheduled", [])
        clock.advance(60)
        jobs.drain()

        assert (handle.state(), calls) == ("completed", [2])

    def test_a_hook_around_it_sees_it_pass(self, jobs, calls):
        @jobs.around
        def watch(ctx: JobContext):
            try:
                yield
            except JobSuspended as error:
                calls.append((error.delay, error.awaits))
                raise

        @jobs.job
        def work(ctx: JobContext) -> None:
            ctx.wait_for("go", timeout=60)

        work.enqueue()
        jobs.drain()

        assert calls == [(60.0, "go")]

    def test_a_plain_function_cannot_ask_for_the_async_context(self, jobs):
        with pytest.raises(DefinitionError, match="make it an `async def`"):

            @jobs.job
            def work(ctx: AsyncJobContext) -> None: ...


class TestSignals:
    @pytest.fixture
    def waiting(self, jobs):
        @jobs.job(max_retries=1, retry=NoDelay())
        def waiting(ctx: JobContext, timeout: int = 60) -> Any:
            return ctx.wait_for("go", timeout=timeout)

        return waiting

    @pytest.mark.promise("S67")
    def test_a_job_that_waits_is_told_and_goes_on(self, jobs, waiting):
        handle = waiting.enqueue()
        jobs.drain()
        assert jobs.get(handle.id).waiting_for == "go"

        assert jobs.signal(handle.id, "go", {"by": "Ann"}) is True
        assert jobs.get(handle.id).waiting_for is None
        jobs.drain()

        assert handle.result() == {"by": "Ann"}

    @pytest.mark.promise("S67")
    def test_a_signal_that_came_first_is_heard_without_a_wait(self, jobs, waiting):
        handle = waiting.enqueue()
        assert jobs.signal(handle.id, "go", 1)
        jobs.drain()

        assert handle.result() == 1
        assert jobs.get(handle.id).delivery == 1

    @pytest.mark.promise("S67")
    def test_none_if_none_came_in_time_and_a_late_one_changes_nothing(self, jobs, clock):
        heard = []

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> None:
            heard.append(ctx.wait_for("go", timeout=60))
            if ctx.attempt == 1:
                jobs.signal(ctx.id, "go", "too late")
                raise ConnectionError

        work.enqueue()
        jobs.drain()
        clock.advance(60)
        jobs.drain()

        assert heard == [None, None]

    @pytest.mark.promise("S67")
    def test_one_that_was_heard_stays_heard_when_another_replaces_it_after_the_time(self, jobs, clock):
        heard = []

        @jobs.job
        def work(ctx: JobContext) -> None:
            heard.append(ctx.wait_for("go", timeout=60))
            ctx.sleep("nap", "1h")

        handle = work.enqueue()
        jobs.drain()
        jobs.signal(handle.id, "go", "first")
        jobs.drain()
        clock.advance(1800)
        jobs.signal(handle.id, "go", "second", again=True)
        clock.advance(1800)
        jobs.drain()

        assert heard == ["first", "second"]

    @pytest.mark.promise("S67")
    def test_one_that_came_in_time_is_heard_although_the_job_runs_later(self, jobs, clock, waiting):
        handle = waiting.enqueue()
        jobs.drain()
        clock.advance(59)
        jobs.signal(handle.id, "go", "just in time")
        clock.advance(3600)
        jobs.drain()

        assert handle.result() == "just in time"

    @pytest.mark.promise("S67")
    def test_the_first_value_stays_unless_again_is_said(self, jobs, waiting):
        handle = waiting.enqueue()

        assert jobs.signal(handle.id, "go", 1) is True
        assert jobs.signal(handle.id, "go", 2) is False
        assert jobs.signal(handle.id, "go", 3, again=True) is True
        jobs.drain()
        assert handle.result() == 3

    @pytest.mark.promise("S67")
    def test_one_that_comes_between_the_look_and_the_snooze_wakes_it(self, open_app_on):
        between = []

        class Between:
            def notes(self, job_id):
                found = super().notes(job_id)
                if between:
                    between.pop()()
                return found

        jobs = open_app_on(Between)

        @jobs.job
        def work(ctx: JobContext) -> Any:
            return ctx.wait_for("go", timeout=60)

        handle = work.enqueue()
        between.append(lambda: jobs.signal(handle.id, "go", "in between"))
        jobs.drain()

        assert handle.result() == "in between"

    @pytest.mark.promise("S68")
    def test_a_job_that_is_run_now_waits_again_until_the_same_moment(self, jobs, clock, waiting):
        handle = waiting.enqueue()
        jobs.drain()
        ends = jobs.get(handle.id).available_at
        clock.advance(20)
        jobs.retry(handle.id)
        jobs.drain()

        record = jobs.get(handle.id)
        assert (record.waiting_for, record.available_at) == ("go", ends)
        assert jobs.signal(handle.id, "go", 1)

    def test_a_job_that_is_over_is_told_nothing(self, jobs, waiting):
        handle = waiting.enqueue()
        jobs.cancel(handle.id)

        assert jobs.signal(handle.id, "go", 1) is False

    def test_no_job_at_all_is_an_error(self, jobs):
        with pytest.raises(JobNotFound, match="there is no job"):
            jobs.signal("00000000000000000000000000000000", "go")

    def test_a_value_without_a_json_form_is_refused(self, jobs, waiting):
        with pytest.raises(ArgumentError, match="has no JSON form"):
            jobs.signal(waiting.enqueue().id, "go", threading.Lock())

    def test_without_blocking_the_event_loop(self, jobs, waiting):
        handle = waiting.enqueue()

        assert asyncio.run(jobs.asignal(handle.id, "go", 5)) is True
        jobs.drain()
        assert handle.result() == 5

    def test_a_value_is_read_as_the_type_that_the_handler_says(self, jobs):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            account = ctx.wait_for("account", timeout=60, returns=Account)
            assert account is not None
            assert account.number == 7

        right, wrong = work.enqueue(), work.enqueue()
        jobs.signal(right.id, "account", {"number": 7, "opened": "2026-01-01T00:00:00Z"})
        jobs.signal(wrong.id, "account", {"number": "seven"})
        jobs.drain()

        assert right.state() == "completed"
        ((kind, message),) = failures(jobs, wrong)
        assert kind == "StepError"
        assert message.startswith("the signal 'account' does not bring what `returns` says")

    def test_of_an_async_handler(self, jobs):
        @jobs.job
        async def work(ctx: AsyncJobContext) -> bool | None:
            return await ctx.wait_for("go", timeout=60, returns=bool)

        handle = work.enqueue()
        jobs.drain()
        jobs.signal(handle.id, "go", True)
        jobs.drain()

        assert handle.result() is True


class TestReplays:
    def _discarded(self, jobs, effect):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            ctx.step("once", effect)
            raise ConnectionError

        handle = work.enqueue()
        jobs.drain()
        return handle

    @pytest.mark.promise("S62")
    def test_a_replayed_job_keeps_its_notes(self, jobs, calls, effect):
        handle = self._discarded(jobs, effect)
        jobs.retry(handle.id)
        jobs.drain()

        assert len(calls) == 1

    def test_a_fresh_start_has_none(self, jobs, calls, effect):
        handle = self._discarded(jobs, effect)
        jobs.dead_letters.replay([handle.id], fresh=True)
        jobs.drain()

        assert len(calls) == 2


class TestTransactions:
    @pytest.fixture
    def store(self):
        return "sqlite"

    @pytest.mark.parametrize("call", ["step", "sleep", "wait_for"])
    def test_a_step_in_the_transaction_that_completes_the_job_is_refused(self, jobs, call):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext) -> None:
            ctx.step("before", int)
            with ctx.transaction():
                {
                    "step": lambda: ctx.step("x", int),
                    "sleep": lambda: ctx.sleep("x", 5),
                    "wait_for": lambda: ctx.wait_for("x", timeout=5),
                }[call]()

        handle = work.enqueue()
        jobs.drain()

        ((kind, message),) = failures(jobs, handle)
        assert kind == "StepError"
        assert message.startswith(f"ctx.{call}('x') in ctx.transaction()")

    def test_steps_go_before_it(self, jobs):
        @jobs.job
        def work(ctx: JobContext) -> None:
            value = ctx.step("before", int)
            with ctx.transaction() as conn:
                conn.complete(value)

        handle = work.enqueue()
        jobs.drain()
        assert handle.result() == 0

    def test_after_a_block_that_was_rolled_back_steps_go_on(self, jobs):
        @jobs.job
        def work(ctx: JobContext) -> int:
            with pytest.raises(ZeroDivisionError), ctx.transaction():
                raise ZeroDivisionError
            return ctx.step("after", int)

        handle = work.enqueue()
        jobs.drain()
        assert handle.result() == 0


class TestOutages:
    def test_a_note_is_tried_again_while_the_store_is_away(self, open_app_on, calls, effect):
        lost = [BackendUnavailable("away")] * 3

        class Away:
            def note(self, lease, name, value):
                noted = super().note(lease, name, value)
                if lost:
                    raise lost.pop()
                return noted

        jobs = open_app_on(Away)

        @jobs.job
        def work(ctx: JobContext) -> Any:
            return ctx.step("once", effect, 1)

        handle = work.enqueue()
        jobs.drain()

        assert handle.result() == 1
        assert calls == [1]
        assert lost == []


@pytest.mark.promise("S70")
def test_a_store_without_notes_refuses_at_the_first_call(open_app_on, calls, effect):
    class NoNotes:
        capabilities = Capabilities(notes=False)

    jobs = open_app_on(NoNotes)

    @jobs.job(max_retries=0)
    def work(ctx: JobContext) -> None:
        ctx.step("x", effect)

    handle = work.enqueue()
    jobs.drain()

    assert calls == []
    ((kind, message),) = failures(jobs, handle)
    assert kind == "Unsupported"
    assert "ONWARD_STORE" in message
    with pytest.raises(Unsupported):
        jobs.signal(handle.id, "go")


def test_steps_on_sync(calls, effect):
    with Onward("sync://") as jobs:

        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext) -> Any:
            ctx.step("once", effect, 1)
            if ctx.attempt == 1:
                raise ConnectionError
            ctx.sleep("nap", "1d")
            return ctx.wait_for("nobody", timeout="1d")

        handle = work.enqueue()

        assert handle.result() is None
        assert calls == [1]
