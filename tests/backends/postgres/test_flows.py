"""Flows in a database: two ends at once in every order, locks that no look waits for, and what a plain job pays."""

import asyncio
import itertools
import json
import logging
import random
import threading
from contextlib import closing
from functools import partial

import psycopg
import pytest

from onward import Onward
from onward.backend import Settlement
from onward.backends.postgres import PostgresBackend
from onward.backends.postgres.wire import Wire
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, a_session, a_turn, an_envelope
from onward.testing.contract.flow_stage import FlowStage, Part, abandon, ack
from onward.testing.contract.lanes import a_limit, declare, in_lane
from tests.backends.flows_in_steps import FlowsInSteps
from tests.backends.postgres.stepping import Side, SteppedBackend, in_order
from tests.waiting import eventually

TURN = ["begin", "lock_session", "settle", "lock_flows", "flows_to_look_at", "commit"]
CANCEL = ["cancel", "begin", "cancel", "lock_flows", "flows_to_look_at", "commit"]
ORDERS = list(itertools.combinations(range(12), 6))  # the places of the first one's
# What follows a look that finds something goes with it.
FOLLOWING = (
    "flows_among",
    "nodes_now",
    "waiting_members",
    "open_members",
    "cancel_members",
    "change_nodes",
    "change_flows",
    "wake_apart",
)


@pytest.fixture
def past_the_backend(sql):
    return sql


class TestSteps(FlowsInSteps):
    """Each is a transaction of its own."""


class TestTwoEnds:
    @pytest.fixture
    def postgres(self, newest_postgres):
        """The statements are the same for all versions: one is asked."""
        return newest_postgres

    @pytest.fixture
    def open_backend(self, open_backend, monkeypatch):
        monkeypatch.setattr(PostgresBackend, "from_url", SteppedBackend.from_url)
        return open_backend

    @pytest.fixture
    def sides(self, open_backend, sql):
        backends = [open_backend(), open_backend()]
        for each in backends:
            each.side = Side(sql, FOLLOWING)
        return backends

    @pytest.fixture
    def race(self, sides):
        def race(first, second, order):
            for backend, act in zip(sides, (first, second), strict=True):
                backend.side.start(lambda backend=backend, act=act: act(backend))
            in_order(sides[0].side, sides[1].side, order, 12)
            return [backend.side.sent for backend in sides]

        return race

    @pytest.fixture
    def two_turns(self, backend, clock, race):
        """``two_turns(order)``: end the two last members of a node by two turns; return whether what follows has opened."""

        def run(order):
            stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
            ends = []
            for owner in ("one", "two"):
                (lease,) = stage.claim("a", limit=1, owner=owner)
                ends.append(lambda side, lease=lease: side.turn(a_turn(ack(lease), owner=lease.owner)))
            assert race(*ends, order) == [TURN, TURN]
            (job,) = stage.stored("b")
            return stage.states() == {"a": "completed", "b": "open"} and job.state is State.AVAILABLE

        return run

    @pytest.mark.promise("W71")
    def test_in_all_924_orders_of_two_turns_that_end_the_last_members_the_next_node_opens(self, two_turns, no_deadlock):
        stuck = [order for order in ORDERS if not two_turns(order)]

        assert len(ORDERS) == 924
        assert stuck == []

    def test_without_the_lock_of_the_flow_it_would_stay_shut(self, two_turns, sides, monkeypatch):
        """So the orders above are those in which it can."""
        for side in sides:
            locking = side._sql["lock_flows"]
            loose = locking._replace(sql=locking.sql.replace(b" FOR UPDATE", b""))
            monkeypatch.setattr(side, "_sql", {**side._sql, "lock_flows": loose})

        assert any(not two_turns(order) for order in ORDERS)

    def test_in_every_order_of_a_cancel_and_the_end_of_the_other_one_the_flow_goes_on(
        self, backend, clock, race, no_deadlock
    ):
        for order in ORDERS[::7]:
            stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"), c=Part(after="a", when="failed"))
            (lease,) = stage.claim("a", limit=1)
            (waiting,) = [job.id for job in stage.stored("a") if job.state is State.AVAILABLE]

            sent = race(
                lambda side, lease=lease: side.turn(a_turn(ack(lease), owner=lease.owner)),
                lambda side, waiting=waiting: side.cancel([waiting], "not wanted"),
                order,
            )

            assert sent == [TURN, CANCEL]
            assert stage.states() == {"a": "failed", "b": "passed_over", "c": "open"}, order


