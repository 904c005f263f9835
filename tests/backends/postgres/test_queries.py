"""Every statement is used and walks the index it was written for, whatever lies in the tables or is believed to."""

import json
import os
import re
from pathlib import Path

import psycopg
import pytest

from onward.backend import Settlement
from onward.backends.postgres import PostgresBackend, queries, settling
from onward.backends.postgres.arrays import Blobs, as_array, blobs_dumper
from onward.backends.postgres.queue_marks import QueueMarks
from onward.job.lease import LAST_INSTANT
from onward.testing.contract.builders import a_claim, a_lease, some_envelopes
from onward.testing.contract.flow_stage import FlowStage, Part
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane
from tests.servers.connecting import connected

PACKAGE = Path(queries.__file__).parent
STATEMENTS = queries.load("onward_")

COMMANDS = {"begin", "begin_reading", "commit", "rollback", "savepoint", "unlock", "listen"}
# People ask for these; they may take a look at everything.
OVERVIEWS = {"count_live", "count_finished", "live_by_queue"}
# Over sessions, of which there are few, or over the server's own tables.
SMALL = {
    "durability",
    "pins",
    "pinned",
    "sees_all",
    "end_expired_sessions",
    "wake",
    "wake_apart",
    "paused_queues",
    "pauses",
    "sessions",
}
# The last is a sequence.
SMALL_TABLES = ("onward_sessions", "onward_queues", "onward_schedules", "onward_limits", "onward_ended")
# Asked only after a statement has failed: a row that no worker wrote is in no index.
SEARCHES = {"damaged_jobs"}
PLANNED = sorted(STATEMENTS.keys() - COMMANDS - OVERVIEWS - SMALL - SEARCHES)

