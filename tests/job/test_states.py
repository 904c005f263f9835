"""The table of moves: consistent in itself, and drawn as it is."""

import pytest

from onward.job import states
from onward.job.states import FINISHED, LIVE, MOVES, State, allows


def test_every_state_is_either_live_or_finished():
    assert set(State) == LIVE | FINISHED
    assert not LIVE & FINISHED


def test_the_words_are_the_ones_that_stores_keep():
    assert [state.value for state in State] == [
        "scheduled",
        "available",
        "executing",
        "retryable",
        "completed",
        "discarded",
        "cancelled",
    ]


def test_a_state_is_its_word():
    assert State.COMPLETED == "completed"
    assert f"{State.COMPLETED}" == "completed"


def test_no_move_has_two_rows():
    names = [move.name for move in MOVES]

    assert len(names) == len(set(names))


def test_every_state_can_be_reached():
    assert {move.target for move in MOVES} == set(State)


def test_nothing_leads_out_of_completed():
    assert [move.name for move in MOVES if State.COMPLETED in move.sources] == []


def test_every_other_state_can_be_left():
    assert {source for move in MOVES for source in move.sources} == {None, *State} - {State.COMPLETED}


def test_only_enqueueing_comes_from_nowhere():
    assert {move.name for move in MOVES if None in move.sources} == {"enqueue", "enqueue_later"}


def test_only_a_claim_starts_a_job():
    assert {move.name for move in MOVES if move.target is State.EXECUTING} == {"claim"}


def test_a_finished_job_comes_back_only_by_replay():
    assert {move.name for move in MOVES if move.sources & FINISHED} == {"replay"}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_a_move_is_allowed_from_its_sources_and_from_nowhere_else(move, state):
    assert allows(move.name, state) == (state in move.sources)


def test_a_move_that_does_not_exist_is_not_allowed():
    assert not allows("teleport", State.AVAILABLE)


@pytest.mark.parametrize("state", State)
def test_the_picture_shows_every_state(state):
    assert state.value in states.__doc__


@pytest.mark.parametrize(
    "move", ["enqueue", "due", "claim", "ack", "skip", "nack", "snooze", "park", "release", "abandon", "replay"]
)
def test_the_picture_shows_the_moves_that_everybody_meets(move):
    assert move in states.__doc__
    assert any(known.name == move for known in MOVES)
