"""Members are indexed by a number of their node: two nodes that have the same number are told apart by their texts."""

import psycopg
import pytest

from onward.backend import Query
from onward.job.states import State
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack

ALIKE = "RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT cast(least(length(flow), 0) AS bigint)'"


@pytest.fixture
def backend(fresh_url, open_backend):
    """A store in which every node of every flow has one number."""
    backend = open_backend(fresh_url)
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute(f"CREATE OR REPLACE FUNCTION onward_place(flow text, node text) {ALIKE}")
        connection.execute(f"CREATE OR REPLACE FUNCTION onward_place(flow text, node text, state text) {ALIKE}")
        connection.execute("REINDEX TABLE onward_jobs")
        connection.execute("REINDEX TABLE onward_finished")
        ((place, end),) = connection.execute("SELECT onward_place('a', 'b'), onward_place('a', 'b', 'c')").fetchall()
        assert place == end == 0
    return backend


@pytest.fixture
def two(backend, clock):
    """Two flows with live jobs in the same nodes."""
    return [FlowStage(backend, clock, a=Part(3), b=Part(2, "a"), c=Part(after="a", when="failed")) for _ in range(2)]


def leases_of(stage, node="a"):
    mine = {envelope.id for envelope in stage.envelopes[node]}
    return [lease for lease in stage.claim(node) if lease.envelope.id in mine]


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
        assert not any(node.failed for node in other.row().nodes)

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

    def test_a_flow_goes_when_its_own_jobs_are_gone(self, backend, two, clock):
        one, other = two
        backend.settle([ack(lease) for lease in leases_of(one)])
        backend.settle([ack(lease) for lease in leases_of(one, "b")])
        clock.advance(10)

        backend.prune({State.COMPLETED: clock.micros(), State.CANCELLED: clock.micros()})

        assert backend.flow(one.id) is None
        assert other.state() == "running"
        assert len(other.stored("a")) == 3
