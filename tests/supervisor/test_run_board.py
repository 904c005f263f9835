"""What a worker process has begun, as its supervisor reads it."""

import os
import signal
import struct
from contextlib import suppress

import pytest

from onward.supervisor.run_board import BegunRun, RunBoard

NEVER = float("inf")


@pytest.fixture
def board():
    board = RunBoard.create()
    yield board
    board.close()


@pytest.fixture
def reader(board):
    """The same memory, seen by another process."""
    reader = RunBoard(os.dup(board.fd))
    yield reader
    reader.close()


def test_what_has_begun_is_seen_until_it_is_answered_for(board, reader):
    board.begin(("a", 1), 12.5)
    board.begin(("b", 7))
    board.begin(("c", 2), pid=99)

    assert reader.begun() == [BegunRun("a", 1, 12.5, 0), BegunRun("b", 7, NEVER, 0), BegunRun("c", 2, NEVER, 99)]
    board.end([("b", 7), ("c", 2), ("unknown", 1)])
    assert reader.begun() == [BegunRun("a", 1, 12.5, 0)]


@pytest.mark.parametrize("token", [-(2**63), -(10**9), -1, 0, 2**31, 2**63 - 1])
def test_every_token_that_a_store_can_hold_is_written_as_it_is(board, reader, token):
    with suppress(struct.error):  # what could not be written is not seen
        board.begin(("a", token))

    assert reader.begun() == [BegunRun("a", token, NEVER, 0)]


def test_what_has_returned_is_not_late(board, reader):
    board.begin(("a", 1), 12.5)
    board.left(("a", 1))
    board.left(("unknown", 1))

    assert reader.begun() == [BegunRun("a", 1, NEVER, 0)]


def test_beginning_again_takes_no_second_cell(board, reader):
    board.begin(("a", 1), 12.5)
    board.begin(("a", 1), pid=7)

    assert reader.begun() == [BegunRun("a", 1, NEVER, 7)]
    board.end([("a", 1)])
    assert reader.begun() == []


def test_cells_are_used_again_and_all_can_be_used(board, reader):
    for token in range(3 * board.capacity):
        board.begin(("a", token))
        board.end([("a", token)])
    keys = [(f"{number:032x}", number) for number in range(board.capacity)]
    for key in keys:
        board.begin(key)

    assert sorted((begun.id, begun.token) for begun in reader.begun()) == sorted(keys)


def test_the_names_of_a_session_and_its_successor_are_seen(board, reader):
    assert reader.owners() == []
    board.name("first")
    assert reader.owners() == ["first"]
    board.name("first", "second")
    assert reader.owners() == ["first", "second"]
    board.name("second")
    assert reader.owners() == ["second"]


def test_beats_and_settlements_are_counted(board, reader):
    assert (reader.beats(), reader.settled()) == (0, 0)
    board.beat()
    board.beat()
    board.count(3)
    board.count(0)
    board.count(4)

    assert (reader.beats(), reader.settled()) == (2, 7)


@pytest.mark.promise("F04")
def test_it_outlives_the_process_that_wrote_it(board):
    child = os.fork()
    if child == 0:
        board.name("me")
        board.begin(("a", 1))
        os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    assert (board.owners(), board.begun()) == (["me"], [BegunRun("a", 1, NEVER, 0)])


def test_an_id_that_is_too_long_does_no_harm_to_its_neighbours(board, reader):
    board.begin(("x" * 100, 1))
    board.begin(("b", 2))

    assert [(begun.id, begun.token) for begun in reader.begun()] == [("x" * 40, 1), ("b", 2)]
