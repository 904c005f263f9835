"""Flows on MariaDB: transactions that end members at the same moment, steps of a thousand jobs, and what plain jobs pay."""

import itertools
import logging
import threading
from contextlib import closing

import pytest

from onward import Onward
from onward.backend import Look, Query, Settlement
from onward.backends.mysql.connection import Connection
from onward.backends.sql.flows import STEP
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_lease, a_session, an_envelope, ids
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack
from tests.backends.flows_in_steps import RetriesInTransactions
from tests.waiting import eventually

MANY = 2 * STEP + 500
FLOW_TABLES = ("flows", "nodes", "additions", "members")


def counts(stage, node):
    return stage.backend.member_counts(stage.id)[node]


class Sent(list):
    """The statements that were sent, in packets."""

    @property
    def texts(self):
        return [text.strip() for packet in self for text in packet.decode().split(";")]


@pytest.fixture
def sent(monkeypatch):
    found = Sent()
    send = Connection.send

    def record(connection, sql):
        found.append(sql)
        return send(connection, sql)

    monkeypatch.setattr(Connection, "send", record)
    return found


# What others pay


def plain_road(backend, sent):
    """The statements of a plain job that succeeds, and of one that is cancelled, without their ids and instants."""
    sent.clear()
    backend.settle([Settlement.ack(a_lease(backend))])
    backend.cancel([backend.enqueue([an_envelope()])[0].id], "not wanted")
    return [text.split("(")[0] for text in sent.texts]


@pytest.mark.promise("W81")
def test_a_plain_job_sends_the_same_statements_beside_flows_and_writes_no_row_of_theirs(backend, clock, sent, sql):
    before = plain_road(backend, sent)
    assert [sql(f"SELECT count(*) FROM onward_{table}") for table in FLOW_TABLES] == [[(0,)]] * 4
    FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
    rows = [sql(f"SELECT count(*) FROM onward_{table}") for table in FLOW_TABLES]

    assert plain_road(backend, sent) == before
    assert [sql(f"SELECT count(*) FROM onward_{table}") for table in FLOW_TABLES] == rows
    assert not [text for text in sent.texts for table in FLOW_TABLES if f"onward_{table}" in text]


def test_the_end_of_a_member_costs_one_packet_more_unless_its_node_is_over(backend, clock, sent):
    backend.open_session(a_session("worker"))
    plain = a_lease(backend)
    stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
    (lease, *_) = stage.claim("a")

    sent.clear()
    backend.settle([ack(plain)])
    of_a_plain_job = len(sent)
    sent.clear()
    backend.settle([ack(lease)])

    assert len(sent) == of_a_plain_job + 1
    assert not [text for text in sent.texts if text.startswith("UPDATE") and "onward_flows" in text]


# Two transactions that each end one of the two last members

# The first statement of each part of a transaction: it begins, ends the job, notes that, locks the flow, looks, commits.
PARTS = (
    b"START TRANSACTION",
    b"REPLACE INTO onward_finished",
    b"UPDATE JSON_TABLE",
    b"SELECT flow.id",
    b"SELECT seen.flow",
    b"INSERT INTO onward_ended",
)
# All 924 orders: of two that differ only in who is A and who is B, one.
ORDERS = ["A" + "".join("BA"[at in rest] for at in range(11)) for rest in itertools.combinations(range(11), 5)]


class Interleaved:
    """Lets two threads send the parts of their transactions in a given order.

    A thread that waits for a lock in the database is passed over, until it has it.
    """

    def __init__(self, order, waiting):
        self._order = list(order)
        self._waiting = waiting  # how many transactions wait for a lock
        self._changed = threading.Condition()
        self._running = set()
        self._ended = set()

    def begin_part(self, name):
        with self._changed:
            self._running.discard(name)
            self._changed.notify_all()
            while not self._may_run(name):
                self._changed.wait(0.002)
            if name in self._order:
                self._order.remove(name)
            self._running.add(name)

    def end(self, name):
        with self._changed:
            self._running.discard(name)
            self._ended.add(name)
            self._changed.notify_all()

    def _may_run(self, name):
        if self._running and not self._waiting():
            return False
        following = next((each for each in self._order if each not in self._ended), name)
        return following == name or following in self._running


