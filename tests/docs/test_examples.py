"""The examples run as they are."""

import subprocess
import sys


def test_the_first_example_keeps_its_own_promises(request):
    ran = subprocess.run(
        [sys.executable, request.config.rootpath / "examples/first.py"], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert "8 jobs: 7 completed, 1 cancelled, none lost." in ran.stdout


def test_the_example_of_handlers_runs_what_is_allowed_and_nothing_else(request):
    ran = subprocess.run(
        [sys.executable, request.config.rootpath / "examples/handlers.py"], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert "6 jobs refused, none ran." in ran.stdout


def test_the_example_of_a_schedule_with_steps_does_nothing_twice(request):
    example = request.config.rootpath / "examples/schedules_and_steps.py"
    ran = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "2 effects, none of them twice." in ran.stdout


def test_the_example_of_limits_starts_what_may_start(request):
    example = request.config.rootpath / "examples/limits.py"
    ran = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "The bank is back: the probe succeeds, and all 8 are completed." in ran.stdout


def test_the_example_of_a_trace_has_one_from_the_request_to_both_runs(request):
    example = request.config.rootpath / "examples/integrations.py"
    ran = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "charging order 7 (charge, attempt 2)" in ran.stdout
    assert "4 spans, one trace." in ran.stdout


def test_the_example_of_dead_letters_loses_none_and_repeats_none(request):
    example = request.config.rootpath / "examples/dead_letters.py"
    ran = subprocess.run([sys.executable, example], capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert "12 orders shipped, none lost, none twice." in ran.stdout
