"""`onward flow`: flows in a list, one as a picture, cancelling and retrying."""

import json
import logging
from argparse import Namespace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import Onward
from onward.cli import flows, output
from onward.cli.exits import Exit, code_of
from onward.cli.graph_picture import draw
from onward.errors import FlowNotFound

APP = """\
from onward import Onward

jobs = Onward("sync://", default_max_retries=0)

@jobs.job
def note(word: str) -> str:
    return word

@jobs.job
def breaks() -> None:
    raise ValueError

def made():
    flow = jobs.flow("shown")
    first = flow.add(note, "a")
    many = flow.map(note, [("b",), ("c",)], after=first, node="many")
    bad = flow.add(breaks, after=first)
    flow.add(note, "d", after=[many, bad], node="last")
    flow.add(note, "e", after=bad, when="failed", node="alarm")
    flow.enqueue()
    return jobs
"""


@pytest.fixture
def jobs(caplog):
    caplog.set_level(logging.CRITICAL + 1, logger="onward")
    with Onward("memory://", default_max_retries=0) as jobs:
        yield jobs


@pytest.fixture
def note(jobs):
    @jobs.job
    def note(word: str) -> str:
        return word

    return note


@pytest.fixture
def run(jobs, capsys):
    """Call a command on this process's own store; return its code and what it printed."""

    def call(command, **args):
        plain = {
            "json": False,
            "quiet": False,
            "name": None,
            "live": False,
            "limit": 100,
            "reason": "why not",
            "by": "ann",
        }
        code = command(jobs, Namespace(**(plain | args)))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_flows_are_listed_for_people_and_machines(jobs, note, run):
    first = jobs.chain(note.call("a"), note.call("b"), name="first").enqueue()
    jobs.drain()
    second = jobs.chain(note.call("a"), name="second").enqueue()

    code, out, err = run(flows.list_flows)
    heading, *lines = out.splitlines()
    data = [json.loads(line) for line in run(flows.list_flows, json=True)[1].splitlines()]

    assert (code, err) == (Exit.OK, "")
    assert heading.split() == ["ID", "FLOW", "STATE", "NODES", "JOBS", "BEGUN", "OVER"]
    assert [line.split()[:5] for line in lines] == [
        [second.id, "second", "running", "1", "1"],
        [first.id, "first", "completed", "2", "2"],
    ]
    assert [(each["id"], each["state"], each["is_open"]) for each in data] == [
        (second.id, "running", False),
        (first.id, "completed", False),
    ]
    assert run(flows.list_flows, live=True)[1].count("\n") == 2
    assert run(flows.list_flows, name="first")[1].count("\n") == 2


def test_a_store_without_flows_says_how_to_make_one(run):
    code, out, err = run(flows.list_flows)

    assert code == Exit.OK
    assert out.split()[:2] == ["ID", "FLOW"] or out == ""
    assert "jobs.flow(" in err


def test_one_flow_is_drawn(jobs, note, run):
    @jobs.job
    def breaks() -> None:
        raise ValueError

    flow = jobs.flow("shown")
    first = flow.add(note, "a")
    many = flow.map(note, [("b",), ("c",)], after=first, node="many")
    bad = flow.add(breaks, after=first)
    flow.add(note, "d", after=[many, bad], node="last")
    flow.add(note, "e", after=bad, when="failed", node="alarm")
    flow.node("later", after=many, when="finished")
    handle = flow.enqueue()
    jobs.process_once()
    jobs.process_once()

    _, out, _ = run(flows.show, id=handle.id)
    assert out.splitlines()[0] == f"shown running  {handle.id}"
    assert "33% of 6 jobs are over" in out
    assert out.splitlines()[4:] == [
        "● note         completed  1 completed",
        "├─◐ many       open  1 available, 1 completed",
        "╰─│─◐ breaks   open  1 available",
        "  ├─│─○ later  waiting  no jobs  either way",
        "  ╰─┼─○ last   waiting  1 scheduled",
        "    ╰─○ alarm  waiting  1 scheduled  if one failed",
    ]
    jobs.drain()
    _, out, _ = run(flows.show, id=handle.id)
    assert "✗ breaks" in out
    assert "⊘ last" in out
    assert "● alarm" in out
    data = json.loads(run(flows.show, id=handle.id, json=True)[1])
    assert (data["state"], data["name"]) == ("failed", "shown")
    assert data["graph"][4] == {
        "name": "last",
        "state": "passed_over",
        "after": ["many", "breaks"],
        "when": "succeeded",
        "total": 1,
        "counts": {"cancelled": 1},
    }


