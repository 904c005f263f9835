"""What all worker processes of a supervisor have counted: it survives them, and never goes back."""

import random

import pytest

from onward.supervisor.boards import Boards
from onward.supervisor.run_board import RunBoard
from onward.telemetry.counters import OTHER, SERIES
from onward.telemetry.numbers import Numbers, differences

SEND = ("mail", "send")


class Process:
    """A process as `Boards` knows it."""

    def __init__(self, number):
        self.number = number
        self.board = RunBoard.create()
        self.forget = self.board.close


class Fleet(dict):
    """Processes by number."""

    def __init__(self):
        super().__init__()
        self.boards = Boards(self.values())

    def start(self, number):
        self[number] = Process(number)
        return self[number].board

    def end(self, number):
        return self.boards.remove(self[number], lambda: self.pop(number))


@pytest.fixture
def fleet():
    fleet = Fleet()
    yield fleet
    for process in fleet.values():
        process.forget()


@pytest.mark.promise("S120")
def test_what_a_process_has_counted_survives_it(fleet):
    first, second = fleet.start(1), fleet.start(2)
    first.counters.add("jobs_fetched", SEND, 3)
    first.counters.add_successes(SEND, [1, 2])
    second.counters.add("jobs_fetched", SEND, 4)
    before = fleet.boards.counted()

    first.name("owner")
    first.begin(("a", 1))
    owners, begun = fleet.end(1)
    after = fleet.boards.counted()
    fleet.end(2)

    assert owners == ["owner"]
    assert [each.id for each in begun] == ["a"]
    assert before[SEND].counters == {"jobs_fetched": 7, "jobs_succeeded": 2}
    assert before == after == fleet.boards.counted()
    fleet.start(3).counters.add("jobs_fetched", SEND)
    assert differences(fleet.boards.counted(), after) == {SEND: Numbers({"jobs_fetched": 1})}


def test_the_sessions_to_renew_are_those_of_processes_that_have_one(fleet):
    fleet.start(1).name("first", "successor")
    fleet.start(2)

    assert fleet.boards.sessions() == [(1, "first")]


@pytest.mark.promise("S120", "S124")
def test_pairs_beyond_the_bound_are_added_up_however_processes_come_and_go(fleet):
    """Each generation brings pairs that no other one has; a reading may come at any moment, or not at all."""
    draw, total, last = random.Random(7), 0, {}
    for generation in range(12):
        board = fleet.start(generation)
        for number in range(60):
            board.counters.add("jobs_fetched", (f"queue{generation}", f"job{number}"))
            board.counters.add("jobs_fetched", SEND)
            total += 2
        if draw.random() < 0.5:
            read = fleet.boards.counted()
            assert all(count >= 0 for each in differences(read, last).values() for count in each.counters.values()), (
                generation
            )
            assert last.keys() <= read.keys()
            last = read
        if draw.random() < 0.7:
            fleet.end(draw.choice(list(fleet)))
    read = fleet.boards.counted()

    assert len(read) == SERIES
    assert read[SEND].counters["jobs_fetched"] == total / 2
    assert sum(each.counters["jobs_fetched"] for each in read.values()) == total
    assert read[OTHER].counters["jobs_fetched"] > 0
    assert all(count >= 0 for each in differences(read, last).values() for count in each.counters.values())
