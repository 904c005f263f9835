"""What a move says of what it could not do, and what it refuses."""

import os
import platform

import pytest

from onward.backend import Query, Session
from onward.backends.memory import MemoryBackend
from onward.errors import BackendMisconfigured, BackendRefused, BackendUnavailable, InvalidName
from onward.job.states import State
from onward.operate.transfer import Mover, movable_queues, waiting_in
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, some_envelopes


@pytest.fixture
def source(clock):
    return MemoryBackend(clock=clock)


@pytest.fixture
def target(clock):
    return MemoryBackend(clock=clock)


def test_queues_are_paused_at_both_ends_and_stay_so(source, target):
    source.enqueue(some_envelopes(3))

    report = Mover(source, target).move("default")

    assert (report.moved, report.is_complete) == (3, True)
    assert [(queue.name, queue.paused) for queue in source.queues()] == [("default", True)]
    assert [(queue.name, queue.paused) for queue in target.queues()] == [("default", True)]


def test_a_second_move_finds_nothing(source, target):
    source.enqueue(some_envelopes(3))
    Mover(source, target).move("default")

    again = Mover(source, target).move("default")

    assert (again.moved, again.there, again.is_complete, again.before, again.after) == (0, 0, True, 3, 3)


def test_other_queues_stay(source, target):
    source.enqueue([an_envelope(), other := an_envelope(queue="other")])

    Mover(source, target).move("default")

    assert [lease.envelope.id for lease in source.claim(a_claim(queues=("other",)))] == [other.id]


def test_queues_that_hold_only_dead_jobs_are_found(source):
    source.enqueue([an_envelope(queue="a"), an_envelope(queue="b")])
    source.abandon(source.claim(a_claim(queues=("b",)))[0], "dead")

    assert movable_queues(source) == ["a", "b"]
    assert [waiting_in(source, queue) for queue in ("a", "b", "c")] == [(1, 0), (1, 0), (0, 0)]


def test_jobs_that_run_are_counted_and_come_with_the_next_move(source, target):
    lease = a_lease(source)
    source.enqueue([an_envelope()])

    report = Mover(source, target).move("default")

    assert (report.moved, report.running, report.is_complete) == (1, 1, False)
    source.nack(lease)
    assert Mover(source, target).move("default").moved == 1


def test_jobs_that_run_are_waited_for(source, target, monkeypatch):
    lease = a_lease(source)
    monkeypatch.setattr("onward.operate.transfer.time.sleep", lambda _: source.nack(lease))

    report = Mover(source, target).move("default", wait=60)

    assert (report.moved, report.running, report.is_complete) == (1, 0, True)


def test_a_job_whose_unique_key_is_held_at_the_target_stays_and_is_named(source, target):
    source.enqueue([mine := an_envelope(unique_key="k"), *some_envelopes(3)])
    (holder,) = target.enqueue([an_envelope(unique_key="k")])

    report = Mover(source, target, batch=2).move("default")

    assert report.stayed == {mine.id: f"its unique key is held there by {holder.id}"}
    assert (report.moved, report.is_complete, report.missing) == (3, False, 0)
    assert source.get(mine.id).queue == "default"


def test_a_job_that_the_target_refuses_stays_and_is_named(source, target, monkeypatch):
    source.enqueue(envelopes := some_envelopes(5))
    accept = target.accept

    def refuse(transit, parcels):
        if any(parcel.id == envelopes[3].id for parcel in parcels):
            raise BackendRefused("too long")
        return accept(transit, parcels)

    monkeypatch.setattr(target, "accept", refuse)

    report = Mover(source, target).move("default")

    assert (report.moved, report.stayed) == (4, {envelopes[3].id: "too long"})
    assert source.get(envelopes[3].id).queue == "default"


def test_a_job_that_is_there_already_is_not_copied_again(source, target):
    envelopes = some_envelopes(2)
    source.enqueue(envelopes)
    target.enqueue(envelopes[:1])
    target.ack(target.claim(a_claim())[0])

    report = Mover(source, target).move("default")

    assert (report.moved, report.there, report.is_complete) == (1, 1, True)
    assert target.get(envelopes[0].id).state is State.COMPLETED


def test_another_job_of_the_same_id_is_no_reason_to_forget_this_one(source, target):
    mine = an_envelope()
    source.enqueue([mine])
    target.enqueue([an_envelope(id=mine.id, payload={"other": 1})])

    report = Mover(source, target).move("default")

    assert report.stayed == {mine.id: "another job has its id there"}
    assert source.get(mine.id).data == mine.data


def test_a_dead_job_whose_id_lives_again_does_not_vanish(source, target):
    first = an_envelope(payload={"life": 1})
    source.enqueue([first])
    source.abandon(source.claim(a_claim())[0], "dead")
    source.enqueue([again := an_envelope(id=first.id, payload={"life": 2})])

    Mover(source, target).move("default")

    assert target.get(first.id).data == again.data
    assert source.get(first.id).data == first.data


def test_somebody_who_resumes_the_source_in_the_middle_is_told_of(source, target, monkeypatch):
    source.enqueue(some_envelopes(6))
    forget = source.forget
    monkeypatch.setattr(source, "forget", lambda *args: (source.pause("default", paused=False), forget(*args))[1])

    report = Mover(source, target, batch=2).move("default")

    assert (report.source_paused, report.is_complete) == (False, False)
    assert report.missing == 0
    assert source.counts("default")[State.AVAILABLE] + target.counts("default")[State.AVAILABLE] == 6


def test_one_store_is_not_moved_to_itself(source):
    source.enqueue(some_envelopes(3))

    with pytest.raises(BackendMisconfigured, match="the same store"):
        Mover(source, source).move("default")

    assert [(queue.name, queue.paused, queue.live) for queue in source.queues()] == [("default", False, 3)]


def test_a_name_that_leaves_no_room_for_the_way_is_refused(source, target):
    with pytest.raises(InvalidName, match="at most"):
        Mover(source, target).move("q" * 100)


def test_one_mover_at_a_time(source, target):
    rival = Mover(source, target).at_work()
    with Mover(source, target).at_work(), pytest.raises(BackendUnavailable, match="another move"), rival:
        pass

    assert list(source.sessions()) == []


def test_a_mover_that_is_dead_keeps_nobody_away(source, target):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    source.open_session(Session(owner="move-dead", host=platform.node(), pid=pid))

    with Mover(source, target).at_work():
        assert [session.owner for session in source.sessions() if session.owner == "move-dead"] == []


def test_a_mover_that_was_taken_for_dead_stops(source, target, monkeypatch):
    source.enqueue(some_envelopes(3))
    mover = Mover(source, target)

    with mover.at_work():
        source.reap(owner=mover._owner)
        with pytest.raises(BackendUnavailable, match="taken for dead"):
            mover.move("default")

    assert source.counts()[State.AVAILABLE] == 3
    assert list(target.list(Query())) == []
