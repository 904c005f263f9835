"""The limits of the house, on small trees made for each test: each rule can fail, and so can an exception."""

import textwrap

import pytest

from tools import limits


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / limits.SOURCE
    folder.mkdir(parents=True)
    return folder


def _write(package, **texts):
    """Write modules: ``worker__pump="..."`` is worker/pump.py."""
    for name, text in texts.items():
        path = package / (name.replace("__", "/") + ".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))


def _complaints(package, exceptions=()):
    return limits.find_complaints(package, dict(exceptions))


def test_a_tree_within_the_limits_has_no_complaints(package):
    _write(
        package,
        app="from onward.worker.pump import Pump",
        worker__pump="class Pump:\n    def __init__(self, a, b, c, d, *, e, f, g, h): ...\n" + "# why\n" * 398,
    )

    assert _complaints(package) == []


def test_a_module_of_401_lines_is_told(package):
    _write(package, worker__pump="# why\n" * 401)

    assert _complaints(package) == ["worker/pump.py: 401 lines, more than 400"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_function_of_51_lines_is_told(package, kind):
    _write(package, worker__pump=f"class Pump:\n    {kind} run(self):\n" + "        print()\n" * 50)

    assert _complaints(package) == ["worker/pump.py:2: Pump.run has 51 lines, more than 50"]


def test_a_function_of_50_lines_is_not(package):
    _write(package, worker__pump="def run():\n" + "    print()\n" * 49)

    assert _complaints(package) == []


def test_a_nested_function_counts_with_the_one_around_it(package):
    _write(package, worker__pump="def outer():\n    def inner():\n" + "        print()\n" * 50)

    assert _complaints(package) == [
        "worker/pump.py:1: outer has 52 lines, more than 50",
        "worker/pump.py:2: outer.inner has 51 lines, more than 50",
    ]


@pytest.mark.parametrize(
    "parameters", ["a, b, c, d, e, f, g, h, i", "a, b, c, d, /, e, *, f, g, h, i", "a, b, c, d, e, f, g, *h, **i"]
)
def test_a_constructor_with_nine_parameters_is_told(package, parameters):
    _write(package, worker__pump=f"class Pump:\n    def __init__(self, {parameters}): ...")

    assert _complaints(package) == ["worker/pump.py:2: Pump.__init__ takes 9 parameters, more than 8"]


def test_nine_fields_of_a_value_are_columns(package):
    _write(package, job__row="class Row(Struct):\n" + "".join(f"    {name}: int\n" for name in "abcdefghi"))

    assert _complaints(package) == []


def test_two_public_classes_of_one_name_are_told(package):
    _write(package, worker__pump="class Line: ...", base__ipc="class Line: ...", job__lease="class _Line: ...")

    assert _complaints(package) == ["several public classes are called Line: base/ipc.py, worker/pump.py"]


def test_a_class_that_is_defined_in_two_branches_of_one_module_has_one_name(package):
    _write(package, worker__pump="try:\n    class Line: ...\nexcept ImportError:\n    class Line: ...")

    assert _complaints(package) == []


def test_the_same_file_of_two_stores_may_use_the_same_name_and_another_file_may_not(package):
    (package / "backends").mkdir()
    for store in ("mysql", "redis"):
        (package / "backends" / store).mkdir()
        (package / "backends" / store / "url.py").write_text("class Address: ...")
    assert _complaints(package) == []

    (package / "backends" / "sql").mkdir()
    (package / "backends" / "sql" / "url.py").write_text("class Address: ...")

    assert _complaints(package) == ["several public classes are called Address: backends/*/url.py, backends/sql/url.py"]


@pytest.mark.parametrize(
    "back",
    [
        "from onward.worker.pump import Pump",
        "import onward.worker.pump",
        "from onward.worker import pump",
        "def late():\n    from onward.worker.pump import Pump",
    ],
)
def test_a_cycle_of_imports_is_told(package, back):
    _write(
        package,
        worker__pump="from onward.worker.session import Session",
        worker__session="from onward.worker.inflight import Work",
        worker__inflight=back,
    )

    assert _complaints(package) == [
        "these modules import each other: onward.worker.inflight, onward.worker.pump, onward.worker.session"
    ]


def test_a_module_or_folder_at_the_root_that_is_neither_door_nor_room_is_told(package):
    _write(package, helpers="", utils__text="", errors="", base__ids="")

    assert _complaints(package) == [
        "helpers.py: neither a door nor a room; put it into a room",
        "utils: neither a door nor a room; put it into a room",
    ]


def test_an_exception_silences_its_subject_and_nothing_else(package):
    _write(package, worker__pump="# why\n" * 401, worker__session="# why\n" * 401)

    assert _complaints(package, {"module worker/pump.py": "one state machine"}) == [
        "worker/session.py: 401 lines, more than 400"
    ]


def test_an_exception_that_is_not_needed_any_more_and_one_without_a_reason_are_told(package):
    _write(package, worker__pump="# why\n" * 401)

    complaints = _complaints(package, {"module worker/pump.py": "", "class Line": "both are lines"})

    assert complaints == [
        "tools/limits.py: the exception 'class Line' is not needed any more",
        "tools/limits.py: the exception 'module worker/pump.py' has no reason",
    ]


def test_the_command_tells_by_its_exit_code(package, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(limits, "EXCEPTIONS", {})
    assert limits.main(["check"], root=tmp_path) == 0

    _write(package, helpers="")

    assert limits.main(["check"], root=tmp_path) == 1
    assert "helpers.py" in capsys.readouterr().err
