"""What has broken other job systems, tried on this one.  The advisories are numbered as in docs/promises.md."""

import ast
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import onward
from onward import InvalidName, JobDiscardedError, Onward, config
from onward.errors import OnwardError

SOURCES = Path(onward.__file__).parent
# Names of things that would run if they were imported, built or called as what a text says.
HOSTILE_NAMES = ["os.system", "builtins.eval", "subprocess.Popen", "antigravity", "__import__", "onward.app:Onward"]


@cache
def _imports_and_calls():
    """Every module that the package imports, and every name that it calls."""
    return frozenset(_found())


def _found():
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                yield from (name.name.partition(".")[0] for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield (node.module or "").partition(".")[0]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield f"{node.func.id}()"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield f".{node.func.attr}()"


def _used_of(module):
    """Return what the sources take out of a module; all of it where they give it another name."""
    used = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module == module:
                used.update(name.name for name in node.names)
            elif isinstance(node, ast.Import):
                used.update("*" for name in node.names if name.name == module and name.asname)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module:
                used.add(node.attr)
    return used


class TestTheSourcesHaveNoneOfIt:
    @pytest.mark.promise("CVE-2023-50943", "CVE-2026-27794", "CVE-2025-61765")
    def test_no_serializer_that_runs_code_is_there_to_be_enabled(self):
        found = _imports_and_calls()

        assert "msgspec" in found  # the search finds what is there
        assert found.isdisjoint({"pickle", "cPickle", "dill", "cloudpickle", "shelve", "jsonpickle"})

    @pytest.mark.promise("CVE-2023-50943", "CVE-2026-27794", "CVE-2025-61765")
    def test_marshal_only_writes(self):
        """Equal values have equal bytes, which compares them quickly; no bytes are turned into a value or into code."""
        assert _used_of("marshal") == {"dumps"}

    @pytest.mark.promise("CVE-2021-41078", "CVE-2022-21797")
    def test_no_text_is_evaluated(self):
        found = _imports_and_calls()

        assert "len()" in found
        assert found.isdisjoint({"eval()", "exec()", "compile()", "__import__()", "yaml", "ast"})

    @pytest.mark.promise("CVE-2011-4356")
    def test_no_privilege_is_dropped_by_halves(self):
        """It never changes its user: the program that starts it decides.  So there is no order to get wrong."""
        assert {
            name for name in _imports_and_calls() if re.fullmatch(r"\.sete?[ug]id\(\)|\.setres[ug]id\(\)", name)
        } == set()


class TestStoredNamesAreInert:
    @pytest.mark.promise("CVE-2026-45360")
    @pytest.mark.parametrize("name", HOSTILE_NAMES)
    def test_a_job_is_what_was_registered_and_nothing_that_its_name_could_mean(self, jobs, attack, name):
        with Onward("memory://") as other:  # the first run of a process loads what runs jobs
            other.enqueue("innocent")
            assert other.process_once().status == "parked"
        handle = jobs.enqueue("innocent")
        stored = jobs.get(handle.id).raw.replace(b'"job":"innocent"', json.dumps({"job": name}).encode()[1:-1])
        assert attack("UPDATE onward_jobs SET sealed = ?, job = ?", stored, name) == 1
        before = set(sys.modules)

        result = jobs.process_once()

        assert (result.status, jobs.get(handle.id).state) == ("parked", "scheduled")
        assert set(sys.modules) == before

    @pytest.mark.promise("CVE-2021-23727")
    @pytest.mark.parametrize("name", HOSTILE_NAMES)
    def test_an_error_that_names_a_class_is_text(self, jobs, attack, name):
        @jobs.job
        def work() -> None:
            raise ValueError("plain")

        handle = work.enqueue()
        jobs.drain()
        hostile = json.dumps({"exc_type": name, "exc_module": "os", "exc_message": ["touch owned"]})
        assert attack("UPDATE onward_attempts SET kind = ?, message = ?", name, hostile) == 1
        assert attack("UPDATE onward_finished SET result = ?", hostile.encode()) == 1
        before = set(sys.modules)

        (error,) = jobs.get(handle.id).errors
        with pytest.raises(JobDiscardedError) as discarded:
            handle.result(timeout=1)

        assert (error.kind, error.message) == (name, hostile)
        assert type(discarded.value) is JobDiscardedError
        assert not Path("owned").exists()
        assert set(sys.modules) == before

    @pytest.mark.promise("CVE-2018-16476")
    @pytest.mark.parametrize(
        "value",
        [
            {"_aj_globalid": "gid://app/User/1"},
            {"$secret": "x"},
            {"__class__": "os.system", "args": ["id"]},
            {"py/object": "subprocess.Popen"},
            {"secrets": ["value"], "enc": "aes"},
            "gid://app/User/1",
            "!!python/object/apply:os.system ['id']",
        ],
    )
    def test_arguments_cannot_be_taken_for_marks_of_ours(self, jobs, value):
        got = []

        @jobs.job
        def work(value: dict | str) -> None:
            got.append(value)

        work.enqueue(value)
        jobs.drain()

        assert got == [value]


class TestTextIsBound:
    @pytest.mark.promise("CVE-2025-1094")
    @pytest.mark.parametrize(
        "text", ["x'; DROP TABLE onward_jobs; --", 'x"', "x\\'", "x\x00y", "x\ny", "ｘ'", "\xbf'", "{x}", "%s", "x%27"]
    )
    def test_names_are_checked_and_values_never_part_of_a_statement(self, jobs, text):
        for write in (lambda: jobs.enqueue("work", queue=text), lambda: jobs.pause(text)):
            with pytest.raises(InvalidName):
                write()
        with pytest.raises(InvalidName):
            Onward("memory://", namespace=text)

        jobs.enqueue("work", {"text": text})
        assert jobs.get(text) is None
        assert sum(jobs.counts(text).values()) == 0
        assert [record.payload for record in jobs.list()] == [{"text": text}]


class TestDataIsBounded:
    @pytest.mark.promise("CVE-2020-10735")
    @pytest.mark.parametrize(
        ("payload", "told"),
        [
            ('{"n": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested"),
            ('{"n": ' + "[" * 65 + "]" * 65 + "}", "64 levels"),
            ('{"n": {' + ",".join(f'"{n}":0' for n in range(10_001)) + "}}", "10,000 names"),
        ],
    )
    def test_what_is_too_deep_or_too_wide_is_refused_where_it_is_enqueued(self, jobs, payload, told):
        sys.setrecursionlimit(before := sys.getrecursionlimit())
        value = _built(payload)

        @jobs.job
        def work(n: Any) -> None: ...

        with pytest.raises(OnwardError, match=told):
            work.enqueue(value)
        with pytest.raises(OnwardError, match=f"{told}|recursion"):
            jobs.enqueue("elsewhere", {"n": value})
        assert sum(jobs.counts().values()) == 0
        assert sys.getrecursionlimit() == before

    @pytest.mark.promise("CVE-2020-10735")
    def test_a_stored_number_of_a_million_digits_is_a_failure(self, jobs, attack):
        ran = []

        @jobs.job
        def work(n: Any) -> None:
            ran.append(n)

        handle = work.enqueue(1)
        raw = jobs.get(handle.id).raw.replace(b'"n":1', b'"n":' + b"9" * 1_000_000)
        assert attack("UPDATE onward_jobs SET sealed = ?", raw) == 1

        result = jobs.process_once()

        assert (result.status, ran) == ("dead-lettered", [])
        assert jobs.get(handle.id).state == "discarded"

    def test_a_hundred_thousand_stored_levels_are_a_failure(self, jobs, attack):
        @jobs.job
        def work(n: Any) -> None: ...

        handle = work.enqueue(1)
        raw = jobs.get(handle.id).raw.replace(b'"n":1', b'"n":' + b"[" * 100_000 + b"]" * 100_000)
        assert attack("UPDATE onward_jobs SET sealed = ?", raw) == 1

        assert jobs.process_once().status == "rejected"
        record = jobs.get(handle.id)
        assert (record.state, record.payload, record.raw) == ("discarded", None, raw)


@pytest.mark.promise("CVE-2021-41078")
@pytest.mark.parametrize("value", ["!!python/object/apply:os.system ['id']", "__import__('os')", "${jndi:ldap://x}"])
def test_settings_are_data(monkeypatch, value):
    monkeypatch.setenv("ONWARD_DEAD_LETTER_QUEUE", value)

    with pytest.raises(InvalidName):
        config.load({})


def _built(payload):
    """What a text of JSON means, however deep."""
    depth = payload.count("[")
    if depth == 0:
        return json.loads(payload)["n"]
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


class TestWhatIsShownIsNotTrusted:
    @pytest.mark.parametrize(
        "progress",
        [b"[]", b'"x"', b'{"fraction": "x", "more": 1}', b"{", b"\xff", b'{"fraction": 1e999}', b"[" * 100_000],
    )
    @pytest.mark.parametrize("result", [b"{", b"\xff", b"[" * 100_000])
    def test_a_job_whose_columns_say_nonsense_can_be_looked_at(self, jobs, attack, progress, result):
        @jobs.job
        def work() -> None: ...

        handle = work.enqueue()
        jobs.drain()
        assert attack("UPDATE onward_finished SET progress = ?, result = ?", progress, result) == 1

        record = jobs.get(handle.id)

        assert (record.state, record.progress, record.result) == ("completed", None, None)
        assert [each.id for each in jobs.list()] == [handle.id]