class TestLocks:
    @pytest.mark.parametrize("end", [ack, abandon])
    def test_a_member_that_another_transaction_has_is_left_to_the_next_look(self, backend, clock, url, caplog, end):
        stage = FlowStage(backend, clock, a=Part(), b=Part(3, "a"))
        busy = stage.stored("b")[1].id
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [busy])

            ending = threading.Thread(target=stage.end, args=["a", end])
            ending.start()
            ending.join(10)
            waits = ending.is_alive()
            if waits:
                other.rollback()
                ending.join()

            assert not waits
            done = State.AVAILABLE if end is ack else State.CANCELLED
            assert [job.id for job in stage.stored("b") if job.state is not done] == [busy]
            assert stage.state() == "running"
        with caplog.at_level(logging.ERROR):
            backend.reap()

        assert stage.jobs("b") == [done.value] * 3
        assert stage.state() == ("running" if end is ack else "failed")
        assert caplog.messages == []

    def test_a_running_member_whose_row_is_locked_is_asked_by_the_next_look(self, backend, clock, url):
        stage = FlowStage(backend, clock, stop_on_failure=True, a=Part(3))
        first, busy, third = stage.claim("a")
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_jobs WHERE id = %s FOR UPDATE", [busy.envelope.id])
            backend.settle([abandon(first)])
            assert backend.extend("worker").cancel_requested == ((third.envelope.id, third.token),)

        backend.reap()

        assert len(backend.extend("worker").cancel_requested) == 2

    def test_a_flow_that_is_cancelled_while_a_job_adds_to_it_cancels_what_was_added(
        self, backend, clock, open_backend, sql
    ):
        stage = FlowStage(backend, clock, a=Part())
        (lease,) = stage.claim("a")
        grower = open_backend()
        added, stopped, goes_on = stage.make("a"), threading.Event(), threading.Event()
        add = grower._add

        def add_and_stop(tx, envelopes, *, retried):
            answers = add(tx, envelopes, retried=retried)
            stopped.set()
            assert goes_on.wait(30)
            return answers

        grower._add = add_and_stop
        growing = threading.Thread(target=grower.grow, args=[lease, added])
        growing.start()
        assert stopped.wait(30)
        cancelling = threading.Thread(target=backend.cancel_flow, args=[stage.id, "not wanted"])
        cancelling.start()
        waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        eventually(lambda: sql(waits))
        goes_on.set()
        growing.join()
        cancelling.join()

        assert backend.get(added[0].id).state is State.CANCELLED

    def test_a_prune_beside_a_replay_of_the_same_flow_waits_for_no_lock(self, backend, clock, url, no_deadlock):
        stage = FlowStage(backend, clock, a=Part(2))
        stage.end("a", ack)
        clock.advance(10)
        with psycopg.connect(url) as other:
            other.execute("SELECT 1 FROM onward_flows FOR UPDATE")
            pruning = threading.Thread(target=backend.prune, args=[{State.COMPLETED: clock.micros()}])
            pruning.start()
            pruning.join(0.05)
        pruning.join()

        backend.prune({State.COMPLETED: clock.micros()})
        assert backend.flow(stage.id) is None


