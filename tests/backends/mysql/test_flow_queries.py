"""Statements of flows walk their indexes, and look at no more than they need, however many members and flows there are."""

from contextlib import closing

import pytest

from onward.backend import Query
from onward.backends.mysql import MySQLBackend, queries
from onward.backends.mysql.literals import literal
from onward.job.states import FINISHED, State
from onward.testing.contract.builders import a_claim
from onward.testing.contract.flow_stage import FlowStage, Part, ack
from tests.servers.connecting import connected

STATEMENTS = queries.load("onward_")
MEMBERS = 20_000  # of one node, most of them ended
FLOWS = 20_000  # that are over
LARGE = "e" * 32

PARAMETERS = {
    "flow": LARGE,
    "node": "a",
    "flows": [LARGE, "f" * 32],
    "nodes": ["a", "b"],
    "places": [[LARGE, "a", None], ["f" * 32, "b", "0" * 32]],
    "jobs": ["0" * 32, "1" * 32],
    "ids": ["0" * 32, "1" * 32],
    "gone": [[LARGE, "a", "0" * 32]],
    "cancelled": True,
    "completed": True,
    "discarded": True,
    "live": True,
    "everything": False,
    "anew": True,
    "number": 1,
    "states": ["available"],
    "queue": None,
    "outcome": "discarded",
    "job": None,
    "after": "0" * 32,
    "limit": 50,
    "at_most": 50,
    "never": 253402300800000000,
    "now": 5_000_000,
    "left_open": 1_000,
    "named": "nightly",
    "running": True,
    "reason": "not wanted",
    "id": "0" * 32,
    "token": 1,
    "owner": "worker",
    "seen": [["0" * 32, 1]],
}
P, OUTCOME = "PRIMARY", "outcome_idx"
# The indexes of each statement of a section.
INDEXES = {
    "flows_to_look_at": [{P, OUTCOME}],
    "lock_flows": [{P}],
    "flows_among": [{P}],
    "nodes_now": [{P, OUTCOME}],
    "nodes_of": [{P}],
    "live_nodes": [{OUTCOME}],
    "failed_nodes": [{OUTCOME}],
    "waiting_members": [{P, OUTCOME}],
    "members_to_end": [{P, OUTCOME}],
    "lock_members": [{P}],
    "open_members": [{P}, {P}],
    "ask_to_cancel": [{P}],
    "end_members": [{P}, {P}],
    "members_of_flows": [{P}],
    "end_damaged_member": [{P}],
    "leave_to_sweep": [{P}, {P}],
    "lock_lease": [{P}],
    "node_states": [{P}],
    "failed_members": [{OUTCOME}],
    "steps_left": [{P}],
    "count_replayed": [{P}],
    "lock_revivable": [{P}],
    "revive_members": [{P}, {P}, {P}],
    "await_node": [{P}, {P}],
    "reasons_of": [{P}],
    "flows": [{P}],
    "flows_running": [{"over_idx"}],
    "flows_named": [{"name_idx"}],
    "live_members": [{P, OUTCOME}],
    "ended_members": [{OUTCOME}],
    "node_names": [{P}],
    "page_of_node_oldest": [{P, OUTCOME}],
    "page_of_node_newest": [{P, OUTCOME}],
    "flows_that_stand_still": [{P, OUTCOME, "over_idx"}],
    "forget_members": [{P}],
    "lock_empty_flows": [{P}],
    "drop_flows": [{P}, {P}, {P}],
    "lock_finished": [{P}],
}
SORTED = {"waiting_members", "members_to_end", "failed_members", "flows", "flows_running", "flows_named"}


@pytest.fixture(scope="module")
def large(mariadb):
    """A flow with a large node, most of whose jobs have ended, and many flows that are over."""
    mariadb.emptied()
    with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO onward_flows (id, name, created_at, stop_on_failure, closed, over_at) "
            f"SELECT lower(lpad(hex(seq), 32, '0')), 'nightly', 1, false, true, seq FROM seq_1_to_{FLOWS}"
        )
        cursor.execute(
            "INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state) "
            f"SELECT lower(lpad(hex(seq), 32, '0')), 'a', 1, '[]', 'succeeded', 'completed' FROM seq_1_to_{FLOWS}"
        )
        cursor.execute(
            "INSERT INTO onward_members (flow, node, id, outcome) SELECT lower(lpad(hex(seq), 32, '0')), 'a', "
            f"concat('m', lower(lpad(hex(seq), 31, '0'))), 'completed' FROM seq_1_to_{FLOWS}"
        )
        cursor.execute(
            "INSERT INTO onward_flows (id, name, created_at, stop_on_failure, closed) "
            f"VALUES ('{LARGE}', 'large', 1, false, true)"
        )
        cursor.execute(
            "INSERT INTO onward_nodes (flow, name, place, comes_after, opens_when, state) VALUES "
            f"('{LARGE}', 'a', 1, '[]', 'succeeded', 'open'), ('{LARGE}', 'b', 2, '[\"a\"]', 'succeeded', 'waiting')"
        )
        cursor.execute(
            "INSERT INTO onward_finished (id, queue, state, tombstone, finished_at, `rank`, available_at, delivery, "
            "max_crashes, enqueued_at, idempotency_ttl, attempts, crashes, interruptions, waits, job, sealed, flow, node) "
            "SELECT concat('e', lower(lpad(hex(seq), 31, '0'))), 'a', 'completed', false, 1, 0, 1, 1, 3, 1, 0, 1, 0, 0, 0, "
            f"'work', '', '{LARGE}', 'a' FROM seq_1_to_{MEMBERS}"
        )
        cursor.execute(
            "INSERT INTO onward_jobs (id, queue, state, `rank`, available_at, max_crashes, enqueued_at, job, sealed, flow, "
            "node, awaits) "
            "SELECT concat('e', lower(lpad(hex(1048576 + seq), 31, '0'))), 'large', "
            "CASE WHEN seq % 2 THEN 'available' ELSE 'scheduled' END, 0, "
            "CASE WHEN seq % 2 THEN seq ELSE 253402300800000000 END, 3, 1, 'work', 'x', "
            f"'{LARGE}', CASE WHEN seq % 2 THEN 'a' ELSE 'b' END, CASE WHEN seq % 2 THEN NULL ELSE '' END "
            f"FROM seq_1_to_{MEMBERS}"
        )
        for table, outcome in (("finished", "state"), ("jobs", "''")):
            cursor.execute(
                f"INSERT INTO onward_members (flow, node, id, outcome) SELECT flow, node, id, {outcome} FROM onward_{table}"
            )
    yield
    mariadb.emptied()


