"""Flows that are steered while they run: the whole is cancelled or retried, members are replayed or pruned."""

from __future__ import annotations

import pytest

from onward.backend import Query, Settlement
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim, an_envelope, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

__all__ = ["FlowRetentionContract", "FlowSteeringContract"]


def _fail_in_b(stage: FlowStage) -> None:
    stage.end("b", ack, abandon)
    stage.end("d", ack)


def _cancel_the_flow(stage: FlowStage) -> None:
    stage.backend.cancel_flow(stage.id, "not wanted")


@needs("flows", "inspection")
class FlowSteeringContract:
    @pytest.mark.promise("W77")
    def test_a_cancelled_flow_starts_no_more_and_asks_what_runs(self, backend, clock):
        stage = FlowStage(
            backend,
            clock,
            a=Part(3),
            b=Part(after="a"),
            c=Part(after="a", when="failed"),
            d=Part(after="c", when="finished"),
        )
        (lease,) = stage.claim("a", limit=1)

        assert backend.cancel_flow(stage.id, "not wanted") is True

        assert [stage.claim(node) for node in "abcd"] == [[]] * 4
        assert list(backend.extend("worker").cancel_requested) == [(lease.envelope.id, lease.token)]
        assert stage.state() == "running"
        backend.settle([Settlement.cancelled(lease, "stopped")])
        assert stage.state() == "cancelled"
        assert {job.state for node in "abcd" for job in stage.stored(node)} == {State.CANCELLED}
        assert stage.stored("c")[0].reason == "not wanted"
        assert backend.cancel_flow(stage.id, "again") is False

    @pytest.mark.promise("W77")
    def test_a_flow_that_is_cancelled_while_a_large_node_opens_starts_no_more(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(1_500, "a"))
        stage.end("a", ack)
        leases = stage.claim("b", limit=2)

        assert backend.cancel_flow(stage.id, "not wanted") is True

        assert stage.claim("b") == []
        assert backend.member_counts(stage.id)["b"] == {State.EXECUTING: 2, State.CANCELLED: 1_498}
        backend.settle([Settlement.cancelled(lease, "stopped") for lease in leases])
        assert stage.state() == "cancelled"

    @pytest.mark.promise("W77")
    def test_a_flow_that_is_cancelled_when_its_last_job_succeeds_all_the_same_is_completed(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part())
        (lease,) = stage.claim("a")
        backend.cancel_flow(stage.id, "not wanted")

        backend.settle([ack(lease)])

        assert stage.state() == "completed"

    def test_a_flow_that_is_filled_is_closed_by_its_cancellation(self, backend, clock):
        stage = FlowStage(backend, clock, closed=False, a=Part())

        backend.cancel_flow(stage.id, "not wanted")

        assert stage.state() == "cancelled"
        assert backend.extend_flow(stage.id, stage.make("a")) is None

    @pytest.mark.promise("W77")
    @pytest.mark.parametrize("end", [_fail_in_b, _cancel_the_flow])
    def test_a_retried_flow_completes_without_running_again_what_was_completed(self, backend, clock, end):
        stage = FlowStage(
            backend,
            clock,
            a=Part(2),
            b=Part(3, "a"),
            c=Part(after="b"),
            d=Part(after="b", when="failed"),
            e=Part(0, "c"),
        )
        stage.end("a", ack)
        end(stage)
        before = {job.id for node in "abc" for job in stage.stored(node) if job.state is State.COMPLETED}

        again = backend.retry_flow(stage.id)

        assert again
        assert stage.state() == "running"
        assert stage.claim("c") == []
        rerun = {lease.envelope.id for lease in stage.end("b", ack)}
        assert not rerun & before
        stage.end("c", ack)
        assert stage.state() == "completed"
        assert {job.state for node in "abc" for job in stage.stored(node)} == {State.COMPLETED}

    def test_a_retry_opens_nothing_before_all_failed_jobs_have_succeeded(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
        stage.end("a", abandon)

        assert backend.retry_flow(stage.id) == 4
        first, second, third = stage.claim("a")
        backend.settle([ack(first), ack(second)])

        assert stage.states() == {"a": "open", "b": "waiting"}
        backend.settle([ack(third)])
        assert stage.states() == {"a": "completed", "b": "open"}

    def test_a_retry_of_a_completed_flow_changes_nothing(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a", when="failed"))
        stage.end("a", ack)
        before = stage.row(), stage.stored("a"), stage.stored("b")
        clock.advance(1_000)

        assert backend.retry_flow(stage.id) == 0

        assert stage.state() == "completed"
        assert (stage.row(), stage.stored("a"), stage.stored("b")) == before  # its retention, too, counts from its end

    def test_a_replayed_member_runs_and_then_what_was_passed_over(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(2, "a"), c=Part(after="b"))
        failed, _ = stage.end("a", abandon, ack)
        assert stage.state() == "failed"

        replayed = backend.replay(Query(ids=(failed.envelope.id,)))

        assert replayed.ids == [failed.envelope.id]
        assert stage.states() == {"a": "open", "b": "waiting", "c": "waiting"}
        assert stage.state() == "running"
        for node in "abc":
            stage.end(node, ack)
        assert stage.state() == "completed"

    def test_a_member_whose_node_is_still_passed_over_is_not_replayed(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        stage.end("a", abandon)
        (child,) = ids(stage.envelopes["b"])

        replayed = backend.replay(Query(ids=(child,)))

        assert (replayed.ids, replayed.skipped) == ([], {child: "node a failed"})
        assert stage.states() == {"a": "failed", "b": "passed_over"}
        assert stage.state() == "failed"

    def test_a_replayed_parent_does_not_run_again_what_came_after_it(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a", when="finished"))
        stage.end("a", abandon)
        stage.end("b", ack)

        backend.replay(Query(ids=tuple(ids(stage.envelopes["a"]))))
        stage.end("a", ack)

        assert stage.jobs("b") == ["completed"]
        assert stage.state() == "completed"

    @needs("sessions")
    @pytest.mark.promise("W72")
    def test_a_sweep_changes_no_flow(self, backend, clock):
        """The net is never needed."""
        stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"), c=Part(0, "b"))
        rows = []
        for act in (lambda: stage.end("a", abandon), lambda: backend.retry_flow(stage.id), lambda: stage.end("a", ack)):
            act()
            before = stage.row()
            backend.reap()
            rows.append(stage.row() == before)

        assert rows == [True] * 3


@needs("flows", "inspection")
class FlowRetentionContract:
    @pytest.mark.promise("W78")
    def test_the_result_of_a_member_is_kept_until_its_flow_is_over(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        stage.end("a", lambda lease: Settlement.ack(lease, b"42", keep=False))
        clock.advance(10_000)

        backend.prune(dict.fromkeys(FINISHED, clock.micros()))

        assert [job.result for job in stage.stored("a")] == [b"42"]
        stage.end("b", ack)
        clock.advance(1)
        backend.prune(dict.fromkeys(FINISHED, clock.micros()))
        assert list(stage.stored("a")) == []

    def test_retention_counts_from_the_end_of_the_flow_and_its_rows_go_with_its_jobs(self, backend, clock):
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        stage.end("a", ack)
        clock.advance(1_000)
        stage.end("b", ack)
        clock.advance(500)

        backend.prune(dict.fromkeys(FINISHED, clock.micros() - 600_000_000))
        assert stage.jobs("a") == ["completed"]
        assert backend.flow(stage.id) is not None

        clock.advance(101)
        backend.prune(dict.fromkeys(FINISHED, clock.micros() - 600_000_000))
        assert stage.jobs("a") == stage.jobs("b") == []
        assert backend.flow(stage.id) is None

    def test_plain_jobs_beside_a_flow_are_pruned_as_ever(self, backend, clock):
        FlowStage(backend, clock, a=Part())
        backend.enqueue([plain := an_envelope(queue="plain")])
        (lease,) = backend.claim(a_claim(queues=("plain",)))
        backend.ack(lease)
        clock.advance(1)

        backend.prune(dict.fromkeys(FINISHED, clock.micros()))

        assert backend.get(plain.id) is None
