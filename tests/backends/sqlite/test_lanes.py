"""Lanes and limits in one file: what a claim runs, what it costs, and what it leaves in the tables."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing

import msgspec
import pytest

from onward.backend import Claim, Query, Session, Settlement
from onward.backends.sqlite import SqliteBackend
from onward.backends.sqlite.transaction import Transaction
from onward.errors import BackendError
from onward.flow.lanes import lane_of
from onward.flow.limits import Bounds
from onward.job.settlement import GateChange
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_turn, ids, some_envelopes
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn


@pytest.fixture
def statements(monkeypatch):
    """The names of the statements that were run, in their order."""
    run = []

    def noting(method):
        original = getattr(Transaction, method)

        def call(self, name, *args, **kwargs):
            run.append(name)
            return original(self, name, *args, **kwargs)

        monkeypatch.setattr(Transaction, method, call)

    for method in ("run", "run_many", "rows", "row", "value", "ask"):
        noting(method)
    return run


@pytest.fixture
def look(file):
    """Read the file beside the backend."""

    def rows(sql, *values):
        with closing(sqlite3.connect(file)) as connection:
            return connection.execute(sql, values).fetchall()

    return rows


class TestStatements:
    @pytest.mark.promise("L53")
    def test_a_claim_of_plain_jobs_runs_what_it_ran_without_lanes(self, backend, statements):
        backend.open_session(Session(owner="worker"))
        backend.enqueue(some_envelopes(5))
        backend.enqueue(in_lane(5, "acme", queue="elsewhere"))
        statements.clear()

        assert len(backend.turn(a_turn(claim=a_claim(limit=3))).leases) == 3

        assert statements == ["session", "candidates", "claim"]

    def test_a_claim_of_many_queues_runs_as_many_statements_as_one_of_two(self, backend, statements):
        queues = tuple(f"queue-{number}" for number in range(30))
        backend.open_session(Session(owner="worker"))
        jobs = [envelope for queue in queues for envelope in some_envelopes(2, queue=queue)]
        backend.enqueue(jobs)
        statements.clear()

        leases = backend.turn(a_turn(claim=Claim(queues=queues[::-1], limit=50))).leases

        assert statements == ["session", "queues_out_of_line", "candidates_of_queues", "claim"]
        assert [lease.envelope.queue for lease in leases] == [queue for queue in queues[:4:-1] for _ in range(2)]

    def test_a_lane_in_one_of_many_queues_and_what_is_due_in_others_are_claimed_in_their_order(self, backend, clock):
        backend.open_session(Session(owner="worker"))
        late, laned, plain = (
            some_envelopes(1, queue="a", delay=0.5),
            in_lane(1, queue="b"),
            some_envelopes(2, queue="c"),
        )
        backend.enqueue([*plain, *laned, *late])
        clock.advance(1)

        result = backend.turn(a_turn(claim=Claim(queues=("a", "b", "c"), limit=3)))

        assert ([lease.envelope.queue for lease in result.leases], result.promoted) == (["a", "b", "c"], 1)

    def test_a_lane_that_falls_due_in_one_of_many_queues_is_claimed_in_its_order(self, backend, clock):
        backend.open_session(Session(owner="worker"))
        backend.enqueue([*some_envelopes(1, queue="b"), *in_lane(1, queue="a", delay=0.5)])
        clock.advance(1)

        (lease,) = backend.turn(a_turn(claim=Claim(queues=("a", "b"), limit=1))).leases

        assert lease.envelope.queue == "a"

    def test_a_claim_of_many_queues_is_full_though_the_turn_has_released_what_comes_first(self, backend):
        backend.open_session(Session(owner="worker"))
        backend.enqueue([*some_envelopes(2, queue="a"), *some_envelopes(3, queue="b")])
        claim = Claim(queues=("a", "b"), limit=2)
        released = backend.turn(a_turn(claim=claim)).leases

        leases = backend.turn(a_turn(*map(Settlement.release, released), claim=claim)).leases

        assert [lease.envelope.queue for lease in leases] == ["b", "b"]

    def test_a_suspect_in_one_of_many_queues_ends_a_claim_and_is_claimed_alone(self, backend):
        backend.open_session(Session(owner="worker"))
        backend.enqueue(some_envelopes(1, queue="b"))
        (lease,) = backend.turn(a_turn(claim=Claim(queues=("b",), limit=1))).leases
        backend.turn(a_turn(Settlement.crashed(lease, "killed")))
        backend.enqueue([*some_envelopes(2, queue="a"), *some_envelopes(2, queue="c")])

        def queues():
            found = backend.turn(a_turn(claim=Claim(queues=("a", "b", "c"), limit=9))).leases
            return [lease.envelope.queue for lease in found]

        assert [queues(), queues(), queues()] == [["a", "a"], ["b"], ["c", "c"]]

    def test_a_job_with_a_lane_that_falls_due_in_a_claim_is_claimed_by_it(self, backend, clock, statements):
        backend.open_session(Session(owner="worker"))
        backend.enqueue([*some_envelopes(1, delay=0.5), *in_lane(1, delay=0.5)])
        clock.advance(1)

        result = backend.turn(a_turn(claim=a_claim(limit=5)))

        assert (len(result.leases), result.promoted) == (2, 2)
        assert "lane_heads" in statements

    def test_a_queue_that_has_no_place_left_in_a_claim_is_promoted_all_the_same(self, backend, clock):
        backend.open_session(Session(owner="worker"))
        backend.enqueue(some_envelopes(3))
        (later,) = some_envelopes(1, queue="other", delay=0.5)
        (late,) = some_envelopes(1, queue="other", expires_at=clock.micros() + 1)
        backend.enqueue([later, late])
        clock.advance(1)

        result = backend.turn(a_turn(claim=a_claim(queues=("default", "other"), limit=2)))

        assert (len(result.leases), result.promoted) == (2, 1)
        assert backend.get(later.id).state is State.AVAILABLE
        assert backend.get(late.id).state is State.CANCELLED

    def test_a_claim_of_many_lanes_runs_few_statements(self, backend, statements):
        backend.open_session(Session(owner="worker"))
        backend.enqueue([each for number in range(100) for each in in_lane(3, f"tenant-{number}")])
        turn(backend, limit=100)
        statements.clear()

        assert len(backend.turn(a_turn(claim=a_claim(limit=100))).leases) == 100

        assert len(statements) <= 10

    def test_the_leases_of_many_limited_lanes_are_counted_at_once(self, backend, statements):
        declare(backend, a_limit(kind="key", running=2, rate="1000/s"))
        backend.enqueue([each for number in range(100) for each in in_lane(3, f"tenant-{number}")])
        turn(backend, limit=100)
        statements.clear()

        assert len(backend.turn(a_turn(claim=a_claim(limit=100))).leases) == 100

        assert statements.count("running_of_lanes") <= 4
        assert statements.count("gates_among") <= 8
        assert len(statements) <= 25

    def test_a_batch_over_many_lanes_is_one_statement(self, backend, statements):
        backend.enqueue([in_lane(1, f"tenant-{number}", cost=number + 1)[0] for number in range(200)])

        assert statements == ["enqueue_alike"]
        assert {(job.lane, job.cost) for job in backend.list(Query(limit=200))} == {
            (lane_of("render", f"tenant-{number}"), number + 1) for number in range(200)
        }

    def test_a_claim_that_finds_all_lanes_full_waits_for_no_writer(self, backend, file):
        declare(backend, a_limit(running=1), a_limit("default", "queue", running=2))
        backend.enqueue(in_lane(5) + some_envelopes(5))
        assert len(claimed(backend)) == 2
        claim = Claim(queues=("default",), limit=5)
        backend.turn(a_turn(claim=claim))

        with closing(sqlite3.connect(file)) as other:
            other.execute("BEGIN IMMEDIATE")
            answers = []
            asking = threading.Thread(target=lambda: answers.append(backend.turn(a_turn(claim=claim))), daemon=True)
            asking.start()
            asking.join(10)
            other.rollback()

        assert [answer.leases for answer in answers] == [[]], "it waited for the write lock"


class TestRows:
    @pytest.mark.promise("L46")
    def test_what_runs_in_every_queue_is_counted(self, backend):
        declare(backend, a_limit(running=3), a_limit(kind="key", running=2))
        backend.enqueue([each for queue in "abcd" for each in in_lane(5, "acme", queue=queue)])
        backend.enqueue([each for queue in "abcd" for each in in_lane(5, "other", queue=queue)])

        found = [lease for queue in "abcd" for lease in claimed(backend, queues=(queue,), limit=1)]

        assert len(found) == 3
        assert max(Counter(lease.lane for lease in found).values()) <= 2
        assert [state.running for state in backend.limits()] == [3, None]

    def test_plain_jobs_of_a_limited_queue_are_counted_and_stay_plain(self, backend, look):
        backend.set_limit("queue", "default", Bounds(running=2), new=True)
        backend.enqueue(some_envelopes(3))
        first, second = claimed(backend)
        assert (first.lane, backend.get(first.envelope.id).lane) == (None, None)
        assert look("SELECT count(*) FROM onward_jobs WHERE lane = '' AND state = 'executing'") == [(2,)]

        backend.settle([Settlement.release(first), Settlement.abandon(second, "gave up")])
        backend.set_limit("queue", "default", Bounds())
        backend.replay(Query(ids=(second.envelope.id,)))

        assert len(turn(backend, limit=10).leases) == 3, "one of them is in no line"

    def test_a_queue_without_a_limit_leaves_no_trace(self, backend, look):
        backend.enqueue(some_envelopes(3))
        claimed(backend)

        assert look("SELECT count(*) FROM onward_jobs WHERE lane IS NOT NULL OR booked IS NOT NULL") == [(0,)]
        assert look("SELECT count(*) FROM onward_gates") == [(0,)]

    @pytest.mark.parametrize("how", ["retry", "due"])
    def test_a_booked_job_that_is_made_due_is_booked_no_longer(self, backend, clock, look, how):
        declare(backend, a_limit(kind="key", rate="1/min"))
        backend.enqueue(in_lane(2, "acme"))
        assert len(claimed(backend)) == 1
        assert claimed(backend) == []
        ((booked,),) = look("SELECT id FROM onward_jobs WHERE booked = 1 AND state = 'scheduled'")

        clock.advance(61)
        if how == "retry":
            backend.retry([booked])
        (lease,) = claimed(backend)
        assert lease.envelope.id == booked
        backend.settle([Settlement.nack(lease, 5)])

        assert look("SELECT state, booked FROM onward_jobs WHERE id = ?", booked) == [("retryable", None)]

    def test_a_booked_job_whose_key_is_free_again_is_booked_no_longer(self, backend, clock, look):
        declare(backend, a_limit(kind="key", rate="2/min"))
        first, second, third = in_lane(3, "acme", single_instance=True)
        backend.enqueue([first])
        (holder,) = claimed(backend)
        backend.enqueue([second])
        (busy,) = claimed(backend)
        backend.settle([Settlement.snooze(busy, 5, waits=1)])
        clock.advance(6)
        backend.enqueue([third])
        assert claimed(backend) == [], "there is no token yet"
        assert (second.id,) in look("SELECT id FROM onward_jobs WHERE booked = 1")

        backend.ack(holder)

        assert look("SELECT state, booked FROM onward_jobs WHERE id = ?", second.id) == [("available", None)]

    def test_gates_that_say_nothing_any_more_are_dropped_and_others_stay(self, backend, clock, look):
        declare(backend, a_limit(kind="key", rate="10/min"), a_limit("mail", rate="1/h"))
        backend.enqueue(in_lane(10, "acme") + in_lane(2, of="mail") + in_lane(1, of="shut"))
        claimed(backend)
        backend.shut("shut/")
        clock.advance(30)
        backend.prune({})
        assert {lane for (lane,) in look("SELECT lane FROM onward_gates")} == {
            lane_of("render", "acme"),
            "mail/",
            "shut/",
        }

        clock.advance(31)
        backend.prune({})

        assert {lane for (lane,) in look("SELECT lane FROM onward_gates")} == {"mail/", "shut/"}

    def test_the_look_for_idle_gates_goes_on_where_it_stopped(self, backend, clock, look):
        declare(backend, a_limit(kind="key", rate="10/min"))
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(30)])
        claimed(backend)
        clock.advance(61)

        for _ in range(4):
            backend.prune({}, limit=10)

        assert look("SELECT count(*) FROM onward_gates") == [(0,)]

    @pytest.mark.parametrize(
        ("table", "column", "value"),
        [
            ("jobs", "lane", "render"),
            ("jobs", "cost", 0),
            ("jobs", "cost", 1_000_001),
            ("jobs", "booked", 2),
            ("limits", "kind", "tenant"),
            ("limits", "declared_running", 0),
            ("limits", "chosen_tokens", -1),
            ("gates", "shut_until", 1 << 60),
            ("gates", "full_at", -1),
        ],
    )
    def test_values_that_no_worker_writes_are_refused_by_the_file(self, backend, file, table, column, value):
        declare(backend, a_limit(rate="1/s", running=1))
        backend.enqueue(in_lane(2))
        claimed(backend)

        with closing(sqlite3.connect(file)) as connection, pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            connection.execute(f"UPDATE onward_{table} SET {column} = ?", (value,))

    def test_a_job_that_joins_a_transaction_is_in_its_lane(self, backend, file):
        (envelope,) = in_lane(1, "acme", cost=3)
        steps = backend.joining([envelope], "qmark")
        with closing(sqlite3.connect(file)) as connection, connection:
            reply = None
            try:
                while True:
                    statement = steps.send(reply)
                    reply = connection.execute(statement.sql, statement.values).fetchall()
            except StopIteration:
                pass

        (lease,) = claimed(backend)

        assert (lease.lane, backend.get(envelope.id).cost) == (lane_of("render", "acme"), 3)

    def test_a_gate_is_changed_with_the_settlement_or_not_at_all(self, backend, look, monkeypatch):
        backend.enqueue(in_lane(2))
        first, second = claimed(backend)
        shutting = msgspec.structs.replace(Settlement.ack(first), gate=GateChange("render/", 60))
        backend.ack(second)
        late = msgspec.structs.replace(Settlement.nack(second, 0), gate=GateChange("late/", 60))

        backend.settle([shutting, late])

        assert look("SELECT lane FROM onward_gates") == [("render/",)]


class TestCost:
    """In steps, see `steps_of`."""

    @pytest.mark.promise("L51")
    def test_a_claim_costs_the_same_whatever_waits_in_a_full_lane(self, backend, steps_of):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(10) + some_envelopes(100))
        assert len(turn(backend, limit=1).leases) == 1
        turn(backend, limit=1)

        before = steps_of(lambda: turn(backend, limit=10))
        backend.enqueue(in_lane(5_000))

        assert steps_of(lambda: turn(backend, limit=10)) < before * 1.2

    @pytest.mark.promise("L51")
    def test_a_claim_steps_over_all_lanes_of_a_full_job(self, backend, steps_of):
        declare(backend, a_limit(running=1))
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(20)] + some_envelopes(100))
        turn(backend, limit=2)

        before = steps_of(lambda: turn(backend, limit=10))
        backend.enqueue([in_lane(1, f"tenant-{number}")[0] for number in range(20, 3_000)])

        assert steps_of(lambda: turn(backend, limit=10)) < before * 1.5

    @pytest.mark.promise("L51")
    def test_a_claim_looks_at_a_bounded_number_of_lanes(self, backend, steps_of):
        declare(backend, a_limit(kind="key", running=1))
        backend.enqueue([each for number in range(200) for each in in_lane(2, f"tenant-{number}")])
        assert len(claimed(backend, limit=200)) == 200

        def claim_again():
            backend._expects_work = (
                True  # as after a claim that answered `more`: it does not look first without the lock
            )
            assert turn(backend, limit=10).more

        before = steps_of(claim_again)
        backend.enqueue([each for number in range(200, 800) for each in in_lane(2, f"tenant-{number}")])
        while claimed(backend, limit=1_000):
            pass

        assert steps_of(claim_again) < before * 1.2


class TestWaiting:
    def test_a_worker_that_waits_for_a_slot_wakes_when_it_is_free(self, backend, open_backend):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(2))
        (lease,) = claimed(backend)
        waiter = open_backend()
        woken = threading.Event()

        def wait():
            waiter.wait(["default"], 60)
            woken.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not woken.wait(0.5), "a full lane is no work"
        backend.ack(lease)

        assert woken.wait(20)
        waiting.join()

    def test_what_opens_later_is_known(self, backend, clock):
        declare(backend, a_limit(rate="1/min"))
        backend.enqueue(in_lane(2))
        claimed(backend)

        assert backend._next_due(["default"]) == clock.micros() + 60_000_000


_CLAIMER = """
import sys, time
from onward.backend import Claim, Session, Settlement, Turn
from onward.backends.sqlite import SqliteBackend

