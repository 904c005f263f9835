"""Celery's tasks on Onward: what options become, retries, results, and what is refused."""

import asyncio
import enum
import threading
from datetime import UTC, datetime, timedelta

import pytest

from onward import ArgumentError, Exponential, Fixed, Full, JobDiscardedError, OptionError, State
from onward.compat.celery import AsyncResult, Celery, Task, shared_task
from onward.compat.celery.exceptions import Ignore, MaxRetriesExceededError, Reject, SoftTimeLimitExceeded
from onward.compat.celery.options import (
    REFUSED_CALL_OPTIONS,
    REFUSED_TASK_OPTIONS,
    CeleryDifference,
)


def definition_of(app, **options):
    @app.task(name="probe", **options)
    def probe(): ...

    return app.job_of(probe).definition


class TestOptions:
    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            ({}, {"max_retries": 3, "retry_on": (), "retry": Fixed(180)}),
            ({"max_retries": None}, {"max_retries": 1_000_000}),
            (
                {"autoretry_for": (OSError,), "dont_autoretry_for": [ValueError]},
                {"retry_on": (OSError,), "discard_on": (ValueError,)},
            ),
            ({"retry_backoff": True}, {"retry": Exponential(base=1, max=600, jitter=Full())}),
            (
                {"retry_backoff": 7, "retry_backoff_max": 60, "retry_jitter": False},
                {"retry": Exponential(base=7, max=60, jitter=None)},
            ),
            ({"retry_kwargs": {"max_retries": 9, "countdown": 4}}, {"max_retries": 9, "retry": Fixed(4)}),
            ({"soft_time_limit": 5}, {"timeout": 5, "isolation": "thread"}),
            ({"time_limit": 5}, {"timeout": 5, "isolation": "process"}),
            ({"queue": "mail", "priority": 7, "expires": 60}, {"queue": "mail", "priority": 7, "expires_in": 60}),
            ({"acks_late": True, "serializer": "json", "track_started": True}, {"max_retries": 3}),
            ({"onward": {"max_crashes": 1}}, {"max_crashes": 1}),
        ],
    )
    def test_an_option_of_a_task_becomes_one_of_a_job(self, app, said, expected):
        definition = definition_of(app, **said)

        assert {name: getattr(definition, name) for name in expected} == expected

    @pytest.mark.parametrize(
        ("said", "rate"), [("10/m", "10/min, 1 at once"), (5, "5/s"), ("5", "5/s"), ("100/h", "100/h")]
    )
    def test_a_rate_limit_is_a_limit_without_bursts(self, app, said, rate):
        limit = definition_of(app, rate_limit=said).limit

        assert str(limit.bounds.rate).startswith(rate.partition(",")[0])
        assert limit.burst == 1

    @pytest.mark.parametrize("option", sorted(REFUSED_TASK_OPTIONS))
    @pytest.mark.promise("S164")
    def test_a_refused_option_of_a_task_names_the_fix_where_it_is_declared(self, app, option):
        with pytest.raises(OptionError, match=f"{option} has no meaning here: \\w+"):
            app.task(**{option: object()})(lambda: None)

    @pytest.mark.parametrize("option", sorted(REFUSED_CALL_OPTIONS))
    @pytest.mark.promise("S164")
    def test_a_refused_option_of_a_call_names_the_fix_and_stores_nothing(self, app, jobs, option):
        task = app.task(name="probe")(lambda: None)

        with pytest.raises(OptionError, match=f"{option} has no meaning here: \\w+"):
            task.apply_async(**{option: object()})
        assert jobs.list() == []

    @pytest.mark.parametrize(
        ("said", "text"),
        [
            ({"max_retrys": 1}, "did you mean 'max_retries'"),
            ({"serializer": "pickle"}, "pass plain data"),
            ({"retry_kwargs": {"queue": "x"}}, "retry_kwargs has max_retries and countdown"),
            ({"retry_kwargs": 5}, "retry_kwargs is a table"),
            ({"autoretry_for": KeyError}, r"a tuple of exceptions, \(KeyError,\)"),
            ({"dont_autoretry_for": "KeyError"}, r"a tuple of exceptions, \(KeyError,\)"),
            ({"retry_backoff": "5"}, "True or a number of seconds"),
            ({"onward": 7}, "a table of options"),
            ({"bind": True}, r"write def \w+\(self\)"),
        ],
    )
    @pytest.mark.promise("S164")
    def test_an_unknown_option_is_never_ignored(self, app, said, text):
        def task(): ...

        with pytest.raises(OptionError, match=text):
            app.task(**said)(task)

    @pytest.mark.promise("S164")
    def test_a_call_of_another_form_names_the_right_one(self, app, jobs):
        task = app.task(name="probe")(lambda to=None: None)

        with pytest.raises(OptionError, match="countdown is a number of seconds, not '5'"):
            task.apply_async(countdown="5")
        with pytest.raises(ArgumentError, match=r"kwargs is a table of arguments, \{'to': 'ann'\}"):
            task.apply_async((), ["ann"])
        assert jobs.list() == []

    def test_a_class_of_tasks_is_refused(self):
        with pytest.raises(OptionError, match="around"):

            class Own(Task): ...

    @pytest.mark.parametrize("said", [{"acks_late": False}, {"soft_time_limit": 1, "time_limit": 2}])
    def test_an_option_that_means_less_here_is_a_warning(self, app, said):
        with pytest.warns(CeleryDifference, match="from-celery"):
            definition_of(app, **said)

    def test_names_are_those_of_celery(self, app):
        def own(): ...

        assert app.task(own).name == f"{__name__}.own"
        assert app.task(name="other")(own).name == "other"


