"""The layout of a record is written once, in `layout`: the scripts take their names from there."""

import re
from importlib.resources import files

import pytest

from onward.backends.redis import layout
from onward.backends.redis.scripts import load

SCRIPTS = files("onward.backends.redis").joinpath("scripts")
VERBS = sorted(each.name.removesuffix(".lua") for each in SCRIPTS.iterdir() if each.name.endswith(".lua"))
MOST_LOCALS = 200  # of Lua


def test_scripts_write_no_format_but_that_of_an_instant():
    texts = [each.read_text() for folder in (SCRIPTS, SCRIPTS / "lib") for each in folder.iterdir() if each.is_file()]

    assert {found for text in texts for found in re.findall(r"'(>\w+)'", text)} == {">I8"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_script_declares_no_name_of_the_layout_again_and_no_more_than_lua_allows(verb):
    names = [name for line in load(verb).text.decode().splitlines() for name in declared(line)]
    given = {name for line in layout.lua().splitlines() for name in declared(line)}

    assert [name for name in names if name in given and names.count(name) > 1] == []
    assert len(names) <= MOST_LOCALS


def test_fields_follow_each_other():
    places = dict(re.findall(r"(\w+) = (\d+)", re.search(r"FROM = \{(.*)\}", layout.lua())[1]))

    assert int(places["rest"]) == 1 + layout.binary(layout.FENCE).size + layout.binary(layout.HEADER).size
    assert layout.picked(layout.FENCE | layout.HEADER, owner=0).size + 1 == int(places["rest"])


def declared(line):
    found = re.match(r"local (?:function )?([\w, ]+)", line)
    return found[1].replace(" ", "").split(",") if found else []
