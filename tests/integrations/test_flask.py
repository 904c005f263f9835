"""Flask: jobs run in application contexts, settings come from ``app.config``, and ``flask onward`` is the command."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref

import pytest
from flask import Flask, current_app, g, has_app_context

from onward import NoDelay, Onward
from onward.cli.application_name import ApplicationName
from onward.cli.exits import CommandError
from onward.errors import OptionError
from onward.integrations.flask import init_app


@pytest.fixture
def app():
    return Flask("shop")


@pytest.fixture
def shop(app, jobs):
    """An application whose jobs run in contexts of `app`."""
    return init_app(app, jobs)


class TestContexts:
    @pytest.mark.promise("S166")
    def test_handlers_of_both_kinds_run_inside_a_context_and_leave_none_behind(self, shop):
        @shop.job
        def in_a_thread() -> str:
            return current_app.name

        @shop.job
        async def on_the_loop() -> str:
            await asyncio.sleep(0)
            return current_app.name

        handles = [in_a_thread.enqueue(), on_the_loop.enqueue()]
        shop.drain(raising=True)

        assert [handle.result() for handle in handles] == ["shop", "shop"]
        assert not has_app_context()

    @pytest.mark.promise("S166")
    def test_every_attempt_has_a_context_of_its_own_that_is_torn_down_with_its_error(self, app, shop):
        torn_down, found = [], []
        app.teardown_appcontext(torn_down.append)

        @shop.job(max_retries=1, retry=NoDelay())
        def charge() -> None:
            found.append(g.get("attempt"))
            g.attempt = len(found)
            if len(found) == 1:
                raise ConnectionError("the bank is away")

        handle = charge.enqueue()
        shop.drain()
        shop.drain()

        assert handle.state() == "completed"
        assert found == [None, None]
        assert [str(error) for error in torn_down] == ["the bank is away", "None"]

    @pytest.mark.promise("S166")
    @pytest.mark.parametrize("store", ["sqlite"])
    def test_jobs_that_run_at_once_do_not_share_a_context(self, shop):
        together = threading.Barrier(2, timeout=60)

        @shop.job
        def in_a_thread(name: str) -> str:
            g.name = name
            together.wait()
            return f"{g.name}"

        @shop.job
        async def on_the_loop(name: str) -> str:
            g.name = name
            while len(begun := seen.setdefault("begun", set())) < 2:
                begun.add(name)
                await asyncio.sleep(0)
            return f"{g.name}"

        seen: dict[str, set[str]] = {}
        with shop.worker(concurrency=2):
            results = [handle.result(timeout=60) for handle in in_a_thread.enqueue_many([("ann",), ("bob",)])]
            results += [handle.result(timeout=60) for handle in on_the_loop.enqueue_many([("cem",), ("dan",)])]

        assert results == ["ann", "bob", "cem", "dan"]

    def test_what_flask_fails_to_tear_down_is_the_error_of_the_attempt(self, app, shop):
        @app.teardown_appcontext
        def close(_error):
            raise OSError("the session could not be closed")

        @shop.job
        def ship() -> None: ...

        handle = ship.enqueue()
        shop.drain()

        assert handle.record().errors[0].message == "the session could not be closed"

    def test_a_second_flask_application_takes_over_and_no_context_is_entered_twice(self, shop):
        pushed = []
        later = Flask("later")
        init_app(later, shop)
        later.teardown_appcontext(pushed.append)

        @shop.job
        def name() -> str:
            return current_app.name

        handle = name.enqueue()
        shop.drain(raising=True)

        assert handle.result() == "later"
        assert len(pushed) == 1

    def test_applications_that_are_not_used_any_more_are_collected(self):
        app = Flask("shop")
        gone = weakref.ref(init_app(app, Onward("memory://")))

        del app
        gc.collect()

        assert gone() is None


class TestSettings:
    def test_an_application_is_made_from_the_config_and_kept_among_the_extensions(self, app):
        app.config.update(ONWARD_URL="memory://", ONWARD_NAMESPACE="shop", ONWARD_DEFAULT_MAX_RETRIES=4)

        jobs = init_app(app)

        assert (jobs.settings.url, jobs.settings.namespace, jobs.settings.default_max_retries) == (
            "memory://",
            "shop",
            4,
        )
        assert app.extensions["onward"] is jobs

    def test_keys_may_be_in_a_file(self, app, tmp_path):
        ring = tmp_path / "keys"
        ring.write_text("a:" + "0" * 64)
        ring.chmod(0o600)
        app.config.update(ONWARD_URL="memory://", ONWARD_SIGNING_KEYS_FILE=str(ring))

        assert init_app(app).settings.signing_keys.path == ring

        both = Flask("both")
        both.config.update(app.config, ONWARD_SIGNING_KEYS="a:" + "0" * 64)
        with pytest.raises(OptionError, match="keep one of them"):
            init_app(both)

    def test_a_setting_that_does_not_exist_is_told_with_the_one_that_was_meant(self, app):
        app.config["ONWARD_NAMESPCE"] = "shop"

        with pytest.raises(OptionError, match=r"ONWARD_\* in app.config: there is no setting 'namespce'.*namespace"):
            init_app(app)

    def test_a_setting_that_would_be_ignored_is_refused(self, app, jobs):
        app.config["ONWARD_URL"] = "sqlite:///another.db"

        with pytest.raises(OptionError, match=r"app.config\['ONWARD_URL'\] is not what .* let init_app\(app\) make"):
            init_app(app, jobs)

        app.config["ONWARD_URL"] = jobs.settings.url
        assert init_app(app, jobs) is jobs

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["shop"], "takes a Flask application first, not 'shop'"),
            ([Flask("shop"), "memory://"], r"takes an application, Onward\(...\), not 'memory://'"),
        ],
    )
    def test_what_is_no_application_is_refused(self, arguments, told):
        with pytest.raises(OptionError, match=told):
            init_app(*arguments)

    def test_a_flask_application_has_one_application(self, app, shop):
        init_app(app, shop)  # once more changes nothing

        with pytest.raises(OptionError, match=r"already: its application is app\.extensions"):
            init_app(app, Onward("memory://"))

    def test_without_flask_the_error_names_the_package(self, monkeypatch):
        for name in [name for name in sys.modules if name.startswith("onward.integrations.flask")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "flask", None)

        with pytest.raises(OptionError, match=r"pip install 'onward\[flask\]'"):
            __import__("onward.integrations.flask")


PROJECT = """\
from flask import Flask, current_app