class TestCalls:
    @pytest.fixture
    def add(self, app):
        return app.task(name="add")(lambda x, y=1: x + y)

    def test_options_of_a_call_are_those_of_a_job(self, add, app, jobs, clock):
        app.conf.timezone = "Europe/Berlin"
        naive = datetime(2030, 1, 1, 12)  # noqa: DTZ001

        add.apply_async((1,), queue="mail", priority=9, countdown=60, onward={"meta": {"tenant": "acme"}})
        add.apply_async((1,), eta=naive, queue="later")

        now, later = jobs.list()
        assert (now.queue, now.priority, now.meta) == ("mail", 9, {"tenant": "acme"})
        assert now.available_at - now.enqueued_at == timedelta(seconds=60)
        assert later.available_at == datetime(2030, 1, 1, 11, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("args", "kwargs", "text"),
        [
            ((), {}, "missing a required argument: 'x'"),
            ((1, 2, 3), {}, "too many positional"),
            ((1,), {"z": 2}, "unexpected keyword argument 'z'"),
            ((datetime.now(UTC),), {}, "isoformat"),
            (({1, 2},), {}, "sorted"),
            (({1: 2},), {}, "is no text"),
            ((float("nan"),), {}, "finite"),
            ((object(),), {}, "its id"),
        ],
    )
    @pytest.mark.promise("S164")
    def test_arguments_are_checked_where_they_are_enqueued(self, add, jobs, args, kwargs, text):
        with pytest.raises(ArgumentError, match=text):
            add.delay(*args, **kwargs)
        assert jobs.list() == []

    def test_a_text_is_no_list_of_arguments(self, add):
        with pytest.raises(ArgumentError, match=r"\(7,\)"):
            add.apply_async("7")

    def test_members_of_enums_travel_as_their_values(self, app, jobs):
        class Size(enum.StrEnum):
            LARGE = "large"

        echo = app.task(name="echo")(lambda value: value)

        result = echo.delay(Size.LARGE)
        jobs.drain()

        assert result.get() == "large"

    def test_a_task_can_be_sent_by_a_name_that_only_another_program_knows(self, app, jobs):
        result = app.send_task("elsewhere.render", (7,), {"size": "a4"}, queue="render")

        record = jobs.get(result.id)
        assert (record.job, record.queue) == ("elsewhere.render", "render")
        assert record.payload == {"args": [7], "kwargs": {"size": "a4"}}
        assert result.state == "PENDING"

    def test_secrets_are_masked_by_the_names_of_parameters(self, app, jobs):
        login = app.task(name="login")(lambda user, password: None)

        login.delay("ann", "hunter2")
        login.delay("ann", password="hunter2")

        assert "hunter2" not in str([record.payload for record in jobs.list()])

    @pytest.mark.parametrize("name", ["apply", "map", "chunks", "update_state", "delay_on_commit"])
    def test_what_a_task_does_not_have_is_told_with_what_to_use(self, add, name):
        with pytest.raises(OptionError, match=f"no '{name}' here: "):
            getattr(add, name)

    def test_options_can_come_from_the_settings(self, app, jobs):
        app.conf.update(task_default_queue="all", task_routes={"mail.*": {"queue": "mail"}}, task_soft_time_limit=9)

        plain, routed = app.task(name="plain")(lambda: None), app.task(name="mail.send")(lambda: None)

        assert (app.job_of(plain).definition.queue, app.job_of(plain).definition.timeout) == ("all", 9)
        assert app.job_of(routed).definition.queue == "mail"

    @pytest.mark.parametrize(
        ("name", "value", "text"),
        [
            ("task_serializer", "pickle", "pass plain data"),
            ("accept_content", ["pickle", "json"], "'json' and nothing else"),
            ("task_annotations", {}, "give the options to the tasks"),
            ("task_defualt_queue", "x", "did you mean 'task_default_queue'"),
            ("task_routes", lambda *_: None, "a function cannot be read"),
            ("task_routes", {"x": {"exchange": "y"}}, "'queue'"),
            ("enable_utc", False, "True here"),
            ("timezone", "Europe/Berln", "did you mean 'Europe/Berlin'"),
        ],
    )
    @pytest.mark.promise("S164")
    def test_a_setting_without_a_meaning_is_refused(self, app, name, value, text):
        with pytest.raises(OptionError, match=text):
            app.conf.update({name: value})