TURN = [
    "lock_session",
    "settle",
    "complete",
    "nack",
    "promote",
    "claim",
    "evidence",
    "next_due",
    "holds",
    "take_holds",
    "end_holds",
    "ended_holds",
    "enqueue",
    "enqueue_new",
    "enqueue_one",
    "enqueue_plain",
    "walk_lanes",
    "walk_known_lanes",
    "line_heads",
    "line_heads_from",
    "running_in",
    "try_gates",
    "take",
    "take_line",
    "book",
    "charge_gate",
    "complete_members",
    "enqueue_members",
    "node_states",
    "count_added",
    "lock_flows",
    "flows_to_look_at",
    "flows_among",
    "nodes_now",
    "change_nodes",
    "change_flows",
    "open_members",
    "cancel_members",
    "ask_to_cancel",
    "waiting_members",
    "members_to_end",
    "live_nodes",
]
# Whether a queue has lanes or a limit, and whether it is paused.
WALKS = ("onward_jobs_lanes_idx", "onward_limits_pkey", "onward_queues_pkey")
# What the claim, the promotion and the settlement must walk, and nothing else of the jobs.
INDEXES = {
    "claim": {"onward_jobs_claim_idx", *WALKS},
    "promote": {"onward_jobs_due_idx", "onward_jobs_expiry_idx", "onward_queues_pkey"},
    "next_due": {
        "onward_jobs_claim_idx",
        "onward_jobs_due_idx",
        "onward_waiters_until_idx",
        *WALKS,
    },
    "walk_lanes": {"onward_jobs_claim_idx", "onward_jobs_running_idx", "onward_gates_pkey", *WALKS},
    "walk_known_lanes": {"onward_jobs_claim_idx", "onward_jobs_running_idx", "onward_gates_pkey", *WALKS},
    "line_heads": {"onward_jobs_claim_idx", "onward_jobs_lanes_idx"},
    "line_heads_from": {"onward_jobs_lanes_idx"},
    "running_in": {"onward_jobs_running_idx"},
    "gates_of": {"onward_gates_pkey"},
    "try_gates": {"onward_gates_pkey"},
    "take": {"onward_jobs_claim_idx", "onward_jobs_lanes_idx", "onward_jobs_pkey"},
    "take_line": {"onward_jobs_claim_idx", "onward_jobs_running_idx", "onward_gates_pkey", *WALKS},
    "book": {"onward_jobs_pkey"},
    "count_running": {"onward_jobs_owner_idx", "onward_jobs_pkey"},
    "settle": {"onward_jobs_owner_idx", "onward_queues_pkey", "onward_flows_pkey", "onward_attempts_pkey"},
    "deaths": {"onward_finished_deaths_idx"},
    "page_of_group_oldest": {"onward_finished_deaths_idx"},
    "page_of_group_newest": {"onward_finished_deaths_idx"},
    "newest_of_group": {"onward_finished_deaths_idx"},
    "dead_among": {"onward_finished_pkey"},
    "complete": {"onward_jobs_pkey"},
    "nack": {"onward_jobs_owner_idx", "onward_queues_pkey"},
    "complete_members": {"onward_jobs_pkey", "onward_flows_pkey"},
    "lock_session": {"onward_sessions_pkey", "onward_jobs_asked_idx"},
    "renew_session": {"onward_sessions_pkey", "onward_jobs_asked_idx"},
    "dead_leases": {"onward_jobs_owner_idx"},
    "orphans": {"onward_jobs_owner_idx", "onward_sessions_pkey"},
    "adopt": {"onward_jobs_owner_idx", "onward_jobs_pkey"},
    "leases_of": {"onward_jobs_owner_idx"},
    "once_waiters": {"onward_jobs_once_idx"},
    "single_waiters": {"onward_jobs_single_idx"},
    "key_holders": {"onward_jobs_held_idx"},
    "next_finished": {"onward_finished_pkey", "onward_flows_pkey"},
    "evidence": {"onward_attempts_pkey", "onward_finished_pkey", "onward_jobs_pkey"},
    "change_schedule": {"onward_schedules_pkey"},
    "drop_schedule": {"onward_schedules_pkey"},
    "schedules_seen": {"onward_schedules_pkey"},
    "unique_keys_of": {"onward_jobs_pkey"},
    "take_back": {"onward_jobs_pkey"},
    "node_states": {"onward_flows_pkey", "onward_nodes_pkey"},
    "lock_flows": {"onward_flows_pkey"},
    "flows_to_look_at": {
        "onward_flows_pkey",
        "onward_nodes_pkey",
        "onward_jobs_pkey",
        "onward_jobs_flow_idx",
        "onward_finished_flow_idx",
    },
    "flows_among": {"onward_flows_pkey"},
    "nodes_now": {"onward_nodes_pkey", "onward_jobs_flow_idx", "onward_finished_flow_idx"},
    "nodes_of": {"onward_nodes_pkey", "onward_additions_idx"},
    "live_nodes": {"onward_jobs_flow_idx"},
    "failed_nodes": {"onward_finished_flow_idx"},
    "change_nodes": {"onward_nodes_pkey"},
    "change_flows": {"onward_flows_pkey"},
    "waiting_members": {"onward_jobs_flow_idx"},
    "members_to_end": {"onward_jobs_flow_idx"},
    "open_members": {"onward_jobs_pkey"},
    "cancel_members": {"onward_jobs_pkey"},
    "ask_to_cancel": {"onward_jobs_pkey"},
    "failed_members": {"onward_finished_flow_idx"},
    "revive_members": {"onward_finished_pkey"},
    "member_counts": {"onward_nodes_pkey", "onward_jobs_flow_idx", "onward_finished_flow_idx"},
    "page_of_node_oldest": {"onward_jobs_flow_idx", "onward_finished_flow_idx"},
    "page_of_node_newest": {"onward_jobs_flow_idx", "onward_finished_flow_idx"},
    "flows_running": {"onward_flows_running_idx"},
    "flows_named": {"onward_flows_name_idx"},
    "flows_that_stand_still": {
        "onward_flows_running_idx",
        "onward_nodes_pkey",
        "onward_jobs_flow_idx",
        "onward_additions_idx",
    },
    "drop_flows": {
        "onward_flows_pkey",
        "onward_nodes_pkey",
        "onward_additions_idx",
        "onward_finished_flow_idx",
        "onward_jobs_flow_idx",
    },
    "ahead": {"onward_jobs_claim_idx"},
    "ahead_in_lane": {"onward_jobs_lanes_idx"},
    "overview_oldest": {"onward_jobs_claim_idx", "onward_jobs_lanes_idx"},
    "try_unbegun": {"onward_jobs_pkey"},
    "series": {"onward_series_pkey"},
    "drop_stretch": {"onward_series_pkey"},
    "audit_of_job": {"onward_audit_job_idx"},
    "audit_about": {"onward_audit_ref_idx"},
    "audit_by": {"onward_audit_who_idx"},
    "audit_newest": {"onward_audit_at_idx"},
    "audit_among": {"onward_audit_job_idx"},
    "forget_audit": {"onward_audit_job_idx", "onward_jobs_pkey"},
    "drop_old_audit": {"onward_audit_job_idx"},
    "asked_among": {"onward_jobs_pkey"},
}

