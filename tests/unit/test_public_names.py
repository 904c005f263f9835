"""What users import: small, as listed, and quick."""

import json
import subprocess
import sys

import pytest

import onward


def fresh_interpreter(program):
    """What a program prints in a Python that has imported nothing yet, as JSON."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


MODULES_AFTER = (
    "import sys, json; import {0}; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
)


def test_everything_listed_can_be_imported():
    assert [name for name in onward.__all__ if not hasattr(onward, name)] == []


def test_everything_that_can_be_imported_is_listed():
    modules = {name for name, value in vars(onward).items() if type(value) is type(sys)}
    public = {name for name in vars(onward) if not name.startswith("_")} - modules

    assert public | {"__version__"} == set(onward.__all__)


def test_the_list_is_sorted_and_small():
    assert onward.__all__ == sorted(set(onward.__all__))
    assert len(onward.__all__) <= 40


def test_every_error_that_users_meet_can_be_imported_from_the_top():
    met = {"OnwardError", "ArgumentError", "OptionError", "InvalidName", "PayloadTooLarge", "ResultTimeout"}
    met |= {"JobDiscarded", "BackendError", "BackendUnavailable", "BackendMisconfigured", "SchemaTooNew"}

    assert met <= set(onward.__all__)


@pytest.mark.parametrize("name", sorted(set(onward.__all__) - {"__version__"}))
def test_every_name_says_what_it_is(name):
    assert getattr(onward, name).__doc__


def test_importing_onward_imports_nothing_but_itself_and_msgspec():
    imported = fresh_interpreter(MODULES_AFTER.format("onward"))

    assert set(imported) - set(sys.stdlib_module_names) - {"__main__", "__mp_main__", "sitecustomize"} == {
        "onward",
        "msgspec",
    }


@pytest.mark.parametrize(
    "package",
    ["pytest", "hypothesis", "rich", "psycopg", "pymysql", "redis", "greenstalk", "azure", "pydantic", "anyio"],
)
def test_importing_onward_does_not_import(package):
    assert package not in fresh_interpreter(MODULES_AFTER.format("onward"))


@pytest.mark.parametrize(
    "module", ["onward.backend", "onward.errors", "onward.states", "onward.retry", "onward.testing"]
)
def test_a_module_alone_can_be_imported_first(module):
    assert "onward" in fresh_interpreter(MODULES_AFTER.format(module))


def test_the_fake_clock_needs_no_pytest():
    assert "pytest" not in fresh_interpreter(MODULES_AFTER.format("onward.testing"))
