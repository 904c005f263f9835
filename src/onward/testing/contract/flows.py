"""Flows: they are kept with their nodes, members wait for theirs, and all of it can be looked at."""

from __future__ import annotations

from datetime import timedelta

import pytest

from onward.backend import AWAITS_NODE, Query
from onward.job.states import State
from onward.testing.contract.builders import a_lease, a_session, an_envelope, ids, micros
from onward.testing.contract.capabilities import needs
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

__all__ = ["FlowsContract"]


@needs("flows", "inspection")
class FlowsContract:
    def test_a_flow_is_kept_with_its_nodes_in_their_order(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(0, "a"), c=Part(1, "ab", "failed"), stop_on_failure=True)

        row = stage.row()

        assert (row.id, row.name, row.created_at) == (stage.id, "staged", clock.micros())
        assert (row.closed, row.stop_on_failure, row.over_at, row.cancelled) == (True, True, None, None)
        assert [(node.name, node.after, node.when, node.total) for node in row.nodes] == [
            ("a", (), "succeeded", 2),
            ("b", ("a",), "succeeded", 0),
            ("c", ("a", "b"), "failed", 1),
        ]
        assert stage.states() == {"a": "open", "b": "waiting", "c": "waiting"}
        assert stage.state() == "running"

    def test_a_flow_that_is_not_there(self, backend, clock):
        assert backend.flow("nowhere") is None
        assert list(backend.flows()) == []
        assert backend.member_counts("nowhere") == {}
        assert backend.close_flow("nowhere") is False
        assert backend.cancel_flow("nowhere", "why") is False
        assert backend.retry_flow("nowhere") is None
        assert backend.extend_flow("nowhere", [an_envelope()]) is None

    @pytest.mark.promise("W71")
    def test_a_member_whose_node_waits_is_scheduled_and_never_due(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        clock.advance(timedelta(days=36_500))

        assert stage.claim("b") == []
        (waiting,) = stage.stored("b")
        assert (waiting.state, waiting.awaits) == (State.SCHEDULED, AWAITS_NODE)
        assert (waiting.flow, waiting.node) == (stage.id, "b")
        assert list(backend.retry([waiting.id])) == [False]
        assert stage.claim("b") == []

    @needs("delays")
    def test_the_delay_of_a_member_counts_from_the_opening_of_its_node(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
        (late,) = stage.make("b", delay=60)
        (early,) = stage.make("b", not_before=clock.micros() + micros(5))
        (lease,) = stage.claim("a")
        backend.grow(lease, [late, early])
        clock.advance(10)

        backend.settle([ack(lease)])

        assert ids(stage.claim("b")) == [early.id]
        clock.advance(59)
        assert stage.claim("b") == []
        clock.advance(1)
        assert ids(stage.claim("b")) == [late.id]

    def test_a_lease_says_whether_its_job_is_a_member(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part())
        (lease,) = stage.claim("a", owner="old")

        assert lease.member is True
        assert a_lease(backend).member is False

    @needs("sessions")
    def test_an_adopted_lease_says_that_its_job_is_a_member(self, backend, clock):
        FlowStage(backend, clock, a=Part()).claim("a", owner="old")

        (adopted,) = backend.open_session(a_session("new"), adopts="old")

        assert adopted.member is True

    def test_a_flow_that_is_enqueued_again_is_stored_once(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
        before = stage.row()

        answers = backend.enqueue(stage.all, retried=True)

        assert [answer.created for answer in answers] == [False] * 3
        assert stage.row() == before
        assert [answer.created for answer in stage.answers] == [True] * 3

    @needs("schedules")
    @pytest.mark.parametrize("ended", [0, 1, 2])
    def test_a_flow_that_a_schedule_starts_again_is_stored_once_however_far_it_is(self, backend, clock, ended):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
        for node in "ab"[:ended]:
            stage.end(node, ack)
        before, jobs = stage.row(), {node: stage.jobs(node) for node in "ab"}

        answers = backend.enqueue(stage.all, retried=True)

        assert [answer.created for answer in answers] == [False] * 3
        assert stage.row() == before
        assert {node: stage.jobs(node) for node in "ab"} == jobs

    @needs("schedules")
    def test_the_running_flows_of_a_name_are_found_beyond_a_page(self, backend, clock):
        stages = [FlowStage(backend, clock, a=Part()) for _ in range(5)]
        stages[1].end("a", ack)  # those of all, for every flow has the same queue
        running = [FlowStage(backend, clock, a=Part()) for _ in range(3)]

        page = backend.flows(name="staged", running=True, limit=2)
        rest = backend.flows(name="staged", running=True, limit=2, after=page[-1].id)

        assert [row.id for row in (*page, *rest)] == [stage.id for stage in reversed(running)]

    def test_a_member_whose_flow_is_not_there_is_a_plain_job(self, backend):
        lease = a_lease(backend, flow="gone", node="a")

        assert backend.ack(lease).applied
        assert backend.get(lease.envelope.id).state is State.COMPLETED

    def test_flows_are_listed_newest_first_page_by_page(self, backend, clock):
        first, second, third = (FlowStage(backend, clock, a=Part()) for _ in range(3))
        backend.settle([ack(lease) for lease in first.claim("a", limit=1)])

        assert [row.id for row in backend.flows()] == [third.id, second.id, first.id]
        assert [row.id for row in backend.flows(limit=1)] == [third.id]
        assert [row.id for row in backend.flows(after=third.id, limit=1)] == [second.id]
        assert [row.id for row in backend.flows(running=True)] == [third.id, second.id]
        assert [row.id for row in backend.flows(name="staged")] == [third.id, second.id, first.id]
        assert list(backend.flows(name="another")) == []

    def test_members_are_listed_by_node_in_the_order_of_their_ids(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(5), b=Part(2, "a"))
        FlowStage(backend, clock, a=Part(2))
        stage.end("a", ack, abandon, ack)

        assert [stored.id for stored in stage.stored("a")] == ids(stage.envelopes["a"])
        page = backend.list(
            Query(
                flow=stage.id, node="a", states=frozenset({State.COMPLETED}), after=stage.envelopes["a"][0].id, limit=2
            )
        )
        assert [stored.id for stored in page] == ids(stage.envelopes["a"][2:4])
        assert len(backend.list(Query(flow=stage.id))) == 7

    @pytest.mark.promise("W80")
    def test_members_are_counted_by_node_and_state_up_to_a_bound(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(5), b=Part(2, "a"))
        stage.end("a", ack, abandon)

        counts = backend.member_counts(stage.id)

        assert counts["a"] == {State.COMPLETED: 1, State.DISCARDED: 4}
        assert counts["b"] == {State.CANCELLED: 2}
        assert sum(backend.member_counts(stage.id, at_most=2)["a"].values()) <= 4

    @pytest.mark.promise("W82")
    def test_a_paused_queue_holds_the_jobs_of_the_flow_that_lie_in_it_and_no_others(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"), c=Part(after="a"))
        backend.pause("b")

        stage.end("a", ack)

        assert stage.claim("b") == []
        assert len(stage.claim("c")) == 1
        backend.pause("b", paused=False)
        assert len(stage.claim("b")) == 1

    @needs("emptying")
    def test_an_emptied_store_has_no_flows(self, backend, clock):
        FlowStage(backend, clock, a=Part())

        backend.empty()

        assert list(backend.flows()) == []

    @pytest.mark.promise("W81")
    def test_a_job_without_a_flow_says_nothing_of_one(self, backend):
        lease = a_lease(backend)

        assert b"flow" not in lease.envelope.data
        assert b"node" not in lease.envelope.data
        assert (backend.get(lease.envelope.id).flow, backend.get(lease.envelope.id).node) == (None, None)