@pytest.fixture
def interleave(monkeypatch, waiting):
    """Run two functions, the parts of whose transactions come in this order; return what each of them returned."""
    send = Connection.send
    names, plan = {}, []

    def in_parts(connection, sql):
        name = names.get(threading.get_ident())
        if name is None:
            return send(connection, sql)
        results = []
        for statement in sql.split(b";"):
            if statement.strip().startswith(PARTS):
                plan[-1].begin_part(name)
            results += send(connection, statement)
        return results

    monkeypatch.setattr(Connection, "send", in_parts)

    def run(order, **acts):
        plan.append(Interleaved(order, waiting))
        answers = {}

        def act(name):
            names[threading.get_ident()] = name
            try:
                answers[name] = acts[name]()
            finally:
                del names[threading.get_ident()]
                plan[-1].end(name)

        threads = [threading.Thread(target=act, args=(name,)) for name in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(answers) == len(acts)
        return answers

    return run


@pytest.fixture
def waiting(mariadb):
    with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:

        def count():
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
            ((_, number),) = cursor.fetchall()
            return int(number)

        yield count


@pytest.mark.slow
@pytest.mark.promise("W72")
@pytest.mark.usefixtures("no_deadlock")
def test_in_every_order_of_two_last_ends_what_comes_after_opens_once(backend, clock, interleave, caplog, report):
    for order in ORDERS:
        stage = FlowStage(backend, clock, a=Part(2), b=Part(2, "a"))
        one, two = (stage.claim("a", owner=owner, limit=1)[0] for owner in "AB")

        answers = interleave(
            order, A=lambda one=one: backend.settle([ack(one)]), B=lambda two=two: backend.settle([ack(two)])
        )

        assert [answer.applied for each in answers.values() for answer in each] == [True, True], order
        assert stage.states() == {"a": "completed", "b": "open"}, order
        assert stage.jobs("b") == ["available"] * 2, order
    assert not [text for text in caplog.messages if "should have gone on" in text]
    report(
        f"MariaDB: in all {2 * len(ORDERS)} orders of two transactions that end the last two members the next node opened"
    )


CANCELLED = "a person cancels the other member"
OTHER_ENDS = {
    CANCELLED: lambda backend, job_id, owner: backend.cancel([job_id], "not wanted"),
    "the process of the other member died once too often": lambda backend, job_id, owner: backend.reap(owner=owner),
    "the other member was asked to cancel, and its process died": lambda backend, job_id, owner: (
        backend.cancel([job_id], "not wanted"),
        backend.reap(owner=owner, started=()),
    ),
}


@pytest.mark.promise("W72")
@pytest.mark.parametrize("how", OTHER_ENDS)
def test_before_each_part_of_one_end_another_one_comes(backend, clock, interleave, how):
    for part in range(7):
        stage = FlowStage(
            backend, clock, letter={"max_crashes": 1}, a=Part(2), b=Part(after="a", when="failed"), c=Part(after="a")
        )
        (one,) = stage.claim("a", owner="A", limit=1)
        (two,) = backend.list(Query(flow=stage.id, node="a", states=frozenset({State.AVAILABLE})))
        if how != CANCELLED:
            stage.claim("a", owner=f"B{part}", limit=1)

        interleave(
            "A" * part + "B" * 6 + "A" * 6,
            A=lambda one=one: backend.settle([ack(one)]),
            B=lambda two=two, part=part: OTHER_ENDS[how](backend, two.id, f"B{part}"),
        )

        assert stage.states() == {"a": "failed", "b": "open", "c": "passed_over"}, part
        assert (stage.jobs("b"), stage.jobs("c")) == (["available"], ["cancelled"])


def test_a_member_enqueued_anew_under_the_id_of_one_that_ended_is_live(backend, clock):
    stage = FlowStage(backend, clock, closed=False, a=Part(), b=Part(after="a"))
    (first,) = stage.end("a", ack)
    (again,) = [each for each in stage.envelopes["a"] if each.id == first.envelope.id]

    assert backend.extend_flow(stage.id, [again])[0].created
    backend.close_flow(stage.id)

    assert stage.states() == {"a": "open", "b": "waiting"}
    stage.end("a", ack)
    assert stage.states() == {"a": "completed", "b": "open"}
    assert counts(stage, "a") == {State.COMPLETED: 1}


# Jobs that other transactions have locked


@pytest.mark.parametrize(
    ("end", "state", "reaches"), [(ack, "open", "available"), (abandon, "passed_over", "cancelled")]
)
def test_a_member_that_another_transaction_has_locked_is_left_to_the_next_look(
    backend, clock, other_session, caplog, end, state, reaches
):
    stage = FlowStage(backend, clock, a=Part(), b=Part(3, "a"))
    locked = ids(stage.envelopes["b"])[1]
    with other_session() as cursor:
        cursor.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [locked])

        ending = threading.Thread(target=stage.end, args=("a", end))
        ending.start()
        ending.join(15)
        assert not ending.is_alive(), "it waits for the other transaction"
        assert stage.states()["b"] == state
        assert stage.jobs("b") == [reaches, "scheduled", reaches]

    with caplog.at_level(logging.WARNING):
        backend.reap()

    assert stage.jobs("b") == [reaches] * 3
    assert caplog.messages == []