class TestRetries:
    def test_only_what_is_listed_is_retried(self, app, jobs):
        @app.task(autoretry_for=(OSError,), retry_kwargs={"countdown": 0})
        def listed():
            raise FileNotFoundError("gone")

        @app.task
        def unlisted():
            raise OSError("no")

        a, b = listed.delay(), unlisted.delay()
        jobs.drain()

        assert (jobs.get(a.id).attempts, jobs.get(b.id).attempts) == (4, 1)
        assert (a.state, b.state) == ("FAILURE", "FAILURE")

    def test_retry_waits_for_the_default_delay_and_keeps_the_real_error(self, app, jobs, clock):
        @app.task(bind=True)
        def task(self):
            raise self.retry(exc=ConnectionError("away"))

        result = task.delay()
        jobs.drain()

        record = jobs.get(result.id)
        assert (result.state, record.errors[0].kind) == ("RETRY", "ConnectionError")
        assert record.available_at - clock.now() == timedelta(seconds=180)

    def test_retry_at_an_instant(self, app, jobs, clock):
        @app.task(bind=True)
        def task(self):
            self.retry(eta=datetime.now(UTC) + timedelta(hours=1))

        result = task.delay()
        jobs.drain()

        wait = jobs.get(result.id).available_at - clock.now()
        assert timedelta(minutes=59) < wait <= timedelta(hours=1)

    @pytest.mark.parametrize(
        ("said", "text"),
        [
            ({"max_retries": 9}, "declare it"),
            ({"args": (1,)}, "the same job"),
            ({"throw": False}, "the same job"),
            ({"queue": "x"}, "the same job"),
        ],
    )
    @pytest.mark.promise("S164")
    def test_a_retry_that_cannot_be_is_a_dead_letter_that_names_the_fix(self, app, jobs, said, text):
        @app.task(bind=True)
        def task(self):
            self.retry(**said)

        result = task.delay()
        jobs.drain()

        assert result.state == "FAILURE"
        assert text in jobs.get(result.id).errors[0].message

    def test_fewer_retries_can_be_asked_for(self, app, jobs):
        @app.task(bind=True)
        def task(self):
            self.retry(max_retries=1, countdown=0)

        result = task.delay()
        jobs.drain()

        assert jobs.get(result.id).attempts == 2
        with pytest.raises(MaxRetriesExceededError):
            result.get()

    def test_a_plain_call_of_retry_raises_the_exception(self, app):
        @app.task(bind=True)
        def task(self):
            assert self.request.called_directly
            self.retry(exc=ValueError("as it is"))

        with pytest.raises(ValueError, match="as it is"):
            task()