FILL = """
INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed, owner, delivery,
                         expires_at, idempotency_key, single_instance, waits, lane, booked, flow, node, awaits)
SELECT lpad(to_hex(n), 32, '0'), 'q' || n % 3, (ARRAY['available', 'scheduled', 'retryable', 'executing'])[1 + n % 4], n % 5,
       n * 1000, 3, 1, 'work', '', CASE WHEN n % 4 = 3 THEN 'owner-' || n % 7 END, 1,
       CASE WHEN n % 2 = 0 THEN n * 2000 END, CASE WHEN n % 4 = 1 THEN 'k' || n % 50 END,
       CASE WHEN n % 4 = 1 THEN 's' || n % 50 END, n % 3, CASE WHEN n % 11 < 5 THEN 'job' || n % 5 || '/' || n % 99 END,
       CASE WHEN n % 4 = 1 AND n % 11 < 3 THEN true END, CASE WHEN n % 2 = 0 THEN 'flow' || n % 500 END,
       CASE WHEN n % 2 = 0 THEN 'node' || n % 3 END, CASE WHEN n % 4 = 2 THEN '' END
  FROM generate_series(1, {count}) AS n;
INSERT INTO onward_finished (id, queue, state, rank, available_at, max_crashes, enqueued_at, idempotency_ttl, job, sealed,
                             delivery, attempts, crashes, interruptions, waits, finished_at, flow, node)
SELECT 'f' || lpad(to_hex(n), 31, '0'), 'q' || n % 3, (ARRAY['completed', 'discarded', 'cancelled'])[1 + n % 3], 0, n, 3,
       1, 0, 'work', '', 1, 1, 0, 0, 0, n, CASE WHEN n % 2 = 0 THEN 'flow' || n % 500 END,
       CASE WHEN n % 2 = 0 THEN 'node' || n % 3 END
  FROM generate_series(1, {count}) AS n;
INSERT INTO onward_attempts (job_id, token, attempt, move, state, at, duration_ms, kind, message, traceback)
SELECT 'f' || lpad(to_hex(n), 31, '0'), 1, 1, 'nack', 'retryable', n, 0, 'Error', '', ''
  FROM generate_series(1, {count}) AS n;
INSERT INTO onward_holds (kind, key, job_id, token, done_until)
SELECT 'once', 'k' || n, 'x', 1, n FROM generate_series(1, {count}) AS n;
INSERT INTO onward_gates (queue, lane, full_at)
SELECT '', 'job' || n % 5 || '/' || n, n FROM generate_series(1, {count}) AS n;
INSERT INTO onward_flows (id, name, created_at, over_at, stop_on_failure, closed)
SELECT 'flow' || n, 'name' || n % 9, n, CASE WHEN n % 100 > 0 THEN n END, false, true FROM generate_series(1, {count}) AS n;
INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state)
SELECT 'flow' || n % 10000, 'node' || n / 10000, n / 10000, '[]', 'succeeded', 'open' FROM generate_series(1, {count}) AS n;
INSERT INTO onward_additions (flow, node, number, added_at)
SELECT 'flow' || n % 10000, 'node' || n / 10000, 1, n FROM generate_series(1, {count}) AS n;
INSERT INTO onward_series (at, width, reporter, data)
SELECT cast(n AS bigint) * 60000000, 0, '*', '' FROM generate_series(1, {count}) AS n;
INSERT INTO onward_audit (at, job_id, who, act, detail, ref, signature)
SELECT n, CASE WHEN n % 5 > 0 THEN lpad(to_hex(n), 32, '0') ELSE '' END, 'person' || n % 9, 'retry', '', 'bulk' || n % 50, ''
  FROM generate_series(1, {count}) AS n;
"""
FILLED = ("jobs", "finished", "attempts", "holds", "gates", "flows", "nodes", "additions", "series", "audit")
MANY = max(40_000, round(1_000_000 * float(os.environ.get("ONWARD_PROOF_SCALE", "0"))))