def test_a_member_that_settles_while_its_flow_is_cancelled_does_not_hold_that_up(backend, clock, other_session):
    stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
    running, *_ = stage.claim("a", limit=1)
    done = threading.Event()
    with other_session() as cursor:
        cursor.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [running.envelope.id])
        cancelling = threading.Thread(target=lambda: (backend.cancel_flow(stage.id, "not wanted"), done.set()))
        cancelling.start()
        eventually(lambda: stage.jobs("a") == ["executing", "cancelled", "cancelled"])
        assert stage.claim("a") == stage.claim("b") == []
    cancelling.join(30)
    assert done.is_set()
    assert list(backend.extend("worker").cancel_requested) == [(running.envelope.id, running.token)]


# Steps of a thousand


class TestRetries(RetriesInTransactions):
    """The locks of a flow and its jobs are free between two steps."""


def test_a_large_node_opens_in_steps_that_its_own_jobs_take(backend, clock):
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
def test_a_sweep_takes_the_steps_that_are_left_and_is_not_alarmed(backend, clock, caplog, end, reaches):
    stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"))
    stage.end("a", end)
    assert counts(stage, "b") != reaches

    with caplog.at_level(logging.WARNING):
        backend.reap()

    assert counts(stage, "b") == reaches
    assert caplog.messages == []


def test_a_large_flow_is_cancelled_retried_and_completes(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(MANY, "a"))
    assert backend.cancel_flow(stage.id, "not wanted")
    assert backend.counts()[State.CANCELLED] == MANY + 1

    assert backend.retry_flow(stage.id) == MANY + 1

    stage.end("a", ack)
    while leases := stage.claim("b", limit=STEP):
        backend.settle([ack(lease) for lease in leases])
    assert counts(stage, "b") == {State.COMPLETED: MANY}
    assert stage.state() == "completed"


def test_jobs_that_a_look_cancels_are_counted_as_ended(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(5, "a"))
    before = backend.look(Look(counts=True)).overview.ended

    stage.end("a", abandon)

    assert backend.look(Look(counts=True)).overview.ended == before + 6


# What no worker did


def test_an_overlooked_end_is_found_by_the_net_which_says_so(backend, clock, sql, caplog):
    stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
    sql("DELETE FROM onward_jobs WHERE node = 'a'")  # as no code does: the job is gone, and its flow was not looked at
    sql("UPDATE onward_members SET outcome = 'completed' WHERE node = 'a'")
    assert stage.states() == {"a": "open", "b": "waiting"}

    backend.reap()

    assert stage.states() == {"a": "completed", "b": "open"}
    assert "should have gone on before" in caplog.text


@pytest.mark.parametrize("taken", [False, True])
def test_a_job_that_is_set_aside_ends_its_node(backend, clock, sql, taken):
    stage = FlowStage(backend, clock, a=Part(), b=Part(2, "a"), c=Part(after="a", when="failed"))
    (job_id,) = ids(stage.envelopes["a"])
    if taken:  # there is a finished job of this id as well
        columns = (
            "id, queue, `rank`, available_at, delivery, max_crashes, enqueued_at, idempotency_ttl, attempts, crashes"
        )
        others = "interruptions, waits, job, sealed"
        sql(
            f"INSERT INTO onward_finished ({columns}, {others}, state, tombstone, finished_at) "
            f"SELECT {columns}, {others}, 'completed', false, 1 FROM onward_jobs WHERE id = %s",
            job_id,
        )
    sql("SET SESSION check_constraint_checks = 0")
    sql("UPDATE onward_jobs SET max_crashes = -5 WHERE node = 'a'")

    assert backend.set_aside() == 1

    assert stage.states() == {"a": "failed", "b": "passed_over", "c": "open"}
    assert backend.counts()[State.DISCARDED] == 1


def test_a_job_that_waits_for_its_node_is_no_damaged_one(backend, clock):
    stage = FlowStage(backend, clock, a=Part(), b=Part(0, "a"))
    (lease,) = stage.claim("a")
    backend.grow(lease, [*stage.make("b"), *stage.make("b", delay=10**9), *stage.make("b", not_before=clock.micros())])

    assert backend.set_aside() == 0

    assert stage.jobs("b") == ["scheduled"] * 3


# Retention


def test_nothing_is_left_of_a_flow_whose_jobs_are_pruned(backend, clock, sql):
    stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"), c=Part(after="a", when="failed"))
    stage.end("a", ack)
    stage.end("b", ack)
    clock.advance(1)

    backend.prune(dict.fromkeys(FINISHED, clock.micros()))

    assert [sql(f"SELECT count(*) FROM onward_{table}") for table in FLOW_TABLES] == [[(0,)]] * 4


def test_a_member_that_is_purged_is_none_of_its_flow_any_more(backend, clock):
    stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
    first, _ = stage.claim("a")
    backend.settle([ack(first)])

    assert backend.purge(Query(ids=(first.envelope.id,))) == 1

    assert counts(stage, "a") == {State.EXECUTING: 1}
    assert stage.states() == {"a": "open", "b": "waiting"}


