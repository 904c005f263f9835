"""Handlers with and without the bug that only an accident shows."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from onward import AsyncJobContext, Discard, JobContext, NoDelay, Onward, OptionError, Retry, Snooze, State
from onward.testing import Crash, Effects, FakeClock, simulate


class Bank:
    def __init__(self):
        self.charges = []
        self._keys = set()

    def charge(self, order, key=None):
        if key is None or key not in self._keys:
            self.charges.append(order)
            self._keys.add(key)


class Shop:
    """The world of these tests: a bank, and orders that are paid."""

    def __init__(self):
        self.reset()
        self.effects = Effects()
        self.pay = self.effects.wrap(lambda order, key=None: self.bank.charge(order, key), name="pay")
        self.save = self.effects.wrap(lambda order: self.saved.append(order), name="save")  # noqa: PLW0108  of today

    def reset(self):
        self.bank, self.saved, self.log = Bank(), [], []

    def simulate(self, job, *args, **options):
        defaults = {
            "effects": self.effects,
            "reset": self.reset,
            "observe": lambda: (self.bank.charges, set(self.saved)),
        }
        return simulate(job, *args, **{**defaults, **options})


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def jobs():
    with Onward("memory://", clock=FakeClock()) as jobs:
        yield jobs


@pytest.fixture
def shop():
    return Shop()


@pytest.fixture
def careless(jobs, shop):
    """It looks before it pays, and yet a crash between paying and saving makes it pay twice."""

    @jobs.job
    def careless(order: int):
        if order not in shop.saved:
            shop.pay(order)
            shop.save(order)

    return careless


@pytest.fixture
def careful(jobs, shop):
    @jobs.job
    def careful(order: int):
        if order not in shop.saved:
            shop.pay(order, key=f"order:{order}")
            shop.save(order)

    return careful


def titles(simulation):
    return [(scenario.title, scenario.passed) for scenario in simulation.scenarios]


class TestTheVerdict:
    def test_a_bug_between_two_effects_is_found(self, shop, careless):
        simulation = shop.simulate(careless, 42)

        assert titles(simulation) == [
            ("undisturbed", True),
            ("crash right after effect 1, pay(42)", False),
            ("crash right after effect 2, save(42)", True),
            ("duplicate delivery", True),
        ]
        assert not simulation.passed

    def test_a_mended_handler_passes(self, shop, careful):
        simulation = shop.simulate(careful, 42)

        assert simulation.passed
        assert len(simulation.scenarios) == 4
        simulation.assert_idempotent()

    def test_the_message_tells_the_first_accident_and_what_happened(self, shop, careless):
        with pytest.raises(AssertionError) as caught:
            shop.simulate(careless, 42).assert_idempotent()

        assert str(caught.value).splitlines() == [
            (
                "careless is not idempotent: after a crash right after effect 1, pay(42), the job ran again and "
                "the world is not as after an undisturbed run: ([42, 42], {42}) instead of ([42], {42})"
            ),
            "    run 1: pay(42)",
            "    run 1: (crash)",
            "    run 2: pay(42)",
            "    run 2: save(42)",
        ]

    def test_a_check_may_say_what_is_wrong(self, shop, careless):
        def check():
            if shop.bank.charges != [42]:
                raise ValueError("charged twice")

        simulation = shop.simulate(careless, 42, observe=None, check=check)

        with pytest.raises(AssertionError, match="ran again and check failed: ValueError: charged twice") as caught:
            simulation.assert_idempotent()
        assert caught.value.__cause__ is simulation.failures[0].error

    def test_a_duplicate_delivery_is_found_even_where_no_effect_is_recorded(self, jobs, shop):
        @jobs.job
        def work():
            shop.log.append("done")

        simulation = shop.simulate(work, effects=None, observe=lambda: shop.log)

        assert titles(simulation) == [("undisturbed", True), ("duplicate delivery", False)]
        with pytest.raises(AssertionError, match="delivered again after it had succeeded, the world"):
            simulation.assert_idempotent()

    def test_several_failures_are_counted(self, jobs, shop):
        @jobs.job
        def work():
            shop.pay(1)
            shop.pay(2)

        with pytest.raises(AssertionError, match="3 of 4 scenarios failed"):
            shop.simulate(work).assert_idempotent()

    def test_printed_it_is_one_line_for_each_scenario(self, shop, careless):
        assert str(shop.simulate(careless, 42)).splitlines() == [
            "ok     undisturbed",
            "FAILED crash right after effect 1, pay(42)",
            "ok     crash right after effect 2, save(42)",
            "ok     duplicate delivery",
        ]

    def test_a_handler_that_cannot_run_twice_fails(self, jobs, shop):
        @jobs.job
        def work():
            if shop.saved:
                raise KeyError("already there")
            shop.save(1)

        simulation = shop.simulate(work)

        assert [scenario.state for scenario in simulation.scenarios] == ["completed", "discarded", "discarded"]
        with pytest.raises(AssertionError, match="ran again and it ended discarded: KeyError: 'already there'"):
            simulation.assert_idempotent()

    def test_a_job_that_no_crash_brings_back_is_told_as_that(self, jobs, shop):
        @jobs.job(max_crashes=1)
        def work():
            shop.save(1)

        with pytest.raises(AssertionError, match="did not run again and it ended discarded: crashed 1 time"):
            shop.simulate(work).assert_idempotent()


class TestVerdictsThatWouldProveNothing:
    def test_a_handler_that_fails_by_itself_is_not_disturbed_further(self, jobs, shop):
        @jobs.job
        def work():
            raise ValueError("no such order")

        simulation = shop.simulate(work)

        assert len(simulation.scenarios) == 1
        with pytest.raises(
            AssertionError, match=r"fails even without an accident: .* discarded: ValueError: no such order"
        ):
            simulation.assert_idempotent()

    def test_a_check_that_fails_by_itself_is_told(self, shop, careful):
        simulation = shop.simulate(careful, 42, check=lambda: 1 / 0)

        with pytest.raises(AssertionError, match=r"fails even without an accident: .* ZeroDivisionError"):
            simulation.assert_idempotent()

    def test_effects_that_record_nothing_are_a_failure(self, jobs, shop):
        @jobs.job
        def work():
            shop.bank.charge(42)

        with pytest.raises(AssertionError, match="no effect was recorded"):
            shop.simulate(work).assert_idempotent()

    def test_a_world_that_is_not_reset_is_a_failure(self, shop, careless):
        with pytest.raises(AssertionError, match="effect 1 never came: does reset prepare"):
            shop.simulate(careless, 42, reset=None).assert_idempotent()

    def test_a_job_that_never_ends_is_a_failure(self, jobs, shop):
        @jobs.job
        def work():
            shop.save(1)
            return Snooze(60)

        with pytest.raises(AssertionError, match="had not ended after 100 deliveries"):
            shop.simulate(work).assert_idempotent()

    def test_something_must_be_looked_at_afterwards(self, shop, careful):
        with pytest.raises(OptionError, match="check or observe"):
            simulate(careful, 42, effects=shop.effects)

    def test_a_world_that_is_observed_as_itself_is_compared_all_the_same(self, jobs, shop):
        charges = []

        @jobs.job
        def work():
            shop.effects.record("charged")
            charges.append(1)
            shop.effects.record("told")

        simulation = shop.simulate(work, reset=charges.clear, observe=lambda: charges)

        assert [scenario.passed for scenario in simulation.scenarios] == [True, True, False, False]

    def test_only_a_job_can_be_simulated(self, shop):
        with pytest.raises(OptionError, match=r"@jobs\.job"):
            shop.simulate(print)


class TestTheAccident:
    def test_a_crash_is_one_to_the_store_and_burns_no_attempt(self, jobs, shop):
        @jobs.job(max_retries=0)
        def work(ctx: JobContext):
            shop.log.append((ctx.attempt, ctx.delivery))
            shop.save(1)

        simulation = shop.simulate(work, observe=None, check=lambda: shop.log.append("end"))

        assert simulation.passed
        assert shop.log == [(1, 1), (1, 2), "end"]  # of the duplicate delivery, the last to be played
        assert [scenario.runs for scenario in simulation.scenarios] == [1, 2, 2]

    def test_nothing_that_a_handler_tries_after_the_crash_happens(self, jobs, shop):
        @jobs.job
        def work():
            try:
                shop.save(1)
            except BaseException:  # noqa: BLE001  as careless handlers do
                shop.save(2)
            finally:
                shop.save(3)

        simulation = shop.simulate(work)
        crashed = simulation.scenarios[1]

        assert [(effect.run, str(effect)) for effect in crashed.effects] == [
            (1, "save(1)"),
            (2, "save(1)"),
            (2, "save(3)"),
        ]

    def test_a_handler_that_swallows_the_crash_is_delivered_again(self, jobs, shop):
        @jobs.job
        def work():
            try:
                shop.save(1)
            except BaseException:  # noqa: BLE001  as careless handlers do
                return

        crashed = shop.simulate(work).scenarios[1]

        assert (crashed.runs, crashed.state) == (2, State.COMPLETED)

    def test_no_handler_catches_it_by_accident(self):
        assert not issubclass(Crash, Exception)

    def test_retries_and_snoozes_go_on_without_waiting(self, jobs, shop):
        @jobs.job(max_retries=2)
        def work(ctx: JobContext):
            if ctx.delivery == 1:
                raise Snooze("1h")
            if ctx.attempt == 1:
                raise Retry("2h")
            shop.save(1)

        simulation = shop.simulate(work)

        assert simulation.passed
        assert [scenario.runs for scenario in simulation.scenarios] == [3, 4, 4]

    def test_effects_before_a_retry_are_crashed_after_too(self, jobs, shop):
        @jobs.job(max_retries=1, retry=NoDelay())
        def work(ctx: JobContext):
            shop.save(ctx.attempt)
            if ctx.attempt == 1:
                raise ConnectionError

        simulation = shop.simulate(work, observe=lambda: set(shop.saved))

        assert [str(scenario.crashed_after) for scenario in simulation.scenarios[1:-1]] == ["save(1)", "save(2)"]
        assert simulation.passed

    def test_only_a_success_is_lost_in_a_duplicate_delivery(self, jobs, shop):
        @jobs.job
        def work(ctx: JobContext):
            if ctx.delivery == 1:
                return Snooze(60)
            shop.log.append(ctx.delivery)
            return None

        simulation = shop.simulate(work, effects=None, observe=lambda: None)

        assert [scenario.runs for scenario in simulation.scenarios] == [2, 3]
        assert shop.log == [2, 3]

    def test_a_handler_that_gives_up_is_not_taken_for_done(self, jobs, shop):
        @jobs.job
        def work():
            return Discard("not mine")

        assert not shop.simulate(work, effects=None).passed

    def test_the_application_of_the_job_is_not_touched(self, jobs, shop, careful):
        shop.simulate(careful, 42)

        assert sum(jobs.counts().values()) == 0

    def test_the_log_has_no_line_of_it(self, shop, careless, caplog):
        shop.simulate(careless, 42)

        assert caplog.records == []

    def test_options_of_the_call_count(self, jobs, shop):
        @jobs.job
        def work(ctx: JobContext):
            shop.log.append((ctx.queue, ctx.meta, ctx.max_retries))
            shop.save(1)

        shop.simulate(work, using={"queue": "mail", "meta": {"a": 1}, "max_retries": 3, "delay": "1h"})

        assert shop.log[0] == ("mail", {"a": 1}, 3)

    def test_options_of_the_definition_count(self, jobs, shop):
        @jobs.job(name="shop.work", queue="mail", max_retries=3, meta={"a": 1}, expires="1d", max_crashes=9)
        def work(ctx: JobContext):
            shop.log.append((ctx.job, ctx.queue, ctx.meta, ctx.max_retries))
            shop.save(1)

        simulation = shop.simulate(work)

        assert (simulation.job, simulation.passed) == ("shop.work", True)
        assert shop.log[0] == ("shop.work", "mail", {"a": 1}, 3)

    def test_an_option_that_is_also_a_parameter_goes_through_call(self, jobs, shop):
        @jobs.job
        def work(check: int, *, reset: int):
            shop.log.append((check, reset))
            shop.save(1)

        with pytest.raises(OptionError, match="is an option here and a parameter of work"):
            shop.simulate(work, 1)

        assert shop.simulate(work, work.call(1, reset=2)).passed
        assert shop.log[0] == (1, 2)


class TestAsyncHandlers:
    def test_a_bug_is_found_and_a_mended_handler_passes(self, jobs, shop):
        async def pay(order, key=None):
            await asyncio.sleep(0)
            shop.bank.charge(order, key)

        apay = shop.effects.wrap(pay)

        @jobs.job
        async def careless(order: int):
            await apay(order)
            shop.save(order)

        @jobs.job
        async def careful(order: int):
            await apay(order, key="k")
            shop.save(order)

        assert asyncio.iscoroutinefunction(apay)
        assert titles(shop.simulate(careless, 42)) == [
            ("undisturbed", True),
            ("crash right after effect 1, pay(42)", False),
            ("crash right after effect 2, save(42)", False),
            ("duplicate delivery", False),
        ]
        assert shop.simulate(careful, 42).passed

    def test_what_the_handler_started_dies_with_it(self, jobs, shop):
        @jobs.job
        async def work():
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.to_thread(shop.save, 1))
                await asyncio.sleep(0)

        simulation = shop.simulate(work)

        assert simulation.passed
        assert [effect.run for effect in simulation.scenarios[1].effects] == [1, 2]

    def test_a_task_that_outlives_its_crashed_run_does_nothing_in_the_next(self, jobs, shop):
        stray = []

        @jobs.job
        async def work(ctx: JobContext):
            begun = asyncio.Event()

            async def later():
                await begun.wait()
                shop.pay(1)

            if ctx.delivery == 1:
                stray.append((asyncio.create_task(later()), begun))
                shop.save(1)
            else:
                task, begun = stray[-1]
                begun.set()
                await asyncio.wait([task])
                shop.log.append(task.exception())

        crash = shop.simulate(work, observe=None, check=lambda: None).scenarios[1]
        stray.clear()
        gc.collect()  # asyncio logs that a task was destroyed while it waited: here, not in the next test

        assert [str(effect) for effect in crash.effects] == ["save(1)"]

    def test_the_functions_around_may_be_async_too(self, jobs, shop, careless):
        async def reset():
            await asyncio.sleep(0)
            shop.reset()

        async def check():
            await asyncio.sleep(0)
            assert len(shop.bank.charges) == 1

        simulation = shop.simulate(careless, 42, reset=reset, check=check, observe=None)

        assert [scenario.passed for scenario in simulation.scenarios] == [True, False, True, True]


class TestEffects:
    def test_outside_a_simulation_everything_goes_through(self, shop):
        shop.pay(1)
        shop.effects.record("anything", 1)

        assert shop.bank.charges == [1]

    def test_a_call_that_raises_is_no_effect(self, jobs, shop):
        refuse = shop.effects.wrap(lambda: 1 / 0, name="refuse")

        @jobs.job
        def work():
            with pytest.raises(ZeroDivisionError):
                refuse()
            shop.save(1)

        assert [str(effect) for effect in shop.simulate(work).scenarios[0].effects] == ["save(1)"]

    def test_attributes_of_objects_modules_and_classes_are_wrapped_for_the_time_of_a_simulation(self, jobs):
        sent = []

        class Mailer:
            def send(self, to):
                sent.append(to)

            @staticmethod
            def ping():
                return "pong"

            @classmethod
            def made(cls):
                return cls()

        module, mailer, effects = SimpleNamespace(now=lambda: "now"), Mailer(), Effects()
        effects.patch(Mailer, "send")
        effects.patch(Mailer, "ping")
        effects.patch(Mailer, "made", name="Mailer.made")
        effects.patch(module, "now")
        effects.patch(mailer, "ping", name="pong")
        before = {name: vars(Mailer)[name] for name in ("send", "ping", "made")}, module.now

        @jobs.job
        def work():
            assert (Mailer.ping(), mailer.ping(), module.now()) == ("pong", "pong", "now")
            Mailer.made().send("ada")

        simulation = simulate(work, effects=effects, observe=lambda: set(sent))

        assert simulation.passed, simulation
        calls = [str(effect) for effect in simulation.scenarios[0].effects]
        assert calls == ["ping()", "ping()", "pong()", "now()", "Mailer.made()", "send('ada')"]
        assert before == ({name: vars(Mailer)[name] for name in ("send", "ping", "made")}, module.now)
        assert "ping" not in vars(mailer)

    def test_attributes_are_put_back_when_a_simulation_breaks(self, jobs, shop):
        shop.effects.patch(shop.bank, "charge")
        bank = shop.bank

        @jobs.job
        def work(): ...

        with pytest.raises(ZeroDivisionError):
            shop.simulate(work, reset=lambda: 1 / 0)

        assert "charge" not in vars(bank)

    def test_enqueueing_another_job_can_be_an_effect(self, jobs, shop):
        @jobs.job
        def receipt(order: int): ...

        @jobs.job
        def work(order: int):
            receipt.enqueue(order)

        effects = Effects()
        effects.patch(receipt, "enqueue", name="receipt.enqueue")
        simulation = simulate(
            work,
            42,
            effects=effects,
            reset=lambda: [jobs.cancel(record.id) for record in jobs.list()],
            observe=lambda: jobs.counts()["available"],
        )

        assert titles(simulation)[1] == ("crash right after effect 1, receipt.enqueue(42)", False)

    def test_what_does_not_exist_or_cannot_be_called_is_refused(self, shop):
        with pytest.raises(AttributeError):
            shop.effects.patch(shop.bank, "chrage")
        with pytest.raises(OptionError, match="cannot be called"):
            shop.effects.patch(shop.bank, "charges")

    def test_plain_threads_of_a_handler_are_a_part_of_its_run(self, jobs, shop):
        @jobs.job
        def work():
            thread = threading.Thread(target=shop.save, args=(1,))
            thread.start()
            thread.join()

        assert [
            str(effect) for effect in shop.simulate(work, observe=lambda: set(shop.saved)).scenarios[0].effects
        ] == ["save(1)"]

    def test_one_recorder_serves_one_simulation_at_a_time(self, jobs, shop):
        @jobs.job
        def inner():
            shop.save(1)

        @jobs.job
        def outer():
            shop.save(2)
            shop.simulate(inner)

        with pytest.raises(AssertionError, match="belong to a simulation that is still running"):
            shop.simulate(outer).assert_idempotent()

    def test_an_argument_that_cannot_be_shown_does_no_harm(self, jobs, shop):
        class Shy:
            def __repr__(self):
                raise RuntimeError("no")

        @jobs.job
        def work():
            shop.save(Shy())

        assert shop.simulate(work, observe=lambda: len(shop.saved) > 0).passed


def test_the_hooks_of_the_application_are_entered_and_its_stamps_travel():
    with Onward("memory://") as jobs:
        seen, sent = [], []

        @jobs.stamp
        def tenant(job: str) -> dict[str, str]:
            return {"tenant": "acme"}

        @jobs.around
        def hook(ctx: JobContext) -> Iterator[None]:
            seen.append(ctx.meta["tenant"])
            yield

        @jobs.job
        def work() -> None:
            if not sent:
                sent.append("mail")

        simulate(work, observe=lambda: list(sent), reset=sent.clear).assert_idempotent()

    assert len(seen) >= 2
    assert set(seen) == {"acme"}


class TestSteps:
    def test_a_step_that_is_repeated_after_a_crash_is_found(self, jobs, shop):
        @jobs.job
        def buy(ctx: JobContext, order: int) -> None:
            ctx.step("pay", shop.bank.charge, order)
            ctx.step("save", shop.saved.append, order)

        simulation = shop.simulate(buy, 7, effects=None)

        assert [scenario.title for scenario in simulation.failures] == [
            "crash right after effect 1, the effect of step 'pay'"
        ]

    def test_a_key_makes_it_pass_and_what_was_noted_is_not_repeated(self, jobs, shop):
        @jobs.job
        def buy(ctx: JobContext, order: int) -> None:
            ctx.step("pay", pay, order, ctx.key("pay"))
            ctx.sleep("cool-off", "1d")
            ctx.step("log", shop.log.append, order)
            ctx.wait_for("nobody", timeout="1d")

        def pay(order: int, key: str) -> None:
            shop.bank.charge(order, key)

        simulation = shop.simulate(buy, 7, effects=None)

        simulation.assert_idempotent()
        assert [scenario.runs for scenario in simulation.scenarios] == [3, 4, 4, 4]

    def test_of_an_async_handler(self, jobs, shop):
        @jobs.job
        async def buy(ctx: AsyncJobContext, order: int) -> None:
            await ctx.step("pay", pay, order)

        async def pay(order: int) -> None:
            await asyncio.sleep(0)
            shop.bank.charge(order)

        simulation = shop.simulate(buy, 7, effects=None)

        assert [scenario.kind for scenario in simulation.failures] == ["crash"]
