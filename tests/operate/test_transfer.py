"""What a transfer says of what it could not do, and what it refuses."""

import pytest

from onward.backend import Query
from onward.backends.memory import MemoryBackend
from onward.errors import BackendMisconfigured, BackendRefused, QueueReserved
from onward.job.states import State
from onward.operate.transfer import Transfer, count_jobs, transferable_queues
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, some_envelopes
from onward.testing.contract.flow_stage import FlowStage, Part, ack


@pytest.fixture
def source(clock):
    return MemoryBackend(clock=clock)


@pytest.fixture
def target(clock):
    return MemoryBackend(clock=clock)


def test_queues_are_paused_at_both_ends_and_stay_so(source, target):
    source.enqueue(some_envelopes(3))

    report = Transfer(source, target).move("default")

    assert (report.moved, report.is_complete) == (3, True)
    assert [(queue.name, queue.paused) for queue in source.queues()] == [("default", True)]
    assert [(queue.name, queue.paused) for queue in target.queues()] == [("default", True)]


def test_a_second_move_finds_nothing(source, target):
    source.enqueue(some_envelopes(3))
    Transfer(source, target).move("default")

    again = Transfer(source, target).move("default")

    assert (again.moved, again.there, again.is_complete, again.before, again.after) == (0, 0, True, 3, 3)


def test_other_queues_stay(source, target):
    source.enqueue([an_envelope(), other := an_envelope(queue="other")])

    Transfer(source, target).move("default")

    assert [lease.envelope.id for lease in source.claim(a_claim(queues=("other",)))] == [other.id]


def test_queues_that_hold_only_dead_jobs_are_found(source):
    source.enqueue([an_envelope(queue="a"), an_envelope(queue="b")])
    source.abandon(source.claim(a_claim(queues=("b",)))[0], "dead")

    assert transferable_queues(source) == ["a", "b"]
    assert [count_jobs(source, queue) for queue in ("a", "b", "c")] == [(1, 0), (1, 0), (0, 0)]


def test_jobs_that_run_are_counted_and_come_with_the_next_move(source, target):
    lease = a_lease(source)
    source.enqueue([an_envelope()])

    report = Transfer(source, target).move("default")

    assert (report.moved, report.running, report.is_complete) == (1, 1, False)
    source.nack(lease)
    assert Transfer(source, target).move("default").moved == 1


def test_jobs_that_run_are_waited_for(source, target, monkeypatch):
    lease = a_lease(source)
    monkeypatch.setattr("onward.operate.transfer.time.sleep", lambda _: source.nack(lease))

    report = Transfer(source, target).move("default", wait=60)

    assert (report.moved, report.running, report.is_complete) == (1, 0, True)


def test_a_job_whose_unique_key_is_held_at_the_target_stays_and_is_named(source, target):
    source.enqueue([mine := an_envelope(unique_key="k"), *some_envelopes(3)])
    (holder,) = target.enqueue([an_envelope(unique_key="k")])

    report = Transfer(source, target, batch=2).move("default")

    assert report.stayed == {mine.id: f"its unique key is held there by {holder.id}"}
    assert (report.moved, report.is_complete, report.missing) == (3, False, 0)
    assert source.get(mine.id).queue == "default"


def test_a_job_that_the_target_refuses_stays_and_is_named(source, target, monkeypatch):
    source.enqueue(envelopes := some_envelopes(5))
    restore = target.restore

    def refuse(transfer, jobs, attached):
        if any(job.id == envelopes[3].id for job in jobs):
            raise BackendRefused("too long")
        return restore(transfer, jobs, attached)

    monkeypatch.setattr(target, "restore", refuse)

    report = Transfer(source, target).move("default")

    assert (report.moved, report.stayed) == (4, {envelopes[3].id: "too long"})
    assert source.get(envelopes[3].id).queue == "default"


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_the_notes_of_a_job_go_with_it(source, open_store, kind):
    source.enqueue([noted := an_envelope(), *some_envelopes(2)])
    source.signal(noted.id, "paid", b"1")
    notes = source.notes(noted.id)
    target = open_store(kind)

    assert Transfer(source, target).move("default").is_complete

    assert (target.notes(noted.id), source.notes(noted.id)) == (notes, [])


def test_a_job_that_is_there_already_is_not_copied_again(source, target):
    envelopes = some_envelopes(2)
    source.enqueue(envelopes)
    target.enqueue(envelopes[:1])
    target.ack(target.claim(a_claim())[0])

    report = Transfer(source, target).move("default")

    assert (report.moved, report.there, report.is_complete) == (1, 1, True)
    assert target.get(envelopes[0].id).state is State.COMPLETED


def test_another_job_of_the_same_id_is_no_reason_to_remove_this_one(source, target):
    mine = an_envelope()
    source.enqueue([mine])
    target.enqueue([an_envelope(id=mine.id, payload={"other": 1})])

    report = Transfer(source, target).move("default")

    assert report.stayed == {mine.id: "another job has its id there"}
    assert source.get(mine.id).data == mine.data


def test_a_dead_job_whose_id_lives_again_does_not_vanish(source, target):
    first = an_envelope(payload={"life": 1})
    source.enqueue([first])
    source.abandon(source.claim(a_claim())[0], "dead")
    source.enqueue([again := an_envelope(id=first.id, payload={"life": 2})])

    Transfer(source, target).move("default")

    assert target.get(first.id).data == again.data
    assert source.get(first.id).data == first.data


def test_a_queue_cannot_be_resumed_in_the_middle(source, target, monkeypatch):
    source.enqueue(some_envelopes(6))
    restore, refused = target.restore, []

    def resume_and_restore(*args):
        for store in (source, target):
            with pytest.raises(QueueReserved, match=r"transfer that has not ended .*from here to there"):
                store.pause("default", paused=False)
            refused.append(store.claim(a_claim()))
        return restore(*args)

    monkeypatch.setattr(target, "restore", resume_and_restore)

    assert Transfer(source, target, name="from here to there", batch=2).move("default").is_complete
    assert refused == [[]] * 6


def test_a_job_that_changes_whenever_it_is_copied_stays_and_has_no_copy(source, target, clock, monkeypatch):
    source.enqueue([envelope := an_envelope(delay=60)])
    remove = source.remove

    def change_and_remove(*args):
        clock.advance(1)
        source.cancel([envelope.id], "no")
        source.replay(Query(ids=(envelope.id,)))
        return remove(*args)

    monkeypatch.setattr(source, "remove", change_and_remove)

    report = Transfer(source, target).move("default")

    assert report.stayed == {envelope.id: "it changed, or was enqueued, during the transfer"}
    assert (report.missing, report.is_complete) == (0, False)
    assert list(target.list(Query())) == []


def test_one_store_is_not_moved_to_itself(source):
    source.enqueue(some_envelopes(3))

    with pytest.raises(BackendMisconfigured, match="the same store"):
        Transfer(source, source).move("default")

    assert [(queue.name, queue.paused, queue.live) for queue in source.queues()] == [("default", False, 3)]


def test_members_of_flows_stay_and_are_named(source, target, clock):
    stage = FlowStage(source, clock, a=Part(2), b=Part(after="a"))
    source.enqueue(some_envelopes(2, queue="a"))

    report = Transfer(source, target).move("a")

    assert report.moved == 2
    assert report.stayed == {
        envelope.id: f"it belongs to flow {stage.id}, which stays" for envelope in stage.envelopes["a"]
    }
    assert not report.is_complete
    assert stage.jobs("a") == ["available"] * 2
    source.pause("a", paused=False)
    stage.end("a", ack)
    assert stage.states() == {"a": "completed", "b": "open"}
