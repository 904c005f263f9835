"""Every statement is used and walks the index it was written for, whatever lies in the tables."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from onward.backend import Look, Query, Settlement
from onward.backends import sqlite
from onward.backends.sql import sections
from onward.backends.sqlite.backend import SqliteBackend
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_turn, some_envelopes

PACKAGE = Path(sqlite.__file__).parent
STATEMENTS = sections.load("onward.backends.sqlite", "onward_")

# People ask for these; they may take a look at everything.
OVERVIEWS = {"count_live", "count_finished", "live_by_queue"}
# These stop at a limit; what they cost is measured below.
LIMITED = {"overview", "overview_later", "overview_due_by_queue", "overview_later_by_queue"}
# Asked only after a statement has failed: a row that no worker wrote is in no index.
SEARCHES = {"damaged_jobs"}
# These sort few rows: running jobs, the runs of a job, the notes of one page of a transfer.
SORTING = {
    "leases_of",
    "asked_to_cancel",
    "dead_leases",
    "orphans",
    "overview_running_by_queue",
    "runs_of",
    "notes_among",
    "places_of",  # the few nodes of one turn's leases
    *OVERVIEWS,
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    path = tmp_path_factory.mktemp("plans") / "jobs.db"
    SqliteBackend.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.fixture
def plan(connection):
    def explain(name):
        sql = STATEMENTS[name]
        numbered = max(map(int, re.findall(r"\?(\d+)", sql)), default=0)
        named = dict.fromkeys(re.findall(r":(\w+)", sql))
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", named or (None,) * numbered)
        return [detail for _, _, _, detail in rows]

    return explain


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - OVERVIEWS - LIMITED - SEARCHES))
def test_no_statement_reads_a_whole_table_of_jobs(plan, name):
    tables = (
        *("onward_jobs", "onward_finished", "onward_attempts", "onward_holds", "onward_series"),
        *("job", "done", "run", "hold", "gate", "onward_audit", "entry"),
    )

    walks = [step for step in plan(name) if step.startswith("SCAN") and step.split()[1] in tables]

    # The sweep for orphans walks the leases, not the jobs.
    assert walks in ([], ["SCAN onward_jobs USING INDEX onward_jobs_owner_idx"])


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("audit_of_job", "onward_audit_job_idx (job_id=? AND at<?)"),
        ("audit_about", "onward_audit_ref_idx (ref=? AND at<?)"),
        ("audit_by", "onward_audit_who_idx (who=? AND at<?)"),
        ("audit_newest", "onward_audit_at_idx (at<?)"),
        ("audit_among", "onward_audit_job_idx (job_id=?)"),
        ("forget_audit", "onward_audit_job_idx (job_id=?)"),
        ("drop_old_audit", "onward_audit_job_idx (job_id=? AND at<?)"),
    ],
)
def test_a_page_of_the_audit_trail_walks_an_index_of_its_own(plan, name, index):
    assert any(step.endswith(index) for step in plan(name)), plan(name)


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - SORTING))
def test_no_statement_sorts(plan, name):
    assert not [step for step in plan(name) if "TEMP B-TREE" in step]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("candidates", "SEARCH onward_jobs USING INDEX onward_jobs_claim_idx (queue=?)"),
        ("candidates_of_queues", "SEARCH job USING INDEX onward_jobs_claim_idx (queue=?)"),
        ("queues_out_of_line", "SEARCH onward_jobs USING INDEX onward_jobs_lanes_idx (queue=?)"),
        (
            "promote",
            "SEARCH onward_jobs USING COVERING INDEX onward_jobs_due_idx (queue=? AND booked=? AND available_at<?)",
        ),
        (
            "promote_booked",
            "SEARCH onward_jobs USING COVERING INDEX onward_jobs_due_idx (queue=? AND booked=? AND available_at<?)",
        ),
        ("claim", "SEARCH onward_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        ("claim_counted", "SEARCH onward_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        ("candidates", "SEARCH onward_jobs USING INDEX onward_jobs_lanes_idx (queue=?)"),
        ("candidates", "SEARCH onward_limits USING PRIMARY KEY (kind=? AND name=?)"),
        ("next_rank", "SEARCH onward_jobs USING INDEX onward_jobs_claim_idx (queue=? AND rank>?)"),
        ("next_rank", "SEARCH onward_jobs USING INDEX onward_jobs_lanes_idx (queue=? AND rank>?)"),
        ("lane_heads", "SEARCH onward_jobs USING INDEX onward_jobs_lanes_idx (queue=? AND rank=? AND lane>?)"),
        ("lane_jobs", "SEARCH onward_jobs USING INDEX onward_jobs_lanes_idx (queue=? AND rank=? AND lane=?)"),
        ("plain_jobs", "SEARCH onward_jobs USING INDEX onward_jobs_claim_idx (queue=? AND rank=?)"),
        ("picked", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("running_of_queue", "SEARCH onward_jobs USING INDEX onward_jobs_running_idx (queue=? AND lane>?)"),
        (
            "running_of_lanes",
            "SEARCH onward_jobs USING INDEX onward_jobs_running_idx (queue=? AND lane>? AND lane<?)",
        ),
        ("gates_among", "SEARCH gate USING PRIMARY KEY (queue=? AND lane=?)"),
        ("gates", "SEARCH onward_gates USING PRIMARY KEY ((queue,lane)>(?,?))"),
        ("drop_gate", "SEARCH onward_gates USING PRIMARY KEY (queue=? AND lane=?)"),
        ("book", "SEARCH onward_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        ("finish", "SEARCH job USING INDEX sqlite_autoindex_onward_jobs_1 (id=?)"),
        ("leave", "SEARCH job USING INDEX sqlite_autoindex_onward_jobs_1 (id=?)"),
        ("put_back", "SEARCH onward_jobs USING INDEX sqlite_autoindex_onward_jobs_1 (id=?)"),
        (
            "ahead",
            "SEARCH onward_jobs USING INDEX onward_jobs_claim_idx (queue=? AND (rank,available_at,id)<(?,?,?))",
        ),
        (
            "ahead_in_lane",
            (
                "SEARCH onward_jobs USING INDEX onward_jobs_lanes_idx "
                "(queue=? AND rank=? AND lane=? AND (available_at,id)<(?,?))"
            ),
        ),
        ("overview_oldest", "SEARCH onward_jobs USING INDEX onward_jobs_claim_idx (queue=? AND rank>?)"),
        ("overview_oldest", "SEARCH onward_jobs USING INDEX onward_jobs_lanes_idx (queue=? AND rank=? AND lane>?)"),
        ("holds", "SEARCH hold USING PRIMARY KEY (kind=? AND key=?)"),
        ("wake_once", "SEARCH onward_jobs USING INDEX onward_jobs_once_idx (idempotency_key=?)"),
        ("wake_single", "SEARCH onward_jobs USING INDEX onward_jobs_single_idx (single_instance=?)"),
        ("asked_to_cancel", "SEARCH onward_jobs USING INDEX onward_jobs_asked_idx (owner=?)"),
        ("adopt", "SEARCH onward_jobs USING INDEX onward_jobs_owner_idx (owner=?)"),
        ("next_finished", "SEARCH onward_finished USING INDEX sqlite_autoindex_onward_finished_1 (id>?)"),
        ("schedules", "SCAN schedule LEFT-JOIN"),
        ("change_schedule", "SEARCH onward_schedules USING PRIMARY KEY (name=?)"),
        ("drop_schedule", "SEARCH onward_schedules USING PRIMARY KEY (name=?)"),
        ("schedules_seen", "SEARCH onward_schedules USING PRIMARY KEY (name=?)"),
        ("take_back", "SEARCH onward_jobs USING INDEX sqlite_autoindex_onward_jobs_1 (id=?)"),
        ("page_oldest", "SEARCH onward_finished USING INDEX onward_finished_discarded_idx (id>?)"),
        ("deaths", "SEARCH next USING COVERING INDEX onward_finished_deaths_idx (job=? AND fingerprint>?)"),
        ("deaths", "SEARCH next USING COVERING INDEX onward_finished_deaths_idx (job>?)"),
        ("deaths", "SEARCH died USING COVERING INDEX onward_finished_deaths_idx (job=? AND fingerprint=?)"),
        ("deaths", "SEARCH newest USING COVERING INDEX onward_finished_deaths_idx (job=? AND fingerprint=?)"),
        (
            "page_of_group_oldest",
            "SEARCH onward_finished USING INDEX onward_finished_deaths_idx (job=? AND fingerprint=? AND id>?)",
        ),
        (
            "page_of_group_newest",
            "SEARCH onward_finished USING INDEX onward_finished_deaths_idx (job=? AND fingerprint=? AND id<?)",
        ),
        ("places_of", "SEARCH job USING INDEX sqlite_autoindex_onward_jobs_1 (id=?)"),
        ("flows_to_look_at", "SEARCH onward_jobs USING COVERING INDEX onward_jobs_flow_idx (flow=? AND node=?)"),
        (
            "flows_to_look_at",
            "SEARCH onward_finished USING COVERING INDEX onward_finished_flow_idx (flow=? AND node=? AND state=?)",
        ),
        ("flows_to_look_at", "SEARCH node USING PRIMARY KEY (flow=? AND name=?)"),
        ("live_nodes", "SEARCH onward_jobs USING COVERING INDEX onward_jobs_flow_idx (flow=? AND node=?)"),
        (
            "failed_nodes",
            "SEARCH onward_finished USING COVERING INDEX onward_finished_flow_idx (flow=? AND node=? AND state=?)",
        ),
        ("waiting_members", "SEARCH onward_jobs USING INDEX onward_jobs_flow_idx (flow=? AND node=? AND id>?)"),
        ("members_to_end", "SEARCH onward_jobs USING INDEX onward_jobs_flow_idx (flow=? AND node=? AND id>?)"),
        ("open_members", "SEARCH onward_jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        (
            "failed_members",
            "SEARCH onward_finished USING COVERING INDEX onward_finished_flow_idx (flow=? AND node=? AND state=? AND id>?)",
        ),
        ("revive_members", "SEARCH onward_finished USING INDEX sqlite_autoindex_onward_finished_1 (id=?)"),
        ("member_counts", "SEARCH onward_jobs USING INDEX onward_jobs_flow_idx (flow=? AND node=?)"),
        (
            "member_counts",
            "SEARCH done USING COVERING INDEX onward_finished_flow_idx (flow=? AND node=? AND state=?)",
        ),
        (
            "page_of_node_oldest",
            "SEARCH onward_finished USING INDEX onward_finished_flow_idx (flow=? AND node=? AND state=? AND id>?)",
        ),
        (
            "page_of_node_newest",
            "SEARCH onward_finished USING INDEX onward_finished_flow_idx (flow=? AND node=? AND state=? AND id<?)",
        ),
        ("flows_running", "SEARCH onward_flows USING INDEX onward_flows_running_idx (id<?)"),
        ("flows_named", "SEARCH onward_flows USING INDEX onward_flows_name_idx (name=? AND id<?)"),
        ("flows_that_stand_still", "SCAN onward_flows USING INDEX onward_flows_running_idx"),
        ("drop_flows", "SEARCH onward_finished USING COVERING INDEX onward_finished_flow_idx (flow=?)"),
        ("series", "SEARCH onward_series USING INDEX sqlite_autoindex_onward_series_1 (at>? AND at<?)"),
        ("drop_stretch", "SEARCH onward_series USING INDEX sqlite_autoindex_onward_series_1 (at>? AND at<?)"),
    ],
)
def test_a_batch_statement_takes_its_index(plan, name, step):
    assert step in plan(name)


def test_statistics_do_not_change_a_plan(connection, plan):
    before = {name: plan(name) for name in STATEMENTS}

    connection.execute("ANALYZE")
    connection.execute("INSERT INTO sqlite_stat1 VALUES ('onward_jobs', 'onward_jobs_owner_idx', '1000000 1')")
    connection.execute("ANALYZE sqlite_master")

    assert {name: plan(name) for name in STATEMENTS} == before


def test_every_statement_is_used():
    shared = (PACKAGE.parent / "sql").glob("*.py")
    sources = "".join(path.read_text() for path in (*PACKAGE.glob("*.py"), *shared))

    assert not [name for name in sections.load("onward.backends.sqlite", "onward_") if f'"{name}"' not in sources]


def test_there_is_no_sql_beside_the_files():
    # Savepoints, pragmas, the count of rows written on a caller's connection, and the list of migrations, which has to
    # be read before there is a schema, are all.
    words = re.compile(r'"(SELECT|INSERT|UPDATE|DELETE)\b[^"]*"')
    found = {(path.name, match[0]) for path in PACKAGE.glob("*.py") for match in words.finditer(path.read_text())}

    assert {(name, sql) for name, sql in found if "sqlite_master" not in sql and name != "schema.py"} == {
        ("completing.py", '"SELECT changes()"')
    }


def test_a_prefix_replaces_the_names_of_tables_and_indexes():
    sql = sections.prefixed("SELECT * FROM onward_jobs INDEXED BY onward_jobs_claim_idx", "onward_mail_")

    assert sql == "SELECT * FROM onward_mail_jobs INDEXED BY onward_mail_jobs_claim_idx"


class TestCost:
    """In steps, see `steps_of`."""

    @pytest.fixture
    def steps_of_a_turn(self, backend, steps_of):
        def turn():
            claim = a_claim(queues=("a", "b"), limit=20)
            leases = backend.claim(claim)
            backend.turn(a_turn(*map(Settlement.ack, leases), claim=claim))

        return lambda: steps_of(turn)

    @pytest.mark.parametrize(
        "ballast",
        [
            pytest.param({}, id="a backlog"),
            pytest.param({"delay": 3600}, id="future jobs"),
            pytest.param({"queue": "elsewhere"}, id="other queues"),
        ],
    )
    def test_a_turn_costs_the_same_whatever_waits(self, backend, steps_of_a_turn, ballast):
        backend.enqueue(some_envelopes(100, queue="a") + some_envelopes(100, queue="b"))
        before = steps_of_a_turn()

        backend.enqueue(
            some_envelopes(5_000, **{"queue": "a", **ballast}) + some_envelopes(5_000, **{"queue": "b", **ballast})
        )

        assert steps_of_a_turn() < before * 1.2

    def test_a_turn_costs_the_same_whatever_is_finished(self, backend, steps_of_a_turn):
        backend.enqueue(some_envelopes(100, queue="a"))
        before = steps_of_a_turn()

        backend.enqueue(some_envelopes(5_000, queue="history"))
        history = backend.claim(a_claim(queues=("history",), limit=5_000))
        backend.settle(list(map(Settlement.ack, history)))

        assert steps_of_a_turn() < before * 1.2

    def test_a_look_every_second_costs_the_same_however_much_there_is(self, backend, steps_of):
        last = some_envelopes(1, queue="a", priority=-50)[0]
        backend.enqueue([last])

        def look():
            backend.look(Look(counts=True, place_of=last.id, at_most=100))
            backend.queues_with_work()
            backend.sessions()
            backend.list(Query(states=frozenset({State.EXECUTING}), limit=50))

        def fill(count):
            backend.enqueue(some_envelopes(count, queue="a") + some_envelopes(count, queue="b", delay=3600))
            backend.enqueue(some_envelopes(count, queue="history"))
            history = backend.claim(a_claim(queues=("history",), limit=count))
            backend.settle(list(map(Settlement.ack, history)))

        fill(200)
        backend.claim(a_claim(queues=("a",), limit=10))
        before = steps_of(look)

        fill(5_000)

        assert steps_of(look) < before * 1.2
