"""Django's own task tests, from its source distribution, with Onward in the places of Django's backends."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.integrations.django.environments import interpreter, source

PROGRAM = Path(__file__).with_name("djangos_own.py")

# What does not apply, and why.
CAN_DO_MORE = {
    "tasks.test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result",
    "tasks.test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result",
    "tasks.test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after",
}
HAS_OPTIONS = {  # they compare OPTIONS with nothing
    "tasks.test_dummy_backend.DummyBackendTestCase.test_using_correct_backend",
    "tasks.test_immediate_backend.ImmediateBackendTestCase.test_using_correct_backend",
}
HAS_NO_LIST = {  # they change a result inside a list of `DummyBackend`
    "tasks.test_dummy_backend.DummyBackendTestCase.test_refresh_result",
    "tasks.test_dummy_backend.DummyBackendTestCase.test_refresh_result_async",
}
OTHER_WORDS = {  # those of the package, or of Python 3.11, differ from those of Django 6.0 on Python 3.12
    "tasks.test_custom_backend.CustomBackendTestCase.test_enqueue_async_task_on_non_async_backend",
    "tasks.test_custom_backend.CustomBackendTestCase.test_no_enqueue",
    "tasks.test_dummy_backend.DummyBackendTestCase.test_validate_disallowed_async_task",
}
NOT_APPLICABLE = CAN_DO_MORE | HAS_OPTIONS | HAS_NO_LIST

# Django, whose tests, how many there are at least, what does not apply.
TABLE = {
    "5.2": ("6.0", 76, NOT_APPLICABLE | OTHER_WORDS),
    "6.0": ("6.0", 76, NOT_APPLICABLE),
    "6.1": ("6.1", 85, NOT_APPLICABLE),
}


@pytest.mark.promise("S162")
@pytest.mark.timeout(400)  # pip makes an environment of its own for the source that it downloads
@pytest.mark.parametrize("version", TABLE)
def test_django_finds_in_onward_what_it_asks_of_a_backend(version, tmp_path, report):
    tests, at_least, not_applicable = TABLE[version]
    command = [interpreter(version), PROGRAM, source(tests), tmp_path]

    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    passed = told["ran"] - len(told["missed"])
    report(
        f"Django {told['django']}: {told['ran']} of its task tests ran, {passed} passed, {len(not_applicable)} do not apply"
    )
    assert told["django"].startswith(version)
    assert told["ran"] >= at_least
    assert {name: text for name, text in told["missed"].items() if name not in not_applicable} == {}
    assert set(told["missed"]) == not_applicable
