"""Large flows in a database: asked of every store that opens, passes over and cancels a node in steps."""

import logging

import pytest

from onward.backends.sql.flows import STEP
from onward.job.states import State
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

MANY = 2 * STEP + 500


def counts(stage, node):
    return stage.backend.member_counts(stage.id)[node]


class FlowsInSteps:
    """Give it `backend`, `clock`, and `past_the_backend`, which runs a statement that no worker would."""

    def test_a_large_node_opens_in_steps_that_its_own_jobs_take(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"), c=Part(after="b"))

        stage.end("a", ack)

        assert counts(stage, "b") == {State.AVAILABLE: STEP, State.SCHEDULED: MANY - STEP}
        ended = 0
        while leases := stage.claim("b", limit=STEP):
            assert stage.states()["c"] == "waiting"
            backend.settle([ack(lease) for lease in leases])
            ended += len(leases)
        assert ended == MANY
        assert stage.states() == {"a": "completed", "b": "completed", "c": "open"}

    @pytest.mark.parametrize(("end", "reaches"), [(ack, {State.AVAILABLE: MANY}), (abandon, {State.CANCELLED: MANY})])
    def test_a_sweep_takes_the_steps_that_are_left_and_is_not_alarmed(self, backend, clock, caplog, end, reaches):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"))
        stage.end("a", end)
        assert counts(stage, "b") != reaches
        assert stage.state() == "running"

        with caplog.at_level(logging.WARNING):
            backend.reap()

        assert counts(stage, "b") == reaches
        assert stage.state() == ("running" if end is ack else "failed")
        assert caplog.messages == []

    def test_a_cancelled_flow_has_no_job_left_that_could_start_when_the_call_returns(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(MANY), b=Part(MANY, "a", "finished"))

        assert backend.cancel_flow(stage.id, "not wanted")

        assert backend.counts()[State.CANCELLED] == 2 * MANY
        assert stage.state() == "cancelled"

    def test_a_large_flow_is_retried_and_completes(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"))
        stage.end("a", abandon)
        backend.reap()

        assert backend.retry_flow(stage.id) == MANY + 1

        stage.end("a", ack)
        while leases := stage.claim("b", limit=STEP):
            backend.settle([ack(lease) for lease in leases])
        assert counts(stage, "b") == {State.COMPLETED: MANY}
        assert stage.state() == "completed"

    def test_an_overlooked_end_is_found_by_the_net_which_says_so(self, backend, clock, caplog, past_the_backend):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        past_the_backend("DELETE FROM onward_jobs WHERE node = 'a'")  # and its flow was not looked at
        assert stage.states() == {"a": "open", "b": "waiting"}

        backend.reap()

        assert stage.states() == {"a": "completed", "b": "open"}
        assert "should have gone on before" in caplog.text

    def test_a_job_that_is_set_aside_ends_its_node(self, backend, clock, past_the_backend):
        stage = FlowStage(backend, clock, a=Part(), b=Part(2, "a"), c=Part(after="a", when="failed"))
        past_the_backend("UPDATE onward_jobs SET max_crashes = 0 WHERE node = 'a'")

        backend.set_aside()

        assert stage.states() == {"a": "failed", "b": "passed_over", "c": "open"}
        (letter,) = stage.stored("a")
        assert (letter.state, letter.flow, letter.node) == (State.DISCARDED, stage.id, "a")

    def test_a_job_that_waits_for_its_node_is_no_damaged_one(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
        (lease,) = stage.claim("a")
        added = [*stage.make("b"), *stage.make("b", delay=10**9), *stage.make("b", not_before=clock.micros())]
        backend.grow(lease, added)

        assert backend.set_aside() == 0

        assert stage.jobs("b") == ["scheduled"] * 3
