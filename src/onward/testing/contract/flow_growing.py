"""Flows to which jobs are added while they run: by members that run, and from outside until they are closed."""

from __future__ import annotations

import pytest

from onward.backend import LEFT_OPEN, Query
from onward.job.states import State
from onward.testing.contract.builders import ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.fencing import LostLease, however_it_was_lost
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

__all__ = ["GrowingContract"]


@needs("flows", "inspection")
class GrowingContract:
    @pytest.mark.promise("W76")
    def test_a_running_member_adds_to_its_own_node_and_to_those_behind_it(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"), c=Part(after="b"))
        (lease,) = stage.claim("a")
        own, behind = stage.make("a"), stage.make("b", 2)

        answers = backend.grow(lease, [*own, *behind])

        assert [answer.created for answer in answers] == [True] * 3
        assert [node.total for node in stage.row().nodes] == [2, 2, 1]
        assert stage.claim("b") == []
        backend.settle([ack(lease)])
        assert stage.states() == {"a": "open", "b": "waiting", "c": "waiting"}
        assert ids(stage.end("a", ack)) == ids(own)
        assert ids(stage.end("b", ack)) == ids(behind)
        stage.end("c", ack)
        assert stage.state() == "completed"

    @pytest.mark.promise("W76")
    def test_what_a_repeated_run_adds_is_there_once(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(0, "a"))
        children = stage.make("b", 3)
        first, other = stage.claim("a", owner="first")
        backend.grow(first, children[:2])
        backend.reap(owner="first", started=())

        again = next(lease for lease in stage.claim("a", owner="again") if lease.envelope.id == first.envelope.id)
        answers = backend.grow(again, children)

        assert [answer.created for answer in answers] == [False, False, True]
        assert [node.total for node in stage.row().nodes] == [2, 3]
        assert stage.jobs("b") == ["scheduled"] * 3
        assert other.member

    def test_a_child_that_has_ended_is_not_added_again(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part())
        children = stage.make("a")
        (lease,) = stage.claim("a")
        backend.grow(lease, children)
        stage.end("a", ack)

        (answer,) = backend.grow(lease, children)

        assert answer.created is False
        assert stage.jobs("a") == ["executing", "completed"]

    @needs("fences_expired")
    @pytest.mark.promise("W76")
    @however_it_was_lost
    def test_a_run_that_lost_its_lease_adds_nothing(self, backend, clock, how):
        lease = getattr(LostLease(backend, clock), how)()
        stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))

        assert backend.grow(lease, stage.make("b")) is None
        assert stage.jobs("b") == []
        assert [node.total for node in stage.row().nodes] == [1, 0]

    @pytest.mark.promise("W76")
    def test_children_of_a_member_that_fails_never_start(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
        (lease,) = stage.claim("a")
        backend.grow(lease, stage.make("b", 2))

        backend.settle([abandon(lease)])

        assert stage.states() == {"a": "failed", "b": "passed_over"}
        assert stage.jobs("b") == ["cancelled"] * 2

    def test_what_is_added_to_a_node_that_was_passed_over_meanwhile_is_cancelled(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), x=Part(), b=Part(0, "ax"), c=Part(0, "b", "failed"))
        (lease,) = stage.claim("a")
        stage.end("x", abandon)
        assert stage.states()["b"] == "passed_over"

        backend.grow(lease, stage.make("b", 2))
        backend.settle([ack(lease)])

        assert stage.jobs("b") == ["cancelled"] * 2
        assert stage.state() == "failed"

    @pytest.mark.parametrize("end", [ack, abandon])
    def test_what_a_replayed_run_adds_to_a_node_that_is_over_does_not_wait_for_ever(self, backend, clock, end):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(1, "a", "finished"))
        stage.end("a", abandon)
        stage.end("b", end)
        backend.replay(Query(ids=tuple(ids(stage.envelopes["a"]))))
        lease, other = stage.claim("a")

        (answer,) = backend.grow(lease, stage.make("b"))

        assert answer.created
        late = stage.stored("b")[-1]
        assert (late.state, late.reason) == (State.CANCELLED, "node b was over when the job was added")
        backend.settle([ack(lease), ack(other)])
        assert stage.row().over_at is not None

    @pytest.mark.promise("W75")
    def test_what_is_added_to_a_flow_that_stopped_is_cancelled(self, backend, clock):
        stage = FlowStage(backend, clock, stop_on_failure=True, a=Part(2))
        first, second = stage.claim("a")
        backend.settle([abandon(first)])

        backend.grow(second, stage.make("a"))
        backend.settle([ack(second)])

        assert stage.jobs("a") == ["discarded", "completed", "cancelled"]
        assert stage.state() == "failed"

    def test_a_flow_that_is_not_closed_waits_for_more(self, backend, clock):
        stage = FlowStage(backend, clock, closed=False, a=Part(), b=Part(after="a"))
        stage.end("a", ack)
        assert stage.states() == {"a": "open", "b": "waiting"}

        (answer,) = backend.extend_flow(stage.id, stage.make("a"))
        stage.end("a", ack)

        assert answer.created
        assert stage.states() == {"a": "open", "b": "waiting"}
        assert backend.close_flow(stage.id) is True
        assert stage.states() == {"a": "completed", "b": "open"}
        assert stage.row().nodes[0].total == 2

    def test_a_closed_flow_takes_no_more_from_outside(self, backend, clock):
        stage = FlowStage(backend, clock, closed=False, a=Part())
        backend.close_flow(stage.id)

        assert backend.close_flow(stage.id) is False
        assert backend.extend_flow(stage.id, stage.make("a")) is None
        assert stage.jobs("a") == ["available"]

    def test_members_that_are_added_again_after_a_lost_answer_are_there_once(self, backend, clock):
        stage = FlowStage(backend, clock, closed=False, a=Part())
        more = stage.make("a", 2)
        backend.extend_flow(stage.id, more)

        answers = backend.extend_flow(stage.id, more, retried=True)

        assert [answer.created for answer in answers] == [False, False]
        assert stage.row().nodes[0].total == 3

    @needs("sessions")
    @pytest.mark.promise("W83")
    def test_a_flow_that_its_process_left_open_is_closed_after_a_day(self, backend, clock):
        stage = FlowStage(backend, clock, closed=False, a=Part(), b=Part(after="a"))
        stage.end("a", ack)
        clock.advance(LEFT_OPEN.total_seconds() - 1)
        backend.extend_flow(stage.id, stage.make("a"))
        stage.end("a", ack)
        clock.advance(LEFT_OPEN.total_seconds() - 1)
        backend.reap()
        assert not stage.row().closed

        clock.advance(1)
        backend.reap()

        assert stage.row().closed
        assert stage.states() == {"a": "completed", "b": "open"}
