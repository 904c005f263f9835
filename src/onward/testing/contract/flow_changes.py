"""Flows that change while they run: jobs are added, the whole is cancelled or retried, members are replayed or pruned."""

from __future__ import annotations

import pytest

from onward.backend import LEFT_OPEN, Query, Settlement
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim, an_envelope, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.fencing import LostLease, however_it_was_lost
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

__all__ = ["FlowRetentionContract", "FlowSteeringContract", "GrowingContract"]


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

        assert backend.retry_flow(stage.id) == 0
        assert stage.state() == "completed"
        assert stage.jobs("b") == ["cancelled"]

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
