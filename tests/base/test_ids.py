"""Ids: UUIDv7, in order within a process, never the same twice."""

import copy
import itertools
import os
import signal
import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.base.clock import SECOND
from onward.base.ids import IdMaker, derived_id, earliest_id, random_owner
from onward.testing import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def new_id(clock):
    return IdMaker(clock)


def in_a_fork(function):
    """What a call answers in a forked child, as lines."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)  # a child that hangs ends
        try:
            os.write(write, "\n".join(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as stream:
        lines = stream.read().splitlines()
    os.waitpid(pid, 0)
    return lines


def test_an_id_is_a_uuid_of_version_seven(new_id):
    for _ in range(1000):
        made = uuid.UUID(hex=new_id())
        assert (made.version, made.variant) == (7, uuid.RFC_4122)


def test_an_id_is_written_as_32_hex_digits(new_id):
    made = new_id()

    assert made == uuid.UUID(hex=made).hex


def test_an_id_tells_the_millisecond_in_which_it_was_made(new_id, clock):
    assert int(new_id()[:12], 16) == clock.micros() // 1000


def test_ids_rise_while_the_clock_stands_still(new_id):
    made = [new_id() for _ in range(10_000)]

    assert all(one < next_ for one, next_ in itertools.pairwise(made))


def test_ids_rise_while_the_clock_goes_back(new_id, clock):
    made = []
    for _ in range(1000):
        made.append(new_id())
        clock.advance(-0.5)

    assert made == sorted(set(made))


@given(st.lists(st.integers(-5_000, 5_000), max_size=50))
def test_ids_rise_however_the_clock_moves(steps):
    clock = FakeClock()
    new_id, made = IdMaker(clock), []

    for step in steps:
        clock.advance(step / 1000)
        made.append(new_id())

    assert made == sorted(set(made))


def test_ids_rise_when_the_random_part_overflows(new_id):
    first = new_id()
    new_id._tail = (1 << 74) - 1

    second = new_id()

    assert int(second[:12], 16) == int(first[:12], 16) + 1
    assert uuid.UUID(hex=second).version == 7


def test_ids_of_many_threads_are_all_different_and_rise_in_each(new_id):
    made, start = [[] for _ in range(8)], threading.Barrier(8)

    def make(mine):
        start.wait()
        mine.extend(new_id() for _ in range(2_000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(mine == sorted(mine) for mine in made)
    assert len({one for mine in made for one in mine}) == 16_000


def test_ids_made_together_rise_like_any_others(new_id):
    made = [new_id(), *new_id.many(1000), new_id(), *new_id.many(0), *new_id.many(1)]

    assert made == sorted(set(made))
    assert len(made) == 1003
    assert {uuid.UUID(hex=each).version for each in made} == {7}


@pytest.mark.parametrize(
    "tail", [(1 << 62) - 1, (1 << 62) - 500 * (1 << 31), (1 << 74) - 2, (1 << 74) - 500 * (1 << 31)]
)
def test_ids_made_together_rise_over_the_limit_of_their_lower_half(new_id, tail):
    new_id()
    new_id._tail = tail

    made = [*new_id.many(1000), new_id()]

    assert made == sorted(set(made))
    assert {(uuid.UUID(hex=each).version, uuid.UUID(hex=each).variant) for each in made} == {(7, uuid.RFC_4122)}


def test_a_fork_that_python_was_not_told_of_makes_other_ids_than_its_parent(new_id, clock, monkeypatch):
    new_id()
    inherited = copy.copy(new_id)  # what such a fork has: the same state, and another process
    inherited._pool = list(new_id._pool)

    with monkeypatch.context() as fork:
        fork.setattr(os, "getpid", lambda: -1)
        theirs = [inherited() for _ in range(100)]
    ours = [new_id() for _ in range(100)]

    assert len({*theirs, *ours}) == 200


def test_a_forked_child_makes_other_ids_than_its_parent(new_id):
    new_id()

    theirs = in_a_fork(lambda: [new_id() for _ in range(1000)])
    ours = [new_id() for _ in range(1000)]

    assert len({*theirs, *ours}) == 2000


def test_two_forked_children_make_different_ids(new_id):
    one = in_a_fork(lambda: [new_id() for _ in range(1000)])
    other = in_a_fork(lambda: [new_id() for _ in range(1000)])

    assert len({*one, *other}) == 2000


def test_a_fork_while_another_thread_makes_an_id_does_not_hang_the_child(new_id):
    with new_id._lock:
        theirs = in_a_fork(lambda: [new_id()])

    assert len(theirs) == 1


@given(st.integers(0, 4_000_000_000 * SECOND))
def test_the_earliest_id_of_a_moment_is_not_above_any_id_made_then(micros):
    clock = FakeClock()
    clock.advance((micros - clock.micros()) / SECOND)

    assert earliest_id(clock.micros()) <= IdMaker(clock)()


def test_the_earliest_id_of_the_next_millisecond_is_above_every_id_made_before(new_id, clock):
    made = [new_id() for _ in range(1000)]

    assert max(made) < earliest_id(clock.micros() + 1000)


def test_the_earliest_id_of_a_time_before_the_epoch_is_the_smallest_there_is():
    assert earliest_id(-5) == "0" * 32


def test_a_derived_id_is_always_the_same():
    assert derived_id("a", 1, "dead-letter") == "e0ae2ef19c11563e80ec2f055c953ac1"


def test_a_derived_id_is_another_for_another_job_token_or_purpose():
    derived = {
        derived_id(job, token, purpose) for job in ("a", "b") for token in (1, 2) for purpose in ("dead-letter", "copy")
    }

    assert len(derived) == 8


def test_an_owner_is_128_random_bits():
    owners = {random_owner() for _ in range(1000)}

    assert len(owners) == 1000
    assert all(len(bytes.fromhex(owner)) == 16 for owner in owners)
