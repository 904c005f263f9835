"""Members are indexed by a number of their node: two nodes that have the same number are told apart by their texts."""

from itertools import product

import msgspec
import psycopg
import pytest

from onward.backend import Query, Settlement
from onward.job.states import State
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

ALIKE = "RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT cast(least(length(flow), 0) AS bigint)'"


@pytest.fixture
def url(fresh_url):
    return fresh_url


@pytest.fixture
def backend(url, open_backend):
    """A store in which every node of every flow has one number."""
    backend = open_backend()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE OR REPLACE FUNCTION onward_place(flow text, node text) {ALIKE}")
        connection.execute(f"CREATE OR REPLACE FUNCTION onward_place(flow text, node text, state text) {ALIKE}")
        connection.execute("REINDEX TABLE onward_jobs")
        connection.execute("REINDEX TABLE onward_finished")
        ((place, end),) = connection.execute("SELECT onward_place('a', 'b'), onward_place('a', 'b', 'c')").fetchall()
        assert place == end == 0
    return backend


def two_flows(backend, clock, **parts):
    """Two flows with live jobs in the same nodes, each in a queue of its own."""
    return [FlowStage(backend, clock, letter={"queue": queue}, **parts) for queue in ("one", "other")]


@pytest.fixture
def two(backend, clock):
    return two_flows(backend, clock, a=Part(3), b=Part(2, "a"), c=Part(after="a", when="failed"))


def leases_of(stage):
    return stage.claim(stage.letter["queue"])


class TestNodesOfOneNumber:
    def test_a_node_is_over_by_its_own_jobs(self, backend, two):
        one, other = two
        first, *rest = leases_of(one)
        backend.settle([ack(lease) for lease in rest])
        assert one.states() == {"a": "open", "b": "waiting", "c": "waiting"}

        backend.settle([ack(first)])

        assert one.states() == {"a": "completed", "b": "open", "c": "skipped"}
        assert one.jobs("b") == ["available"] * 2
        assert other.states() == {"a": "open", "b": "waiting", "c": "waiting"}
        assert other.jobs("b") == ["scheduled"] * 2

    def test_a_job_that_failed_is_one_of_its_own_node(self, backend, two):
        one, other = two
        backend.settle([abandon(lease) for lease in leases_of(one)])
        backend.reap()

        assert one.states() == {"a": "failed", "b": "passed_over", "c": "open"}
        assert other.states() == {"a": "open", "b": "waiting", "c": "waiting"}
        backend.settle([ack(lease) for lease in leases_of(other)])
        assert other.states() == {"a": "completed", "b": "open", "c": "skipped"}

    def test_a_flow_that_is_cancelled_ends_its_own_jobs(self, backend, two):
        one, other = two
        backend.cancel_flow(one.id, "not wanted")

        assert (one.state(), one.jobs("a"), one.jobs("b")) == ("cancelled", ["cancelled"] * 3, ["cancelled"] * 2)
        assert (other.state(), other.jobs("a"), other.jobs("b")) == ("running", ["available"] * 3, ["scheduled"] * 2)

    def test_a_flow_that_is_retried_replays_its_own_jobs(self, backend, two):
        one, other = two
        for stage in two:
            backend.settle([abandon(lease) for lease in leases_of(stage)])

        assert backend.retry_flow(one.id) == 5  # three that failed, and two that were cancelled behind them
        assert (one.jobs("a"), other.jobs("a")) == (["available"] * 3, ["discarded"] * 3)
        backend.settle([ack(lease) for lease in leases_of(one)])
        assert (one.states()["a"], one.states()["b"]) == ("completed", "open")

    def test_a_flow_that_stands_still_is_found_though_another_has_live_jobs(self, backend, two, sql):
        one, other = two
        sql("DELETE FROM onward_jobs WHERE flow = %s AND node = 'a'", one.id)
        backend.reap()

        assert one.states()["a"] == "completed"
        assert other.states()["a"] == "open"

    def test_jobs_are_counted_and_listed_by_node_and_state(self, backend, two):
        one, other = two
        done, dead, _ = leases_of(one)
        backend.settle([ack(done), abandon(dead)])

        own = {State.EXECUTING: 1, State.COMPLETED: 1, State.DISCARDED: 1}
        assert backend.member_counts(one.id) == {"a": own, "b": {State.SCHEDULED: 2}, "c": {State.SCHEDULED: 1}}
        assert backend.member_counts(other.id)["a"].keys() <= {State.AVAILABLE, State.EXECUTING}
        for stage in two:
            ids = sorted(envelope.id for envelope in stage.envelopes["a"])
            for newest_first in (False, True):
                query = Query(flow=stage.id, node="a", newest_first=newest_first)
                assert [job.id for job in backend.list(query)] == sorted(ids, reverse=newest_first)
        completed = Query(flow=one.id, node="a", states=frozenset({State.COMPLETED}))
        assert [job.id for job in backend.list(completed)] == [done.envelope.id]

    @pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
    def test_pages_are_full_of_jobs_of_their_own_node(self, backend, clock, newest_first):
        two = two_flows(backend, clock, a=Part(8))
        for stage in two:
            leases = leases_of(stage)
            backend.settle([ack(lease) for lease in leases[:2]])
            backend.settle([abandon(lease) for lease in leases[2:4]])
            backend.cancel([lease.envelope.id for lease in leases[4:6]], "not wanted")
            backend.settle([Settlement.cancelled(lease, "stopped") for lease in leases[4:6]])

        for stage, state in product(two, (State.COMPLETED, State.DISCARDED, State.CANCELLED, State.EXECUTING)):
            query = Query(flow=stage.id, node="a", states=frozenset({state}), limit=1, newest_first=newest_first)
            (first,) = backend.list(query)
            (second,) = backend.list(msgspec.structs.replace(query, after=first.id))
            assert {first.flow, second.flow} == {stage.id}
            assert (first.id > second.id) is newest_first

    def test_a_flow_goes_when_its_own_jobs_are_gone(self, backend, two, clock):
        one, other = two
        backend.settle([ack(lease) for lease in leases_of(one)])
        backend.settle([ack(lease) for lease in leases_of(one)])
        clock.advance(10)
        now = clock.micros()
        clock.advance(10)
        backend.settle([ack(lease) for lease in leases_of(other)])

        backend.prune({State.COMPLETED: now, State.CANCELLED: now})

        assert backend.flow(one.id) is None
        assert other.state() == "running"
        assert len(other.stored("a")) == 3
