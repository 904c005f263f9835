"""Fingerprints: the same failure has the same one, whatever it says and wherever its lines have moved."""

import importlib.util
import subprocess
import sys
import textwrap
import traceback
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.base import fingerprint
from onward.base.failure import describe, describe_behind, stated
from onward.base.fingerprint import of_text, without_text
from onward.errors import JobTimeout
from onward.job.signals import Discard, Retry

SECRET = "hunter2hunter2"


def caught(function, *args):
    try:
        function(*args)
    except BaseException as error:  # noqa: BLE001  that is the point
        return error
    raise AssertionError("it did not raise")


def fails(message="no route to host", kind=ValueError):
    raise kind(message)


def outer(*args):
    fails(*args)


def of(error):
    return describe(error).fingerprint


def loaded(folder, source, name="shop"):
    """Import a module from a folder that is on the path, as a deployment does."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.py"
    file.write_text(textwrap.dedent(source))
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_twelve_hex_digits():
    assert len(of(caught(fails))) == 12
    int(of(caught(fails)), 16)


@pytest.mark.promise("S131")
def test_the_message_does_not_count():
    assert of(caught(fails, "user 1")) == of(caught(fails, "something else entirely"))


@pytest.mark.promise("S131")
def test_the_class_and_the_way_to_it_count():
    assert of(caught(fails)) != of(caught(fails, "no", KeyError))
    assert of(caught(fails)) != of(caught(outer))


@pytest.mark.promise("S131")
def test_lines_do_not_count(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path / "a"))
    before = loaded(tmp_path / "a", "def pay(n):\n    raise ValueError(n)\n")
    first = of(caught(before.pay, 1))
    after = loaded(tmp_path / "a", "import os\n\n\n# a comment\ndef pay(n):\n    n += 1\n    raise ValueError(n)\n")

    assert of(caught(after.pay, 2)) == first


@pytest.mark.promise("S131")
def test_the_folder_of_a_deployment_does_not_count(tmp_path, monkeypatch):
    found = []
    for release in ("v41", "v42"):
        monkeypatch.syspath_prepend(str(tmp_path / release))
        found.append(of(caught(loaded(tmp_path / release, "def pay(n):\n    raise ValueError(n)\n").pay, 1)))

    assert found[0] == found[1]


def test_only_the_last_three_functions_count():
    def a():
        b()

    def b():
        c()

    def c():
        fails()

    def elsewhere():
        a()

    assert of(caught(a)) == of(caught(elsewhere))
    assert of(caught(b)) != of(caught(c))


def test_the_interpreter_and_onward_do_not_count():
    def decodes():
        import json

        json.loads("{")

    def through_onward():
        from onward.base.durations import seconds

        seconds("no time at all")

    for function in (decodes, through_onward):
        error = caught(function)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if __file__ in frame.filename]
        assert len(frames) < len(traceback.extract_tb(error.__traceback__))
        assert [file for file, _ in fingerprint._places(error.__traceback__)] == ["tests/base/test_fingerprint.py"] * 2


@pytest.mark.promise("S131")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user 17 is gone", "user 4711 is gone"),
        (f"order {uuid.UUID(int=1)} is gone", f"order {uuid.UUID(int=2 << 90)} is gone"),
        ("at 0x7f00aa, gone", "at 0xdeadbeef, gone"),
        ("commit 4f2a1c9e8b7d is gone", "commit 00ff1c9e8b7d is gone"),
        ("no user 'anna'", "no user 'otto'"),
        ('no user "anna" here', 'no user "it\'s otto" here'),
        ("can't find 'it's mine'", "can't find 'yours'"),
        ("no table `a`", "no table `b`"),
        ("unclosed 'anna", "unclosed 'otto says more"),
    ],
)
def test_without_a_place_the_message_counts_but_for_what_varies(one, other):
    assert of(Discard(one)) == of(Discard(other))
    assert of(Discard(one)) != of(Discard("another thing went wrong"))


def test_a_signal_is_told_by_its_message_wherever_it_is_raised():
    def one():
        raise Discard("no address")

    def two():
        raise Discard("no address")

    assert of(caught(one)) == of(caught(two)) == of(Discard("no address"))
    assert of(caught(one)) != of(Discard("no money"))


def test_a_time_out_is_one_wherever_it_interrupts():
    assert of(caught(fails, "interrupted", JobTimeout)) == of(caught(outer, "interrupted", JobTimeout))


def test_behind_a_retry_the_cause_counts():
    cause = caught(fails)

    assert describe_behind(Retry(after=1), cause, lambda text: text).fingerprint == of(cause)


def test_a_failure_that_is_no_exception_has_a_word_or_its_message():
    assert stated("UnknownJob", "job 'x' is not registered", fingerprint.UNKNOWN).fingerprint == "unknown"
    assert stated("Refused", "for 1 s").fingerprint == of_text("Refused", "for 2 s")


@pytest.mark.promise("S131")
def test_no_secret_enters_it():
    def scrub(text):
        return text.replace(SECRET, "***").replace("other", "***")

    with_secret = describe(Discard(f"no access with {SECRET}"), scrub).fingerprint

    assert with_secret == describe(Discard("no access with other"), scrub).fingerprint
    assert with_secret != of(Discard(f"no access with {SECRET}"))


@pytest.mark.promise("S131")
def test_the_message_of_an_encrypted_job_does_not_count():
    told = stated("Discard", "no access for anna")
    placed = describe(caught(fails, "no access for anna"))

    assert without_text(told.fingerprint, told.kind, told.message) == of_text("Discard", "")
    assert without_text(placed.fingerprint, placed.kind, placed.message) == placed.fingerprint
    assert without_text("crashed", "Crash", "killed") == "crashed"


@given(st.text(st.characters()), st.text(st.characters()))
def test_any_text_has_a_fingerprint(kind, message):
    assert len(of_text(kind, message)) == 12


def test_an_exception_whose_attributes_raise_has_a_fingerprint():
    class Hostile(Exception):
        @property
        def __traceback__(self):
            raise RuntimeError("no")

        def __str__(self):
            raise RuntimeError("no")

    assert len(of(Hostile())) == 12


def test_a_deep_traceback_has_a_fingerprint():
    def recurses():
        recurses()

    assert len(of(caught(recurses))) == 12


def test_files_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(fingerprint, "_FILES", 2)
    monkeypatch.setattr(fingerprint, "_files", {})

    for name in ("a", "b", "c"):
        fingerprint._remembered(f"/somewhere/{name}.py")

    assert len(fingerprint._files) <= 2


def test_two_processes_say_the_same(tmp_path):
    (tmp_path / "shop.py").write_text("def pay(n):\n    raise ValueError(n)\n")
    program = """
        import shop
        from onward.base.failure import describe
        try:
            shop.pay(1)
        except ValueError as error:
            print(describe(error).fingerprint)
    """
    run = [sys.executable, "-c", textwrap.dedent(program)]
    seeds = [{"PYTHONHASHSEED": seed, "PYTHONPATH": "."} for seed in ("1", "2")]
    told = {subprocess.run(run, cwd=tmp_path, env=env, check=True, capture_output=True).stdout for env in seeds}

    assert len(told) == 1
    assert len(told.pop().strip()) == 12