class TestEverythingAtOnce:
    FLOWS, WORKERS = 40, 5

    def test_workers_cancels_and_reaps_on_the_same_flows_leave_none_stuck(
        self, open_backend, no_deadlock, caplog, report
    ):
        rng = random.Random(11)
        backends = [open_backend(clock=None) for _ in range(self.WORKERS + 1)]
        main = backends.pop()
        flows = [self._enqueue(main, rng) for _ in range(self.FLOWS)]
        over = threading.Event()
        errors = []

        def work(number, backend):
            turns = random.Random(number)
            try:
                backend.open_session(a_session(f"worker-{number}"))
                while not over.is_set():
                    claim = a_claim(owner=f"worker-{number}", queues=("flows",), limit=5)
                    self._settle(backend, backend.claim(claim), turns)
            except Exception as error:  # noqa: BLE001  asserted below
                errors.append(error)

        threads = [threading.Thread(target=work, args=each) for each in enumerate(backends)]
        for thread in threads:
            thread.start()
        try:
            for stage in flows[::5]:
                main.cancel([rng.choice(stage.all).id], "not wanted")
            main.cancel_flow(flows[1].id, "not wanted")
            eventually(lambda: main.reap() is not None and not main.flows(running=True), 60)
        finally:
            over.set()
            for thread in threads:
                thread.join()

        assert errors == []
        assert "should have gone on before" not in caplog.text
        assert main.counts()[State.AVAILABLE] == main.counts()[State.SCHEDULED] == 0
        report(f"flows on PostgreSQL: {self.FLOWS} flows, {self.WORKERS} workers at once, none stuck, no deadlock")

    @staticmethod
    def _enqueue(backend, rng):
        names = [f"n{number}" for number in range(rng.randint(2, 5))]
        parts = {
            name: Part(
                rng.randint(1, 4),
                tuple(each for each in names[:place] if rng.random() < 0.5),
                rng.choice(["succeeded", "failed", "finished"]),
            )
            for place, name in enumerate(names)
        }
        return FlowStage(backend, None, stop_on_failure=rng.random() < 0.3, letter={"queue": "flows"}, **parts)

    @staticmethod
    def _settle(backend, leases, rng):
        for lease in leases:
            if rng.random() < 0.1:
                at = backend.get(lease.envelope.id)
                backend.grow(lease, [an_envelope(queue="flows", flow=at.flow, node=at.node)])
        backend.settle([rng.choice([ack, ack, ack, abandon])(lease) for lease in leases])