@pytest.fixture(scope="module")
def plans(postgres):
    """The plan of every statement as a connection keeps it, made while the tables were …"""
    with psycopg.connect(postgres.url(), autocommit=True) as admin:
        admin.execute("DROP DATABASE IF EXISTS plans WITH (FORCE)")
        admin.execute("CREATE DATABASE plans")
    backend = connected(PostgresBackend.from_url(postgres.url("plans")))
    with backend._connections.borrowed() as connection:
        # What autovacuum finds out must not help us.
        connection.execute("ALTER TABLE onward_jobs SET (autovacuum_enabled = off)")
        made = {"empty": _plans(connection)}
        connection.execute("ANALYZE")
        made["empty and known to be"] = _plans(connection)
        for statement in FILL.replace("{count}", str(MANY)).split(";\n")[:-1]:
            connection.execute(statement)
        made["full and believed to be empty"] = _plans(connection)
        connection.execute("ANALYZE")
        made["full and known to be"] = _plans(connection)
        connection.execute(f"TRUNCATE onward_{', onward_'.join(FILLED)}")
        made["empty and believed to be full"] = _plans(connection)
    backend.close()
    return made


def _plans(connection):
    return {name: _steps(connection, *STATEMENTS[name]) for name in PLANNED}


def _steps(connection, sql, names):
    connection.execute(b"PREPARE planned AS " + sql, prepare=False)
    nulls = f"({', '.join(['NULL'] * len(names))})" if names else ""
    (plan,) = connection.execute(f"EXPLAIN (FORMAT JSON) EXECUTE planned{nulls}", prepare=False).fetchone()
    connection.execute("DEALLOCATE planned", prepare=False)
    return list(_walk(plan[0]["Plan"]))


def _walk(step):
    yield step
    for inner in step.get("Plans", ()):
        yield from _walk(inner)


@pytest.mark.promise("F45", "F46")
class TestPlans:
    def test_no_statement_reads_a_whole_table(self, plans):
        walks = {
            (made, name, step["Relation Name"])
            for made, statements in plans.items()
            for name, steps in statements.items()
            for step in steps
            if step["Node Type"] == "Seq Scan" and step["Relation Name"] not in SMALL_TABLES
        }

        assert walks == set()

    def test_no_statement_of_a_turn_sorts_or_joins_otherwise_than_row_by_row(self, plans):
        kinds = {
            (made, name, step["Node Type"])
            for made, statements in plans.items()
            for name in TURN
            for step in statements[name]
        }

        others = {"Sort", "Incremental Sort", "Hash Join", "Merge Join", "Bitmap Heap Scan", "Materialize"}
        assert {each for each in kinds if each[2] in others} == set()

    @pytest.mark.parametrize("name", INDEXES)
    def test_a_statement_takes_its_indexes(self, plans, name):
        taken = {
            made: {step["Index Name"] for step in statements[name] if "Index Name" in step}
            for made, statements in plans.items()
        }

        assert taken == dict.fromkeys(plans, INDEXES[name])