from onward import Onward
from onward.integrations.flask import init_app

jobs = Onward({url!r})


@jobs.job
def greet(name: str) -> str:
    return f"hello {{name}} from {{current_app.config['NAME']}}"


@jobs.job(isolation="process")
def alone() -> str:
    return current_app.config["NAME"]


def create_app():
    app = Flask(__name__)
    app.config["NAME"] = "the shop"
    init_app(app, jobs)
    return app


def bare():
    return Flask(__name__)
"""


@pytest.fixture
def project(tmp_path, folder):
    """A folder with a project that has a factory, and the application that enqueues its jobs by name."""
    url = f"sqlite:///{folder / 'shop.db'}"
    (tmp_path / "shop.py").write_text(PROJECT.format(url=url))
    with Onward(url) as jobs:
        yield jobs


class TestCommand:
    """``flask onward worker`` itself runs on the page of the guide."""

    @pytest.mark.promise("S166")
    def test_a_worker_runs_the_jobs_of_a_factory_in_its_contexts(self, project):
        handles = [project.enqueue("greet", {"name": "ann"}), project.enqueue("alone")]

        command = [sys.executable, "-m", "onward", "worker", "shop:create_app()", "--until-empty"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)

        assert done.returncode == 0, done.stderr
        assert [handle.result() for handle in handles] == ["hello ann from the shop", "the shop"]

    def test_an_application_that_has_no_name_is_told_what_to_do(self, app, shop):
        done = app.test_cli_runner().invoke(args=["onward", "worker"])

        assert done.exit_code == 2
        assert "use `flask --app shop onward" in done.output

    @pytest.mark.parametrize(
        ("environment", "told"),
        [
            ({"FLASK_APP": "shop:bare"}, "has no jobs: call onward.integrations.flask.init_app"),
            ({"FLASK_APP": "shop:create_ap"}, "create_ap"),
            ({}, "Could not locate a Flask application"),
        ],
    )
    def test_a_worker_that_finds_no_jobs_says_why(self, project, monkeypatch, tmp_path, environment, told):
        from onward.integrations.flask import app as of_commands

        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delenv("FLASK_APP", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(OptionError, match=told):
            _ = of_commands.jobs

    def test_an_attribute_that_the_project_lacks_is_not_taken_for_missing_jobs(self, monkeypatch, tmp_path):
        from onward.integrations.flask import app as of_commands

        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "lacking.py").write_text("def create_app():\n    return None.nothing\n")
        monkeypatch.setenv("FLASK_APP", "lacking")

        with pytest.raises(RuntimeError, match="'NoneType' object has no attribute 'nothing'"):
            _ = of_commands.jobs

    def test_a_factory_without_jobs_is_told_what_to_call(self):
        module = type("module", (), {"create": staticmethod(lambda: Flask("shop")), "app": Flask("shop")})

        for name in ("shop:create()", "shop:app"):
            with pytest.raises(
                CommandError, match=r"a Flask and no application: call onward.integrations.flask.init_app"
            ):
                ApplicationName.parse(name).find(module)
