"""Flows in a file: steps of a thousand jobs, what a plain job pays for them, and processes that are killed meanwhile."""

import logging
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import msgspec
import pytest

from onward import Onward
from onward.backend import Claim, Query, Settlement, Turn
from onward.backends.sqlite import SqliteBackend
from onward.flow.graph import NodeState, advance, planned
from onward.job.membership import FlowPlan, NodePlan
from onward.job.states import State
from onward.testing.clock import FakeClock
from onward.testing.contract.builders import a_lease, a_session, an_envelope, an_id, ids
from onward.testing.contract.flow_stage import FlowStage, Part, ack
from tests.backends.flows_in_steps import FlowsInSteps
from tests.backends.sqlite.flow_worker import fails

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


def test_the_end_of_a_member_costs_one_statement_more_unless_its_node_is_over(backend, clock, recorded):
    backend.open_session(a_session("worker"))
    plain = a_lease(backend)
    stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
    (lease, *_) = stage.claim("a")

    recorded.clear()
    backend.settle([ack(plain)])
    of_a_plain_job = list(recorded)
    recorded.clear()
    backend.settle([ack(lease)])

    assert len(recorded) == len(of_a_plain_job) + 1
    assert recorded[-1] == "flows_to_look_at"


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


# Processes that are killed


def a_random_flow(rng):
    names = [f"n{number}" for number in range(rng.randint(3, 6))]
    plans = [
        NodePlan(
            name=name,
            after=tuple(each for each in names[:place] if rng.random() < 0.5),
            when=rng.choice(["succeeded", "succeeded", "failed", "finished"]),
        )
        for place, name in enumerate(names)
    ]
    flow_id = an_id()
    sealed = [
        an_envelope(queue="flows", flow=flow_id, node=plan.name, max_crashes=1_000)
        for plan in plans
        for _ in range(rng.randint(1, 4))
    ]
    sealed[0] = msgspec.structs.replace(sealed[0], plan=FlowPlan(name="killed", nodes=tuple(plans)))
    return sealed


def by_the_rules(plan, envelopes):
    """How each node ends, if every job of an open node runs."""
    nodes = planned(plan.nodes)
    jobs = {node.name: [each.id for each in envelopes if each.node == node.name] for node in nodes}
    failing = {name: any(map(fails, found)) for name, found in jobs.items()}
    nodes = [msgspec.structs.replace(node, failed=failing[node.name]) for node in nodes]
    while changed := {node.name: node for node in advance(nodes, lambda _: False, closed=True)}:
        nodes = [changed.get(node.name, node) for node in nodes]
    return {node.name: node.state for node in nodes}


def until(fact, seconds=60):
    deadline = time.monotonic() + seconds
    while not (found := fact()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return found


@pytest.mark.promise("W71")
def test_flows_end_as_the_rules_say_while_their_processes_are_killed(tmp_path, caplog, report):
    rng = random.Random(17)
    file, log = tmp_path / "jobs.db", tmp_path / "log"
    log.touch()
    with closing(SqliteBackend.open(file)) as backend:
        flows = []
        workers = {}

        def enqueue(count):
            for _ in range(count):
                flows.append(a_random_flow(rng))
                backend.enqueue(flows[-1])

        def start(number):
            owner = f"worker-{number}"
            program = [sys.executable, "-m", "tests.backends.sqlite.flow_worker", str(file), str(log), owner]
            workers[owner] = subprocess.Popen(program)

        def kill(owner):
            process = workers.pop(owner)
            process.send_signal(signal.SIGKILL)
            process.wait()
            backend.reap(owner=owner, started=(), cause="killed")

        try:
            enqueue(10)
            for number in range(3):
                start(number)
            for number in range(3, 3 + KILLS):
                seen = len(log.read_bytes())
                enqueue(5)
                until(lambda seen=seen: len(log.read_bytes()) > seen)
                kill(rng.choice(sorted(workers)))
                start(number)
                backend.reap()
            until(lambda: not backend.flows(running=True))
        finally:
            for owner in list(workers):
                kill(owner)
        with caplog.at_level(logging.WARNING):
            backend.reap()

        lines = [line.split() for line in log.read_text().splitlines()]
        for envelopes in flows:
            check(backend, envelopes, lines)
        overlooked = [text for text in caplog.messages if "should have gone on" in text]
        assert overlooked == []
    report(
        f"flows on SQLite: {len(flows)} flows, {sum(map(len, flows))} jobs, {KILLS} kills -9, none stuck, none overtaken"
    )


def check(backend, envelopes, lines):
    """Every node ended as the rules say; no job started before those that it comes after had ended."""
    plan = envelopes[0].plan
    row = backend.flow(envelopes[0].flow)
    assert {node.name: node.state for node in row.nodes} == by_the_rules(plan, envelopes)
    of_node = {node.name: {each.id for each in envelopes if each.node == node.name} for node in row.nodes}
    first = {}
    for place, (word, job_id) in enumerate(lines):
        first.setdefault((word, job_id), place)
    ran = Counter()
    for node in row.nodes:
        starts = [first["start", job_id] for job_id in of_node[node.name] if ("start", job_id) in first]
        ran[node.state] += len(starts)
        for name in node.after if starts else ():
            before = row.nodes[[each.name for each in row.nodes].index(name)]
            if before.state in (NodeState.COMPLETED, NodeState.FAILED):
                assert max(first["end", job_id] for job_id in of_node[name]) < min(starts)
    assert not ran[NodeState.PASSED_OVER]
    assert not ran[NodeState.SKIPPED]
    assert set(ids(envelopes)) == {job.id for job in backend.list(Query(flow=row.id, limit=1_000))}


# Transactions of callers


@pytest.fixture
def shop(tmp_path):
    jobs = Onward(f"sqlite:///{tmp_path}/shop.db")
    ran = []

    @jobs.job
    def step(name: str) -> None:
        ran.append(name)

    jobs.connect()
    with closing(jobs), closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as connection:
        yield jobs, step, connection, ran


@pytest.mark.promise("W79")
@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_a_whole_flow_joins_the_callers_transaction(shop, ends):
    jobs, step, connection, ran = shop
    flow = jobs.flow("joined")
    nothing = flow.map(step, [])
    flow.add(step, "last", after=flow.map(step, [("a",), ("b",)], node="middle", after=nothing))
    flow.add(step, "alarm", after=nothing, when="failed", node="alarm")
    connection.execute("BEGIN IMMEDIATE")
    with jobs.transaction(connection) as tx:
        handle = tx.enqueue_flow(flow)
    assert jobs.backend.flow(handle.id) is None

    connection.execute(ends)

    jobs.drain()
    if ends == "COMMIT":
        assert ran == ["a", "b", "last"]
        assert handle.state() == "completed"
    else:
        assert ran == []
        assert jobs.backend.flow(handle.id) is None
        assert jobs.counts()[State.AVAILABLE] == 0


def test_a_member_that_is_replaced_in_a_callers_transaction_ends_its_node(backend, clock):
    stage = FlowStage(backend, clock, letter={"unique_key": "key"}, a=Part(), b=Part(0, "a", "failed"))
    other = an_envelope(queue="other", unique_key="key", unique_strategy="cancel_existing")

    completion = backend.begin(at_most=30.0)
    completion.run(lambda style: backend.joining([other], style))
    assert stage.states() == {"a": "open", "b": "waiting"}
    completion.commit()

    assert stage.states() == {"a": "failed", "b": "completed"}
    assert stage.state() == "failed"