class TestCallersTransactions:
    @pytest.fixture
    def shop(self, url):
        jobs = Onward(url)
        ran = []

        @jobs.job
        def step(name: str) -> None:
            ran.append(name)

        with closing(jobs):
            jobs.connect()
            yield jobs, step, ran

    @staticmethod
    def _flow(jobs, step):
        flow = jobs.flow("joined")
        nothing = flow.map(step, [])
        flow.add(step, "last", after=flow.map(step, [("a",), ("b",)], node="middle", after=nothing))
        flow.add(step, "alarm", after=nothing, when="failed", node="alarm")
        return flow

    @staticmethod
    def _check(jobs, handle, ran, *, commits):
        jobs.drain()
        if commits:
            assert ran == ["a", "b", "last"]
            assert handle.state() == "completed"
        else:
            assert ran == []
            assert jobs.backend.flow(handle.id) is None
            assert jobs.counts()[State.AVAILABLE] == jobs.counts()[State.SCHEDULED] == 0

    @pytest.mark.parametrize("level", list(psycopg.IsolationLevel)[1:])
    @pytest.mark.parametrize("commits", [True, False])
    def test_a_whole_flow_joins_the_callers_transaction(self, shop, url, level, commits):
        jobs, step, ran = shop
        with psycopg.connect(url) as connection:
            connection.isolation_level = level
            with jobs.transaction(connection) as tx:
                handle = tx.enqueue_flow(self._flow(jobs, step))
            assert jobs.backend.flow(handle.id) is None
            connection.commit() if commits else connection.rollback()

        self._check(jobs, handle, ran, commits=commits)

    @pytest.mark.parametrize("commits", [True, False])
    def test_it_joins_one_of_an_event_loop(self, shop, url, commits):
        jobs, step, ran = shop

        async def enqueue():
            async with await psycopg.AsyncConnection.connect(url) as connection:
                async with jobs.transaction(connection) as tx:
                    handle = await tx.enqueue_flow(self._flow(jobs, step))
                await (connection.commit() if commits else connection.rollback())
                return handle

        self._check(jobs, asyncio.run(enqueue()), ran, commits=commits)

    def test_while_a_caller_that_has_completed_a_member_does_not_commit_others_end_theirs(self, backend, clock, url):
        stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
        first, second, last = stage.claim("a")
        with psycopg.connect(url) as caller:

            def run(statement):
                cursor = caller.execute(statement.sql, statement.values or None)
                return cursor.fetchall() if cursor.description else ()

            assert backend.settle_in(ack(first), "format", run).applied
            with psycopg.connect(url) as other:
                free = other.execute("SELECT id FROM onward_flows FOR UPDATE SKIP LOCKED").fetchall()
            assert free == [(stage.id,)]

            assert [settled.applied for settled in backend.settle([ack(second), ack(last)])] == [True, True]
            assert stage.states() == {"a": "open", "b": "waiting"}

        assert backend.completed(first)
        assert stage.states() == {"a": "completed", "b": "open"}
        assert [node.total for node in stage.row().nodes] == [3, 1]

    @pytest.mark.parametrize("level", list(psycopg.IsolationLevel)[1:])
    @pytest.mark.parametrize("found_out", [True, False])
    def test_a_member_that_a_caller_completes_opens_what_comes_after_whatever_its_snapshot_is(
        self, backend, clock, url, caplog, level, found_out
    ):
        stage = FlowStage(backend, clock, a=Part(2), b=Part(after="a"))
        first, second = stage.claim("a")
        with psycopg.connect(url) as caller:
            caller.isolation_level = level
            caller.execute("SELECT count(*) FROM onward_jobs")  # its snapshot has both members live, if it keeps one
            backend.settle([ack(first)])

            def run(statement):
                cursor = caller.execute(statement.sql, statement.values or None)
                return cursor.fetchall() if cursor.description else ()

            assert backend.settle_in(ack(second), "format", run).applied
            assert stage.states() == {"a": "open", "b": "waiting"}

        with caplog.at_level(logging.WARNING):
            if found_out:  # as every worker does when the handler has returned
                assert backend.completed(second)
            else:
                backend.reap()

        assert stage.states() == {"a": "completed", "b": "open"}
        assert stage.jobs("b") == ["available"]
        assert caplog.messages == []