class TestResults:
    def test_a_soft_time_limit_interrupts_the_run(self, jobs, app):
        begun = threading.Event()

        @app.task(soft_time_limit=0.2)
        def slow():
            try:
                begun.set()
                while True:
                    begun.wait(0.01)
            except SoftTimeLimitExceeded:
                return "cleaned up"

        result = slow.delay()
        jobs.drain()

        assert result.get() == "cleaned up"

    def test_an_exception_of_a_class_that_is_not_loaded_is_told_as_onward_tells_it(self, app, jobs):
        @app.task
        def fails():
            raise type("Unknown", (Exception,), {"__module__": "nowhere"})("x")

        result = fails.delay()
        jobs.drain()

        with pytest.raises(JobDiscardedError, match="nowhere"):
            result.get()

    def test_a_result_without_a_json_form_ends_the_job(self, app, jobs):
        @app.task(autoretry_for=(Exception,))
        def fails():
            return object()

        result = fails.delay()
        jobs.drain()

        assert (result.state, jobs.get(result.id).attempts) == ("FAILURE", 1)
        assert "plain data" in jobs.get(result.id).reason

    def test_ignored_results_are_not_stored_and_ignored_runs_are_completed(self, app, jobs):
        @app.task(ignore_result=True)
        def ignored():
            return object()

        @app.task
        def ignoring():
            raise Ignore

        results = [ignored.delay(), ignoring.delay()]
        jobs.drain()

        assert [(each.state, each.get()) for each in results] == [("SUCCESS", None)] * 2

    def test_reject_names_what_to_raise(self):
        with pytest.raises(OptionError, match="Discard"):
            raise Reject(requeue=True)

    def test_revoke_cancels_what_waits_and_an_unknown_id_is_pending(self, app, jobs):
        task = app.task(name="t")(lambda: None)
        result = task.apply_async(countdown=60)

        result.revoke()

        assert (result.state, jobs.get(result.id).state) == ("REVOKED", State.CANCELLED)
        assert AsyncResult("0192d000-0000-7000-8000-000000000000").state == "PENDING"
        assert AsyncResult("no id").state == "PENDING"

    def test_async_functions_run_too(self, app, jobs):
        @app.task(bind=True)
        async def fetch(self, n):
            await asyncio.sleep(0)
            return [n, self.request.retries]

        result, chained = fetch.delay(7), (fetch.s(1) | fetch.s()).apply_async()
        jobs.drain()

        assert (result.get(), chained.get()) == ([7, 0], [[1, 0], 0])


class TestApplication:
    def test_shared_tasks_belong_to_the_application_of_the_program(self, jobs):
        @shared_task
        def shared(x):
            return x

        app = Celery("shop", jobs=jobs)
        result = shared.delay(3)
        app.jobs.drain()

        assert result.get() == 3

    def test_eager_tasks_run_where_they_are_enqueued(self):
        app = Celery("shop")
        app.conf.task_always_eager = True
        add = app.task(name="add")(lambda x: x + 1)

        assert add.delay(1).get() == 2
        app.onward.close()

    def test_settings_come_from_an_object_with_a_namespace(self, app):
        class Settings:
            CELERY_TIMEZONE = "Europe/Berlin"
            CELERY_BROKER_URL = "redis://celery"
            OTHER = 1

        app.config_from_object(Settings, namespace="CELERY")

        assert (app.conf.timezone, app.conf.broker_url, len(app.conf)) == ("Europe/Berlin", "redis://celery", 2)

    def test_two_tasks_of_one_name_are_refused(self, app):
        app.task(name="one")(lambda: 1)
        with pytest.raises(Exception, match="two tasks named 'one'"):
            app.task(name="one")(self.test_two_tasks_of_one_name_are_refused)

    @pytest.mark.parametrize("name", ["uuid", "current_app"])
    def test_what_the_package_does_not_have_is_told_with_what_to_use(self, name):
        import onward.compat.celery

        with pytest.raises(OptionError, match=f"no '{name}': "):
            getattr(onward.compat.celery, name)

    def test_discovery_imports_the_modules_of_packages(self, app, tmp_path, monkeypatch):
        package = tmp_path / "found_here"
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "tasks.py").write_text(
            "from onward.compat.celery import shared_task\n@shared_task\ndef hi(): return 1\n"
        )
        monkeypatch.syspath_prepend(tmp_path)

        app.autodiscover_tasks(["found_here"])

        assert "found_here.tasks.hi" in app.jobs.names
