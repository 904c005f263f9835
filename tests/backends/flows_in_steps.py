"""Large flows in a database: asked of every store that opens, passes over and cancels a node in steps."""

import logging
from itertools import pairwise

import pytest

from onward.backend import Query
from onward.backends.sql.flows import STEP
from onward.errors import BackendUnavailable
from onward.job.states import State
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

MANY = 2 * STEP + 500
WAITING = (State.SCHEDULED, State.AVAILABLE)


def counts(stage, node):
    return stage.backend.member_counts(stage.id)[node]


def waiting(stage):
    return sum(
        number
        for node in stage.backend.member_counts(stage.id).values()
        for state, number in node.items()
        if state in WAITING
    )


def end_all(stage, node, settlement):
    while leases := stage.claim(node, limit=STEP):
        stage.backend.settle([settlement(lease) for lease in leases])


def begin_retry_and_die(stage, monkeypatch):
    """Retry a flow by a caller that makes the first step only."""

    def die(flow_id):
        raise BackendUnavailable("the store is gone")

    with monkeypatch.context() as patch:
        patch.setattr(stage.backend, "_finish_steps", die)
        with pytest.raises(BackendUnavailable):
            stage.backend.retry_flow(stage.id)


class RetriesInSteps:
    """Give it `backend` and `clock`.  A caller that dies takes no step but the first."""

    def test_what_comes_after_stays_shut_while_failed_jobs_are_still_to_be_replayed(self, backend, clock, monkeypatch):
        """The first thousand have ended, and the caller is gone, before the others are replayed."""
        stage = FlowStage(backend, clock, a=Part(1), b=Part(STEP - 1), c=Part(MANY), d=Part(after="abc"))
        (running,) = stage.claim("a")
        end_all(stage, "b", abandon)
        end_all(stage, "c", abandon)
        backend.reap()

        begin_retry_and_die(stage, monkeypatch)
        assert stage.jobs("d") == ["cancelled"]
        assert counts(stage, "b") == {State.SCHEDULED: STEP - 1}
        assert counts(stage, "c") == {State.SCHEDULED: 1, State.DISCARDED: MANY - 1}
        backend.settle([ack(running)])  # takes the next step
        assert stage.states() == {"a": "completed", "b": "open", "c": "open", "d": "waiting"}

        while leases := stage.claim("b", limit=STEP):
            assert stage.claim("d") == []
            backend.settle([ack(lease) for lease in leases])
        assert counts(stage, "b") == {State.COMPLETED: STEP - 1}
        assert counts(stage, "c")[State.DISCARDED] > 0
        assert stage.states()["d"] == "waiting"
        backend.reap()
        assert counts(stage, "c") == {State.AVAILABLE: MANY}
        end_all(stage, "c", ack)
        stage.end("d", ack)
        assert stage.state() == "completed"

    def test_a_node_is_not_over_when_its_live_jobs_end_before_its_failed_ones_are_replayed(
        self, backend, clock, monkeypatch
    ):
        stage = FlowStage(backend, clock, a=Part(MANY + 1), b=Part(after="a"))
        (running,) = stage.claim("a", limit=1)
        end_all(stage, "a", abandon)

        begin_retry_and_die(stage, monkeypatch)
        backend.settle([ack(running)])

        assert stage.states() == {"a": "open", "b": "waiting"}
        assert counts(stage, "a")[State.DISCARDED] == MANY - 2 * STEP
        backend.reap()
        end_all(stage, "a", ack)
        assert stage.states() == {"a": "completed", "b": "open"}

    def test_a_sweep_finishes_a_retry_whose_caller_died_and_is_not_alarmed(self, backend, clock, monkeypatch, caplog):
        stage = FlowStage(backend, clock, a=Part(MANY), b=Part(MANY, "a"))
        end_all(stage, "a", abandon)
        backend.reap()

        begin_retry_and_die(stage, monkeypatch)
        assert counts(stage, "a") == {State.SCHEDULED: STEP, State.DISCARDED: MANY - STEP}
        with caplog.at_level(logging.WARNING):
            backend.reap()

        assert counts(stage, "a") == {State.AVAILABLE: MANY}
        assert counts(stage, "b") == {State.SCHEDULED: MANY}
        assert caplog.messages == []
        for node in "ab":
            end_all(stage, node, ack)
        assert stage.state() == "completed"

    def test_a_retried_flow_that_is_cancelled_meanwhile_runs_nothing(self, backend, clock, monkeypatch):
        stage = FlowStage(backend, clock, a=Part(MANY), b=Part(MANY, "a"))
        end_all(stage, "a", abandon)
        backend.reap()
        begin_retry_and_die(stage, monkeypatch)

        assert backend.cancel_flow(stage.id, "not wanted")

        assert stage.state() == "cancelled"
        assert waiting(stage) == 0


class RetriesInTransactions(RetriesInSteps):
    """The same where every step is a transaction."""

    def test_a_retry_replays_a_thousand_jobs_in_each_transaction(self, backend, clock, monkeypatch):
        stage = FlowStage(backend, clock, a=Part(MANY), b=Part(MANY, "a"))
        end_all(stage, "a", abandon)
        backend.reap()
        seen = [waiting(stage)]
        write = backend._write

        def noted(act):
            answer = write(act)
            seen.append(waiting(stage))
            return answer

        monkeypatch.setattr(backend, "_write", noted)
        assert backend.retry_flow(stage.id) == 2 * MANY

        moved = [abs(now - before) for before, now in pairwise(seen)]
        assert seen[0] == 0
        assert max(seen) > STEP
        assert max(moved) == STEP

    def test_a_replay_of_one_job_replays_what_was_passed_over_behind_it_in_steps(self, backend, clock, monkeypatch):
        stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"))
        (failed,) = stage.end("a", abandon)
        backend.reap()
        steps = []
        write = backend._write
        monkeypatch.setattr(backend, "_write", lambda act: (write(act), steps.append(waiting(stage)))[0])

        replayed = backend.replay(Query(ids=(failed.envelope.id,)))

        assert replayed.ids == [failed.envelope.id]
        assert steps[0] == STEP
        assert counts(stage, "b") == {State.SCHEDULED: MANY}
        stage.end("a", ack)
        end_all(stage, "b", ack)
        assert stage.state() == "completed"


class FlowsInSteps(RetriesInTransactions):
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