class TestCost:
    @pytest.fixture
    def sent(self, monkeypatch):
        """The statements that are sent, with their values."""
        found = []
        send = Wire.send

        def recording(wire, sql, values):
            found.append((sql, values))
            return send(wire, sql, values)

        monkeypatch.setattr(Wire, "send", recording)
        return found

    @pytest.fixture
    def statements(self, backend, sent):
        """``statements(act)``: the names of those that this sends."""
        names = {section.sql: name for name, section in backend._sql.items()}

        def run(act):
            sent.clear()
            act()
            return [names[sql] for sql, _ in sent]

        return run

    def test_a_plain_job_sends_the_same_bytes_beside_flows(self, backend, clock, sent):
        def road():
            sent.clear()
            backend.settle([Settlement.ack(a_lease(backend))])
            return [(sql, [len(str(value)) for value in values]) for sql, values in sent]

        road()
        before = road()
        FlowStage(backend, clock, a=Part(3), b=Part(after="a"))

        assert road() == before

    def test_plain_jobs_have_no_entry_in_the_indexes_of_flows(self, backend, sql):
        sql("REINDEX INDEX onward_jobs_flow_idx")
        sql("REINDEX INDEX onward_finished_flow_idx")
        for _ in range(3):
            backend.enqueue([an_envelope() for _ in range(500)])
            backend.settle([ack(lease) for lease in backend.claim(a_claim(limit=500))])

        sizes = "SELECT pg_relation_size('onward_jobs_flow_idx'), pg_relation_size('onward_finished_flow_idx')"
        assert sql(sizes) == [(8192, 8192)]  # the first page, which has no entries

    def test_claims_of_members_find_room_beside_their_entries(self, backend, clock, sql, url):
        """Under a snapshot that stays open, so that none of the earlier entries can make room."""
        stage = FlowStage(backend, clock, a=Part(3_000), b=Part(after="a"))
        size = "SELECT pg_relation_size('onward_jobs_flow_idx') / 8192"
        ((before,),) = sql(size)
        with psycopg.connect(url) as pinning:
            pinning.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            pinning.execute("SELECT 1 FROM onward_jobs LIMIT 1")
            assert len(stage.claim("a")) == 3_000

        ((after,),) = sql(size)
        assert after <= before + 1  # the last page was still being filled

    def test_the_end_of_a_member_is_two_statements_more_until_its_node_is_over(self, backend, clock, statements):
        stage = FlowStage(backend, clock, a=Part(3), b=Part(after="a"))
        *others, last = stage.claim("a")
        plain = a_lease(backend)

        assert statements(lambda: backend.settle([Settlement.ack(plain)])) == [
            "begin",
            "lock_session",
            "complete",
            "commit",
        ]
        for lease, settlement in zip(others, (ack, Settlement.ack), strict=True):
            settles = "settle" if settlement is ack else "complete_members"
            expected = [settles if name == "settle" else name for name in TURN]
            assert statements(partial(backend.settle, [settlement(lease)])) == expected
        assert statements(lambda: backend.settle([ack(last)])) == [
            *TURN[:-1],
            *("flows_among", "nodes_now", "waiting_members", "open_members", "change_nodes"),
            *("commit", "wake_apart"),
        ]

    def test_the_look_comes_before_the_commit_of_a_turn_that_claims_from_lanes(self, backend, clock, statements):
        """Such a turn sends its commit together with the claim, else."""
        stage = FlowStage(backend, clock, a=Part(), b=Part(after="a"))
        (lease,) = stage.claim("a")
        declare(backend, a_limit("render", running=5))
        backend.enqueue(in_lane(3, queue="lanes"))
        claim = a_claim(queues=("lanes",))

        names = statements(lambda: backend.turn(a_turn(ack(lease), claim=claim)))

        assert "lock_scopes" in names
        assert names.index("change_nodes") < names.index("commit")
        assert stage.states() == {"a": "completed", "b": "open"}

    def test_the_lock_and_the_look_are_one_round_trip(self, backend, clock, monkeypatch):
        stage = FlowStage(backend, clock, a=Part(5), b=Part(after="a"))
        plain = a_lease(backend)
        first, second, *_ = stage.claim("a")
        trips = []
        flush = Wire._flush

        def counting(wire):
            trips.append(1)
            flush(wire)

        monkeypatch.setattr(Wire, "_flush", counting)

        def of(lease):
            trips.clear()
            backend.settle([ack(lease)])
            return len(trips)

        of(first)  # prepares
        assert of(second) == of(plain) + 1

    @pytest.mark.promise("F44")
    def test_under_a_snapshot_that_stays_open_a_look_does_not_go_through_all_that_have_ended(
        self, backend, clock, url, sent
    ):
        stage = FlowStage(backend, clock, a=Part(3_000), b=Part(after="a"))
        oldest, *others = stage.claim("a")
        with psycopg.connect(url) as pinning:
            pinning.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            pinning.execute("SELECT 1 FROM onward_jobs LIMIT 1")
            backend.settle([ack(lease) for lease in others[2:]])
            backend.settle([ack(lease) for lease in others[:1]])
            sent.clear()
            backend.settle([ack(others[1])])

            look = backend._sql["flows_to_look_at"]
            (places,) = [values[0] for statement, values in sent if statement == look.sql]
            ((_, _, seen),) = json.loads(places)
            assert seen in {oldest.envelope.id, others[1].envelope.id}
            whole, remembered = (
                self._pages(backend, look.sql, json.dumps([[stage.id, "a", job]])) for job in (None, oldest.envelope.id)
            )

        assert whole > 1_000
        assert remembered < 30

    @staticmethod
    def _pages(backend, statement, places):
        with backend._connections.borrowed() as connection:
            (explained,) = connection.execute(
                b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, [places]
            ).fetchone()
        plan = explained[0]["Plan"]
        return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