def test_every_statement_is_used():
    sources = "".join(path.read_text() for folder in (PACKAGE, PACKAGE.parent / "sql") for path in folder.glob("*.py"))

    assert not [name for name in STATEMENTS if f'"{name}"' not in sources]


def test_there_is_no_sql_beside_the_files():
    # What has to be asked before there is a schema is all; health.py tells people what to type.
    words = re.compile(r'"(SELECT|INSERT|UPDATE|DELETE)\b[^"]*"')
    found = {path.name for path in PACKAGE.glob("*.py") for _ in words.finditer(path.read_text())}

    assert found <= {"schema.py", "connection.py", "queries.py", "health.py"}
    assert not re.search(r"\.(execute|exec_params)\(", (PACKAGE / "health.py").read_text())


def test_no_statement_casts_with_colons():
    # They look like a parameter.
    assert "::" not in (PACKAGE / "queries.sql").read_text()


class TestCost:
    """In pages of the server's memory that are looked at: the same on every machine, however busy it is."""

    @pytest.fixture
    def pages(self, backend):
        def count(name, **parameters):
            sql, names = STATEMENTS[name]
            given = {"now": None, "owner": "worker", **parameters}
            values = [as_array(given[each]) if isinstance(given[each], list) else given[each] for each in names]
            with backend._connections.borrowed() as connection:
                connection.adapters.register_dumper(Blobs, blobs_dumper)
                connection.execute("BEGIN")
                # Behind the driver's ROLLBACK the next verb takes its session for that of a pooler, which has no settings.
                connection.execute(STATEMENTS["configure"][0])
                connection.execute("SET LOCAL onward.limits = 'kept'")
                explained = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + sql, values).fetchone()
                connection.execute("ROLLBACK")
            plan = explained[0] if isinstance(explained[0], list) else json.loads(explained[0])
            return plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]

        return count

    @pytest.fixture
    def claim(self, pages):
        begin = QueueMarks().for_claim(["a", "b"])
        return lambda: pages("claim", queues=["a", "b"], at_most=[20, 20], limit=20, released=[], **begin)

    @pytest.mark.parametrize("statistics", ["old", "new"])
    @pytest.mark.parametrize(
        "name", ["waiting_members", "members_to_end", "page_of_node_oldest", "page_of_node_newest"]
    )
    def test_a_page_of_a_node_costs_the_same_wherever_it_begins(self, backend, clock, pages, sql, name, statistics):
        stage = FlowStage(backend, clock, a=Part(), b=Part(5_000, "a"), c=Part(5_000, "a"))
        ids = sorted(envelope.id for envelope in stage.envelopes["b"])
        live = {"live": True, "everything": True, "discarded": False, "cancelled": False, "completed": False}
        others = {"states": [], "queue": None, "job": None, **live}
        if statistics == "new":
            sql("ANALYZE onward_jobs")

        def page(after):
            return pages(name, flow=stage.id, node="b", after=after, limit=20, **others)

        costs = [page(ids[place]) for place in (500, 2_500, 4_500)]
        assert max(costs) < min(costs) + 10

    @pytest.mark.parametrize(
        "ballast",
        [
            pytest.param({}, id="a backlog"),
            pytest.param({"delay": 3600}, id="future jobs"),
            pytest.param({"queue": "elsewhere"}, id="other queues"),
        ],
    )
    def test_a_claim_costs_the_same_whatever_waits(self, backend, claim, sql, ballast):
        backend.enqueue(some_envelopes(100, queue="a") + some_envelopes(100, queue="b"))
        before = claim()

        for _ in range(4):
            backend.enqueue(some_envelopes(5_000, **{"queue": "a", **ballast}))

        assert claim() < before * 1.5

    @pytest.mark.parametrize(
        "ballast",
        [
            pytest.param({"delay": 3600}, id="future jobs"),
            pytest.param({"expires_at": LAST_INSTANT}, id="jobs that expire"),
        ],
    )
    def test_a_look_for_what_is_due_costs_the_same_whatever_waits(self, backend, pages, sql, ballast):
        def promote():
            return pages("promote", queues=["a", "b"], due_since=[0, 0], limit=20)

        backend.enqueue(some_envelopes(100, queue="a", **ballast))
        before = promote()
        for _ in range(4):
            backend.enqueue(some_envelopes(5_000, queue="a", **ballast))
        with_old_statistics = promote()
        sql("VACUUM ANALYZE onward_jobs")

        assert max(with_old_statistics, promote()) < before + 20  # the indexes are deeper; one of them has 200 pages

    @pytest.mark.promise("S125")
    @pytest.mark.parametrize("statistics", ["old", "new"])
    def test_groups_of_dead_jobs_cost_the_same_however_many_there_are(self, backend, pages, sql, statistics):
        def look():
            return pages("deaths", groups=100, at_most=50)

        def fill(count):
            copy = """
                INSERT INTO onward_finished OVERRIDING USER VALUE
                SELECT (jsonb_populate_record(done, jsonb_build_object('id', done.id || '-' || n))).*
                  FROM onward_finished AS done, generate_series(1, %s) AS n
                 WHERE length(done.id) = 32
            """
            sql(copy % count)

        backend.enqueue(some_envelopes(1, job="a") + some_envelopes(1, job="b"))
        backend.settle([Settlement.abandon(lease, "gave up") for lease in backend.claim(a_claim(limit=2))])
        fill(1_000)
        sql("VACUUM ANALYZE onward_finished")
        before = look()

        sql("DELETE FROM onward_finished WHERE length(id) > 32")
        fill(10_000)
        sql("VACUUM onward_finished" if statistics == "old" else "VACUUM ANALYZE onward_finished")

        assert look() < before * 1.5

    @pytest.mark.promise("S125")
    def test_what_is_due_later_costs_the_same_however_much_waits(self, backend, pages, sql):
        def look():
            return pages("overview_later_by_queue", queues=100, at_most=50)

        backend.enqueue(some_envelopes(60, queue="a", delay=3600))
        sql("VACUUM ANALYZE onward_jobs")
        before = look()

        backend.enqueue(some_envelopes(10_000, queue="a", delay=3600))
        sql("VACUUM ANALYZE onward_jobs")

        assert look() < before * 3  # the index is a page deeper; to walk all of it would be 100 pages

    @pytest.mark.parametrize("statistics", ["old", "new"])
    def test_the_queues_that_have_work_cost_the_same_whatever_waits_in_them(self, backend, pages, sql, statistics):
        def look():
            return pages("queues_with_work", prefix="", after="", beyond="\x7f", limit=500, now=None)

        def fill(count):
            backend.enqueue(some_envelopes(count, queue="a") + some_envelopes(count, queue="b", delay=3600))

        fill(100)
        before = look()

        for _ in range(4):
            fill(5_000)
        if statistics == "new":
            sql("ANALYZE onward_jobs")

        # An index of twenty thousand is a page or two deeper than one of a hundred, at each of the walks.
        assert look() < before + 15

    @pytest.mark.parametrize("statistics", ["old", "new"])
    def test_the_oldest_jobs_and_the_place_of_one_cost_the_same_whatever_waits(self, backend, pages, sql, statistics):
        def look():
            place = {"queue": "a", "rank": 9, "available_at": 1 << 60, "id": "f" * 32, "at_most": 100}
            lane = pages("ahead_in_lane", **place | {"rank": 0, "lane": "render/"})
            return pages("overview_oldest", lines=16, steps=1_600) + pages("ahead", **place) + lane

        def fill(count):
            backend.enqueue(some_envelopes(count, queue="a") + some_envelopes(count, queue="b", priority=3))
            backend.enqueue(in_lane(count, queue="a") + in_lane(count, "acme", queue="b"))

        sql("VACUUM onward_jobs")  # of what other tests have left
        fill(200)
        before = look()

        for _ in range(4):
            fill(5_000)
        if statistics == "new":
            sql("ANALYZE onward_jobs")

        # An index of twenty thousand is a page or two deeper than one of two hundred, at each of the walks.
        assert look() < before + 40

    def test_a_settlement_costs_the_same_whatever_the_owner_holds(self, backend, pages, sql):
        lease = a_lease(backend)
        columns = settling.columns([Settlement.ack(lease)])
        before = pages("settle", **columns)

        sql(
            "INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, job, sealed, owner) "
            "SELECT 'x' || n, 'default', 'executing', 0, 0, 3, 0, 'work', '', 'worker' FROM generate_series(1, 20000) AS n"
        )

        # An index of twenty thousand is a page or two deeper than one of two.
        assert pages("settle", **columns) < before + 10
        assert pages("lock_session") < 20

    @pytest.fixture
    def walk(self, pages, sql):
        place = {"cursor_queues": [], "cursor_groups": [], "cursor_lanes": [], "drawn": "0000"}
        bounds = {"lanes": 116, "limit": 20, "only_rank": None, "only_group": None}

        def count():
            # Of rows that were vacuumed only the index is looked at, and of dead ones the table, too: when the server
            # vacuums by itself is chance.
            sql("VACUUM (ANALYZE) onward_jobs")
            return pages("walk_lanes", queues=["a"], **place, **bounds)

        return count

    @pytest.mark.promise("L51")
    def test_a_walk_costs_the_same_however_many_jobs_wait_in_a_lane(self, backend, walk):
        backend.enqueue(in_lane(100, "acme", queue="a"))
        before = walk()

        for _ in range(4):
            backend.enqueue(in_lane(5_000, "acme", queue="a"))

        assert walk() < before * 1.5 + 10

    @pytest.mark.promise("L51")
    def test_a_claim_of_a_single_line_costs_the_same_however_many_jobs_wait_in_it(self, backend, pages):
        declare(backend, a_limit(running=5))
        line = {"queue": "a", "rank": 0, "lane": "render/", "bound": 5, "limit": 5, "released": []}
        backend.enqueue(in_lane(100, queue="a"))
        before = pages("take_line", **line)

        for _ in range(4):
            backend.enqueue(in_lane(5_000, queue="a"))

        assert pages("take_line", **line) < before * 1.5 + 10

    @pytest.mark.promise("L51")
    def test_a_full_job_is_one_step_whatever_waits_under_it(self, backend, walk):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(1, "first", queue="a"))
        assert len(claimed(backend, queues=("a",))) == 1
        backend.enqueue(in_lane(1, "second", queue="a"))
        before = walk()

        backend.enqueue([in_lane(1, f"tenant-{number}", queue="a")[0] for number in range(5_000)])

        assert walk() < before + 15

    @pytest.mark.promise("L51")
    def test_a_walk_looks_at_a_bounded_number_of_lanes(self, backend, walk):
        backend.enqueue([in_lane(1, f"tenant-{number}", queue="a")[0] for number in range(300)])
        before = walk()

        backend.enqueue([in_lane(1, f"tenant-{number}", queue="a")[0] for number in range(300, 10_000)])

        assert walk() < before * 1.5

    def test_counting_costs_the_same_whatever_else_runs_and_waits(self, backend, pages, sql):
        def count():
            return pages("running_in", queues=[""], lows=["render/"], highs=["render0"], since=[0])

        backend.enqueue(in_lane(5))
        claimed(backend)
        before = count()

        backend.enqueue(in_lane(5_000, "x", of="mail") + in_lane(5_000))
        sql("UPDATE onward_jobs SET state = 'executing', owner = 'w', started_at = 1 WHERE lane LIKE 'mail/%'")

        assert count() < before + 15