# Transactions of callers


@pytest.fixture
def shop(url, mariadb):
    jobs = Onward(url)
    ran = []

    @jobs.job
    def step(name: str) -> None:
        ran.append(name)

    jobs.connect()
    with closing(jobs), closing(mariadb.connect("jobs", autocommit=False)) as connection:
        yield jobs, step, connection, ran


@pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"])
@pytest.mark.parametrize("commits", [True, False])
def test_a_whole_flow_joins_the_callers_transaction(shop, level, commits):
    jobs, step, connection, ran = shop
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        cursor.execute("SET NAMES latin1")
        cursor.execute("SELECT count(*) FROM onward_jobs")  # its snapshot begins here
    flow = jobs.flow("joined")
    nothing = flow.map(step, [])
    flow.add(step, "last", after=flow.map(step, [("a",), ("b",)], node="middle", after=nothing))
    flow.add(step, "alarm", after=nothing, when="failed", node="alarm")
    with jobs.transaction(connection) as tx:
        handle = tx.enqueue_flow(flow)
    assert jobs.backend.flow(handle.id) is None

    connection.commit() if commits else connection.rollback()

    jobs.drain()
    if commits:
        assert ran == ["a", "b", "last"]
        assert handle.state() == "completed"
    else:
        assert ran == []
        assert jobs.backend.flow(handle.id) is None
        assert jobs.counts()[State.AVAILABLE] == 0


@pytest.mark.usefixtures("no_deadlock")
def test_two_callers_store_flows_at_the_same_time_and_none_waits(shop, mariadb):
    jobs, step, connection, _ = shop
    with closing(mariadb.connect("jobs", autocommit=False)) as other:
        handles = []
        for caller in (connection, other):
            caller.ping()
            with caller.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            flow = jobs.flow("joined")
            flow.add(step, "b", after=flow.add(step, "a"))
            with jobs.transaction(caller) as tx:
                handles.append(tx.enqueue_flow(flow))
        other.commit()
        connection.commit()

    assert [handle.state() for handle in handles] == ["running"] * 2


def test_while_a_caller_that_has_completed_a_member_does_not_commit_others_end_theirs(backend, clock, mariadb):
    stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
    first, second, last = stage.claim("a")
    with closing(mariadb.connect("jobs", autocommit=False)) as caller, caller.cursor() as cursor:

        def run(statement):
            cursor.execute(statement.sql, statement.values or None)
            return cursor.fetchall() if cursor.description else ()

        assert backend.settle_in(ack(first), "format", run).applied
        with closing(mariadb.connect("jobs")) as other, other.cursor() as free:
            free.execute("SELECT id FROM onward_flows FOR UPDATE SKIP LOCKED")
            assert free.fetchall() == ((stage.id,),)
        assert [settled.applied for settled in backend.settle([ack(second), ack(last)])] == [True, True]
        assert stage.states() == {"a": "open", "b": "waiting"}
        caller.commit()

    assert backend.completed(first)
    assert stage.states() == {"a": "completed", "b": "open"}
    assert [node.total for node in stage.row().nodes] == [3, 1]


@pytest.mark.parametrize("found_out", [True, False])
def test_a_member_completed_in_a_callers_snapshot_opens_what_comes_after(backend, clock, mariadb, caplog, found_out):
    stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
    first, second = stage.claim("a")
    with closing(mariadb.connect("jobs", autocommit=False)) as caller, caller.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT count(*) FROM onward_members")  # its snapshot has both members live
        backend.settle([ack(first)])

        def run(statement):
            cursor.execute(statement.sql, statement.values or None)
            return cursor.fetchall() if cursor.description else ()

        assert backend.settle_in(ack(second), "format", run).applied
        assert stage.states() == {"a": "open", "b": "waiting"}
        caller.commit()

    with caplog.at_level(logging.WARNING):
        if found_out:  # as every worker does when the handler has returned
            assert backend.completed(second)
        else:
            backend.reap()

    assert stage.states() == {"a": "completed", "b": "open"}
    assert stage.jobs("b") == ["available"]
    assert caplog.messages == []


def test_a_member_that_is_replaced_in_a_callers_transaction_ends_its_node_by_the_next_sweep(backend, clock):
    stage = FlowStage(backend, clock, letter={"unique_key": "key"}, a=Part(), b=Part(0, "a", "failed"))
    other = an_envelope(queue="other", unique_key="key", unique_strategy="cancel_existing")

    completion = backend.begin(at_most=30.0)
    completion.run(lambda style: backend.joining([other], style))
    completion.commit()
    backend.reap()

    assert stage.states() == {"a": "failed", "b": "completed"}
    assert stage.state() == "failed"
