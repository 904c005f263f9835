"""What users import: small, as listed, and quick."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import onward


def fresh_interpreter(program):
    """What a program prints in a Python that has imported nothing yet, as JSON."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def imported_by(module):
    """The packages that a module brings along, beside the standard library and msgspec."""
    new = fresh_interpreter(
        f"import json, msgspec, sys; before = set(sys.modules); import {module}; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    return {name.split(".")[0] for name in new} - sys.stdlib_module_names


def test_everything_listed_can_be_imported():
    assert [name for name in onward.__all__ if not hasattr(onward, name)] == []


def test_everything_that_can_be_imported_is_listed():
    named = fresh_interpreter(
        "import json, onward; [getattr(onward, name) for name in onward.__all__];"
        "print(json.dumps([n for n, value in vars(onward).items() if type(value) is not type(json) and n[0] != '_']))"
    )

    assert set(named) | {"__version__"} == {*onward.__all__, "TYPE_CHECKING", "Any"}
    assert dir(onward) == onward.__all__


def test_a_name_that_is_not_there_is_missed_as_in_any_module():
    with pytest.raises(AttributeError, match="has no attribute 'Onwards'"):
        _ = onward.Onwards


def test_the_list_is_sorted_and_small():
    assert onward.__all__ == sorted(set(onward.__all__))
    assert len(onward.__all__) <= 60


def test_every_error_that_users_meet_can_be_imported_from_the_top():
    met = {"OnwardError", "ArgumentError", "OptionError", "InvalidName", "PayloadTooLarge", "ResultTimeout"}
    met |= {"JobDiscardedError", "BackendError", "BackendUnavailable", "BackendMisconfigured", "SchemaTooNew"}

    assert met <= set(onward.__all__)


@pytest.mark.parametrize("name", sorted(set(onward.__all__) - {"__version__"}))
def test_every_name_says_what_it_is(name):
    assert getattr(onward, name).__doc__


def test_importing_onward_brings_nothing_along_but_msgspec():
    assert imported_by("onward") == {"onward"}


@pytest.mark.parametrize(
    "module", ["onward.testing", "onward.backend", "onward.errors", "onward.job.states", "onward.job.retry"]
)
def test_a_module_can_be_imported_first_and_alone(module):
    assert imported_by(module) == {"onward"}


# What takes long to import, and what only one store or only a worker with async handlers needs.
_LATE = {
    "ssl",
    "_ssl",
    "http",
    "asyncio",
    "subprocess",
    "sqlite3",
    "psycopg",
    "pymysql",
    "redis",
    "greenstalk",
    "azure",
    "tomllib",
}
_STORES = {
    f"onward.backends.{store}"
    for store in ("memory", "sqlite", "postgres", "mysql", "redis", "beanstalk", "servicebus")
}
# What a program that enqueues does not need: what looks and steers, runs jobs, and joins transactions.
_ROOMS = {"onward.worker", "onward.attempt", "onward.transactions", "onward.handlers", "onward.wiring.operators"}


# All that `from onward import Onward` loads: of Onward, and of the standard library.  What an application is made of waits.
_APPLICATION = {
    "onward",
    "onward.app",
    "onward.base",
    "onward.base.clock",
    "onward.base.durations",
    "onward.base.lazy",
    "onward.base.wording",
    "onward.errors",
    "onward.operate",
    "onward.operate.composing",
    "onward.operate.steering",
    "onward.version",
}
_FOR_THE_APPLICATION = "__future__, contextlib, contextvars, datetime, importlib, re, threading, typing"


def loaded_by(program):
    return set(fresh_interpreter(f"import json, sys\n{program}\nprint(json.dumps(list(sys.modules)))"))


@pytest.mark.promise("S170")
def test_importing_the_application_loads_no_store_and_nothing_of_the_network():
    loaded = loaded_by("from onward import Onward")

    assert loaded & (_LATE | _STORES | _ROOMS) == set()
    assert loaded - loaded_by(f"import {_FOR_THE_APPLICATION}") == _APPLICATION


@pytest.mark.promise("S170")
@pytest.mark.parametrize(("store", "driver"), [("memory", set()), ("sqlite", {"sqlite3"})])
def test_a_program_that_enqueues_loads_the_store_that_it_names_and_no_other(store, driver, tmp_path):
    url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    loaded = loaded_by(
        f"from onward import Onward\njobs = Onward({url!r})\n"
        "def send(user: int) -> None: ...\njobs.job(send).enqueue(42)\njobs.close()"
    )

    assert loaded & (_LATE | _STORES | _ROOMS) == {f"onward.backends.{store}", *driver}


class TestPartsThatAreMadeLate:
    def test_threads_that_ask_at_once_get_the_same_parts(self):
        with onward.Onward("memory://") as jobs, ThreadPoolExecutor(8) as threads:
            together = threading.Barrier(8)

            def ask(_):
                together.wait()
                return jobs._parts.engine, jobs._parts.operators

            assert len(set(threads.map(ask, range(8)))) == 1

    def test_an_application_that_was_closed_before_it_ran_a_job_runs_none(self):
        ran = []
        jobs = onward.Onward("memory://")
        send = jobs.job(name="send")(lambda: ran.append(1))
        send.enqueue()
        jobs.close()

        with pytest.raises(onward.OnwardError):
            jobs.process_once()

        assert ran == []
