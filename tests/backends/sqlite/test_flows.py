"""Flows in a file: steps of a thousand jobs, and what a plain job pays for them."""

from contextlib import closing

import pytest

from onward.backend import Claim, Settlement, Turn
from onward.backends.sqlite import SqliteBackend
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import a_lease, a_session, an_envelope, ids
from onward.testing.contract.flow_stage import FlowStage, Part, ack
from tests.backends.flows_in_steps import FlowsInSteps

KILLS = 12


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def backend(tmp_path, clock):
    with closing(SqliteBackend.open(tmp_path / "jobs.db", clock=clock)) as backend:
        yield backend


@pytest.fixture
def past_the_backend(backend):
    def run(statement):
        with backend._writing() as tx:
            tx._connection.execute(statement)

    return run


class TestSteps(FlowsInSteps):
    """The write lock of the file is free between two of them."""


class Recorded(dict):
    """Statements by name, which notes the names that are asked for."""

    def __init__(self, statements):
        super().__init__(statements)
        self.names = []

    def __getitem__(self, name):
        self.names.append(name)
        return super().__getitem__(name)


@pytest.fixture
def recorded(backend):
    statements = Recorded(backend._sql)
    backend._transactions._sql = statements
    return statements.names


def plain_road(backend, recorded):
    recorded.clear()
    lease = a_lease(backend)
    backend.settle([Settlement.ack(lease)])
    backend.cancel([backend.enqueue([an_envelope()])[0].id], "not wanted")
    return list(recorded)


def test_a_plain_job_runs_the_same_statements_beside_flows(backend, clock, recorded):
    before = plain_road(backend, recorded)
    FlowStage(backend, clock, a=Part(3), b=Part(after="a"))

    assert plain_road(backend, recorded) == before
    assert not [name for name in before if "flow" in name or "node" in name or "member" in name]


def test_the_end_of_a_member_costs_two_statements_more_unless_its_node_is_over(backend, clock, recorded):
    backend.open_session(a_session("worker"))
    plain = a_lease(backend)
    stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
    (lease, *_) = stage.claim("a")

    recorded.clear()
    backend.settle([ack(plain)])
    of_a_plain_job = list(recorded)
    recorded.clear()
    backend.settle([ack(lease)])

    assert [name for name in recorded if name not in of_a_plain_job] == ["places_of", "flows_to_look_at"]
    assert len(recorded) == len(of_a_plain_job) + 2


@pytest.fixture
def woken(backend):
    calls = []
    backend._transactions._wake = lambda: calls.append("woken")
    return calls


@pytest.mark.promise("W72")
def test_a_turn_that_opens_a_node_wakes_a_worker_for_it(backend, clock, woken):
    """What opens is not claimed by the turn that ends the last job before it: it looks last."""
    stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
    (lease,) = stage.claim("a")
    woken.clear()

    result = backend.turn(Turn(owner="worker", settlements=[ack(lease)], claim=Claim(queues=("a", "b"), limit=1)))

    assert result.leases == []
    assert result.woken == ids(stage.envelopes["b"])
    assert woken == ["woken"]


# What is counted: `steps_of`


@pytest.mark.promise("W80")
def test_people_who_look_at_a_flow_pay_the_same_for_any_number_of_members(backend, clock, steps_of):
    def looks(stage):
        return steps_of(lambda: (backend.flow(stage.id), backend.flows(), backend.member_counts(stage.id, at_most=500)))

    few, many = (FlowStage(backend, clock, a=Part(members), b=Part(after="a")) for members in (600, 12_000))
    of_live = [looks(stage) for stage in (few, many)]
    for stage in (few, many):
        backend.cancel_flow(stage.id, "not wanted")
    of_ended = [looks(stage) for stage in (few, many)]

    assert of_live[1] < of_live[0] * 1.2
    assert of_ended[1] < of_ended[0] * 1.2


@pytest.mark.promise("W80")
def test_the_end_of_a_member_costs_the_same_among_any_number(backend, clock, steps_of):
    backend.open_session(a_session("worker"))

    def ends(stage):
        leases = stage.claim("a", limit=3)
        backend.settle([ack(leases[0])])
        steps = steps_of(lambda: backend.settle([ack(leases[1])]))
        backend.cancel_flow(stage.id, "not wanted")  # the next flow has the same queues
        return steps

    few = ends(FlowStage(backend, clock, a=Part(10), b=Part(after="a")))
    many = ends(FlowStage(backend, clock, a=Part(12_000), b=Part(after="a")))

    assert many < few * 1.5