def test_a_long_chain_is_listed(jobs, note, run):
    handle = jobs.chain(*(note.call(str(n)) for n in range(40))).enqueue()

    *_, last = run(flows.show, id=handle.id)[1].splitlines()

    assert last == "○ note-40  waiting  1 scheduled  after note-39"


def test_no_line_is_wider_than_the_terminal(jobs, note, run, monkeypatch):
    flow = jobs.flow("wide")
    before = [flow.add(note, "a", node=f"a-node-with-a-rather-long-name-{place}") for place in range(40)]
    flow.add(note, "b", after=before)
    handle = flow.enqueue()
    *_, whole = run(flows.show, id=handle.id)[1].splitlines()
    monkeypatch.setattr(output, "width", lambda: 80)

    lines = run(flows.show, id=handle.id)[1].splitlines()

    assert max(map(len, lines)) <= 80 < len(whole)
    assert lines[-1].endswith("…")
    assert all(f"a-node-with-a-rather-long-name-{place}" in lines[4 + place] for place in range(40))


def test_flows_are_cancelled_and_retried(jobs, note, run):
    handle = jobs.chain(note.call("a"), note.call("b")).enqueue()

    assert run(flows.cancel, ids=[handle.id]) == (Exit.OK, f"{handle.id} cancelled\n", "")
    assert run(flows.cancel, ids=[handle.id]) == (Exit.OK, f"{handle.id} was over already\n", "")
    assert {record.reason for record in jobs.list()} >= {"why not"}
    assert run(flows.retry, ids=[handle.id]) == (Exit.OK, f"{handle.id} 2 jobs replayed\n", "")
    assert json.loads(run(flows.retry, ids=[handle.id], json=True)[1]) == {"flow": handle.id, "replayed": 0}
    jobs.drain()
    assert handle.state() == "completed"


def test_a_flow_that_is_not_there(run):
    for command, args in ((flows.show, {"id": "x"}), (flows.cancel, {"ids": ["x"]}), (flows.retry, {"ids": ["x"]})):
        with pytest.raises(FlowNotFound) as error:
            run(command, **args)
        assert code_of(error.value) is Exit.NOTHING


def test_the_command_finds_the_flows_of_an_application(onward, tmp_path):
    (tmp_path / "flow_shop.py").write_text(APP)

    ran = onward("--app", "flow_shop:made()", "flow", "list", "--json")

    assert ran.code == 0, ran.err
    assert [(flow["name"], flow["state"], flow["jobs"]) for flow in ran.json] == [("shown", "failed", 6)]


@pytest.mark.parametrize(
    ("nodes", "lines"),
    [
        ([("a", [])], ["a"]),
        ([("a", []), ("b", ["a"]), ("c", ["b"])], ["a", "╰─b", "  ╰─c"]),
        ([("a", []), ("b", []), ("c", ["a", "b"])], ["a", "│ b", "╰─┴─c"]),
        (
            [("a", []), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"])],
            ["a", "├─b", "╰─│─c", "  ╰─┴─d"],
        ),
        ([("a", []), ("b", ["a"]), ("c", []), ("d", ["a", "c"])], ["a", "├─b", "│ c", "╰─┴─d"]),
    ],
)
def test_small_graphs(nodes, lines):
    assert [line.rails + line.name for line in draw(nodes)] == lines


@given(st.lists(st.integers(0, 2**12 - 1), min_size=1, max_size=12))
def test_every_edge_is_drawn(masks):
    """Each node begins where its line ends, and there are as many joints on the line as nodes that it comes after."""
    names = [chr(ord("a") + place) for place in range(len(masks))]
    nodes = [
        (name, [names[at] for at in range(place) if mask >> at & 1])
        for place, (name, mask) in enumerate(zip(names, masks, strict=True))
    ]

    lines = draw(nodes)

    assert [line.name for line in lines] == names
    for (_, after), line in zip(nodes, lines, strict=True):
        assert sum(line.rails.count(joint) for joint in "├╰┼┴") == len(after)
    for upper, lower in pairwise(lines):
        for column, sign in enumerate(lower.rails):
            if sign in "├╰┼┴│":  # a rail goes on from the line above, or from the node that stands there
                assert column == len(upper.rails) or upper.rails[column] in "├┼│"