file, owner = sys.argv[1:]
backend = SqliteBackend.open(file)
backend.open_session(Session(owner=owner))
print("ready", flush=True)
while True:
    leases = backend.turn(Turn(owner=owner, claim=Claim(queues=("default", "other"), limit=3))).leases
    time.sleep(0.002)
    backend.turn(Turn(owner=owner, settlements=[Settlement.ack(lease) for lease in leases]))
"""


@pytest.mark.promise("L46")
def test_processes_that_are_killed_never_pass_the_limit_and_leave_no_slot_behind(file):
    with closing(SqliteBackend.open(file)) as backend:
        declare(backend, a_limit(running=4), a_limit(kind="key", running=3), owner="declares")
        most = {"job": 0, "key": 0}

        def start(number):
            command = [sys.executable, "-c", _CLAIMER, str(file), f"claimer-{number}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout.readline() == "ready\n"
            return process

        def end(process):
            with process:
                process.kill()

        def note():
            with backend._reading() as tx:
                rows = tx._connection.execute("SELECT lane FROM onward_jobs WHERE state = 'executing'").fetchall()
            most["job"] = max(most["job"], len(rows))
            most["key"] = max([most["key"], *(rows.count(row) for row in rows)])

        def enqueue():
            backend.enqueue([each for key in "abc" for each in in_lane(50, key)] + in_lane(50, "d", queue="other"))

        processes = [start(number) for number in range(3)]
        for number in range(3, 6):
            completed = backend.counts()[State.COMPLETED]
            enqueue()
            until = time.monotonic() + 60
            while backend.counts()[State.COMPLETED] < completed + 100:
                note()
                assert time.monotonic() < until, "slots were left behind"
            end(processes.pop(0))
            backend.reap(owner=f"claimer-{number - 3}")
            processes.append(start(number))
        for process in processes:
            end(process)
        for number in range(6):
            backend.reap(owner=f"claimer-{number}")
        enqueue()

        assert 1 < most["job"] <= 4
        assert most["key"] <= 3
        assert backend.counts()[State.EXECUTING] == 0
        leases = claimed(backend, queues=("default", "other"))
        assert len(leases) == 4
        assert len(set(ids(leases))) == 4


@pytest.mark.parametrize("lane", ["render", "\U0010ffff/"])
def test_a_lane_that_no_walk_finds_is_refused(backend, file, lane):
    backend.enqueue(some_envelopes(1))

    with closing(sqlite3.connect(file)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute("UPDATE onward_jobs SET lane = ?", (lane,))

    assert len(claimed(backend)) == 1


def test_a_limit_that_cannot_be_read_keeps_no_snapshot(backend, file):
    """The error's traceback must not keep the cursor: another process's commit would let no write begin after it."""
    declare(backend, a_limit(running=1))
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE onward_limits SET name = CAST(? AS TEXT)", (b"\xff",))

    with pytest.raises(BackendError) as raised:
        backend._write(lambda tx: tx.ask("limits"))
    with closing(sqlite3.connect(file)) as other, other:
        other.execute("UPDATE onward_limits SET declared_at = declared_at + 1")

    assert "decode" in str(raised.value)
    backend.set_limit("queue", "default", Bounds(running=1), new=True)
    assert [state.row.name for state in backend.limits()] == ["\\xff", "default"]