def written(section, **parameters):
    values = [literal((PARAMETERS | parameters)[each]) for each in section.names]
    return b"".join(part for pair in zip(section.texts, [*values, b""], strict=True) for part in pair).decode()


@pytest.mark.promise("W81")
@pytest.mark.parametrize("name", INDEXES)
def test_a_statement_of_flows_walks_its_index(large, mariadb, name):
    sections = queries.singly(STATEMENTS[name])
    assert len(sections) == len(INDEXES[name])
    for section, indexes in zip(sections, INDEXES[name], strict=True):
        with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {written(section)}")
            headings = [column[0] for column in cursor.description]
            plan = [dict(zip(headings, row, strict=True)) for row in cursor.fetchall()]

        assert {step["key"] for step in plan if step["table"] and step["key"]} <= indexes
        whole = [step for step in plan if step["type"] == "ALL" and "Table function" not in str(step["Extra"])]
        assert [step for step in whole if not step["table"].startswith(("<derived", "<union"))] == []
        assert not any("filesort" in str(step["Extra"]) for step in plan if name in SORTED)


@pytest.mark.parametrize("name", [name for name in INDEXES if STATEMENTS[name].texts[0].startswith(b"SELECT")])
def test_a_look_of_flows_reads_no_more_rows_than_it_needs(large, mariadb, name):
    with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH STATUS")
        waits = {"node": "b"} if name == "waiting_members" else {}
        cursor.execute(written(queries.singly(STATEMENTS[name])[0], **waits))
        cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")

        assert sum(int(value) for _, value in cursor.fetchall()) <= 8 * PARAMETERS["limit"]


@pytest.fixture
def reads(large, mariadb, clock):
    """How many rows a backend reads for something."""

    def count(act):
        act(backend)  # what is done once, as a connection is opened, is not counted
        (connection,) = backend._connections._open.values()
        connection.send(b"FLUSH STATUS")
        act(backend)
        (status,) = connection.send(b"SHOW SESSION STATUS LIKE 'Handler_read%'")
        return sum(int(value) for _, value in status.rows)

    with closing(connected(MySQLBackend.from_url(mariadb.url(), clock=clock))) as backend:
        yield count


@pytest.mark.parametrize(
    ("look", "at_most"),
    [
        (lambda backend: backend.flow(LARGE), 40),
        (lambda backend: backend.flows(limit=20), 200),
        (lambda backend: backend.flows(running=True), 60),
        (lambda backend: backend.flows(name="nightly", limit=20), 200),
        (lambda backend: backend.member_counts(LARGE, at_most=100), 1_500),
        (lambda backend: backend.list(Query(flow=LARGE, node="a", limit=20)), 400),
        (lambda backend: backend.list(Query(flow=LARGE, node="a", states=frozenset({State.AVAILABLE}), limit=20)), 300),
        (lambda backend: backend.reap(), 100),
    ],
    ids=["flow", "flows", "running", "named", "counts", "members", "members of a state", "sweep"],
)
def test_a_look_at_a_large_flow_costs_the_same_whatever_there_is(reads, look, at_most):
    assert reads(look) <= at_most


def test_the_end_of_a_member_of_a_large_node_looks_at_few_rows(reads, clock, report):
    def end(backend):
        (lease,) = FlowStage(backend, clock, a=Part(2), b=Part(after="a")).claim("a", limit=1)
        assert lease.member
        backend.settle([ack(lease)])

    def end_in_large(backend):
        (lease,) = backend.claim(a_claim(queues=("large",)))
        assert lease.member
        assert backend.settle([ack(lease)])[0].applied

    small, of_large = reads(end), reads(end_in_large)

    report(f"MariaDB: the end of a member reads {of_large} rows in a node of {MEMBERS:,}, of a claim and an end")
    assert of_large <= small + 20


def test_a_prune_of_members_looks_at_a_page(reads, clock):
    assert reads(lambda backend: backend.prune(dict.fromkeys(FINISHED, 0), limit=100)) <= 600
