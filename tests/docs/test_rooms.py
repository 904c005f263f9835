"""The text of each room: short, with the names of its modules, and of none that does not exist."""

import ast
import re
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parents[2] / "src/onward"
_ROOMS = sorted(file.parent for file in _SOURCE.rglob("__init__.py") if file.parent != _SOURCE)
_NAME = re.compile(r"(?<!`)`([a-z_]+(?:[/.][a-z_]+)*)/?`(?!`)")  # in double backticks stands code

# Stores have the same file names, commands are listed by `--help`, topics of the contract suite in its `TOPICS`.
_NAMED_IN_PART = {
    "cli",
    "testing/contract",
    *(f"backends/{store}" for store in ("sqlite", "postgres", "mysql", "redis")),
}
_NAMED_IN_PART |= {f"backends/{broker}" for broker in ("beanstalk", "servicebus")}


def _place(room):
    return room.relative_to(_SOURCE).as_posix()


def _text(room):
    return ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""


def _modules(room):
    files = {each.stem for each in room.glob("*.py")} - {"__init__"}
    return files | {each.parent.name for each in room.glob("*/__init__.py")}


def _exists(name, room):
    path = name if Path(name).suffix in {".sql", ".lua"} else name.removeprefix("onward.").replace(".", "/")
    places = (room, room.parent, _SOURCE)
    return any((place / path).exists() or (place / f"{path}.py").exists() for place in places)


@pytest.mark.parametrize("room", _ROOMS, ids=_place)
def test_the_text_of_a_room_is_short(room):
    prose = [line for line in _text(room).splitlines() if line and not line.startswith("    ")]

    assert 1 <= len(prose) <= 10


@pytest.mark.parametrize("room", _ROOMS, ids=_place)
def test_a_room_names_only_what_exists(room):
    assert [name for name in _NAME.findall(_text(room)) if not _exists(name, room)] == []


@pytest.mark.parametrize("room", [room for room in _ROOMS if _place(room) not in _NAMED_IN_PART], ids=_place)
def test_a_room_names_each_of_its_modules(room):
    assert _modules(room) - set(_NAME.findall(_text(room))) == set()
