"""Every statement is used, walks its index, and looks at no more than it needs, however full the tables are."""

import os
import re
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from onward.backend import Claim, Look, Query, Settlement, Turn
from onward.backends.mysql import MySQLBackend, queries
from onward.backends.mysql.connection import Connection
from onward.backends.mysql.lanes import MOST_LOCKED
from onward.backends.mysql.literals import literal
from onward.job.states import State
from onward.testing.contract.builders import a_session, some_envelopes
from onward.testing.contract.lanes import a_limit, declare
from tests.servers.connecting import connected

PACKAGE = Path(queries.__file__).parent
STATEMENTS = queries.load("onward_")
ROWS = max(100_000, round(1_000_000 * float(os.environ.get("ONWARD_PROOF_SCALE", "0.05"))))
LIMIT = 50

PARAMETERS = {
    "owner": "owner-1",
    "owners": ["owner-1"],
    "queue": "q1",
    "queues": ["q1", "q2"],
    "state": "scheduled",
    "limit": LIMIT,
    "at_most": LIMIT,
    "released": [],
    "unless_due": True,
    "ids": ["0" * 32, "1" * 32],
    "id": "0" * 32,
    "token": 1,
    "at": 1,
    "leases": [["0" * 32, 1, "owner-1"]],
    "keys": [["once", "k1"], ["single", "k2"]],
    "key": "k1",
    "holders": [["0" * 32, "k1"]],
    "waiters": [["q1", 1, "0" * 32]],
    "ended": [["once", "k1", "0" * 32, 1, 5]],
    "taken": [["once", "k1", "0" * 32, 1]],
    "cancelled": [["0" * 32, "no"]],
    "asked": [["0" * 32, "no"]],
    "replaced": False,
    "seen": [["0" * 32, 1]],
    "results": b"",
    "keep": True,
    "progress": b"1",
    "adopted": "owner-2",
    "after": "",
    "now": 5_000_000,
    "schedule": b"nightly",
    "names": ["hourly", "nightly"],
    "version": 1,
    "following": 2,
    "last": 1 << 53,
    "origin": "code",
    "fingerprint": "f",
    "flow": None,
    "node": None,
    "declared_at": 1,
    "booked_until": 1,
    "paused_at": None,
    "place": 1_000,
    "plain": 0,
    "laned": 1_000,
    "line": b"render/0001key",
    "lane": b"render/0001key",
    "behind": b"render0",
    "since": 1,
    "lanes": ["render/0001key", "render/0002key"],
    "numbers": [1, 5, 7],
    "scopes": [["q1", ""], ["", "render/"]],
    "booked": [["0" * 32, 1]],
    "is_booked": True,
    "kind": "queue",
    "named": "q1",
    "after_queue": "q",
    "after_lane": b"",
    "full_at": 1,
    "charged_at": 1,
    "shut_until": 1,
    "shut_for": 1,
    "missed": 0,
    "sealed": b"",
    "first": 1_000_000_000,
    "before": 9_000_000_000,
    "job": "0" * 32,
    "ref": "bulk1",
    "who": "person1",
    "act": None,
    "number": 1 << 60,
    "kept_for": 1_000_000,
}
# Which index of which table each must walk.
INDEXES = {
    "candidates": {"place_idx"},
    "due": {"place_idx"},
    "due_apart": {"place_idx"},
    "expired": {"expiry_idx"},
    "lock_expired": {"PRIMARY"},
    "orphans": {"place_idx", "PRIMARY"},
    "lock_orphans": {"PRIMARY"},
    "dead_leases": {"owner_idx"},
    "expired_sessions": {"expiry_idx"},
    "leases_of": {"owner_idx"},
    "asked_to_cancel": {"owner_idx"},
    "adopt": {"PRIMARY"},
    "lock_session": {"PRIMARY"},
    "lock_sessions": {"PRIMARY"},
    "settle": {"PRIMARY"},
    "claim": {"PRIMARY"},
    "promote": {"PRIMARY"},
    "put_back": {"PRIMARY"},
    "evidence": {"PRIMARY"},
    "holds": {"PRIMARY"},
    "ended_holds": {"PRIMARY"},
    "end_holds": {"PRIMARY"},
    "spent_holds": {"done_idx"},
    "drop_spent_holds": {"PRIMARY"},
    "once_waiters": {"once_idx"},
    "single_waiters": {"single_idx"},
    "lock_waiters": {"place_idx"},
    "lock_key_holders": {"PRIMARY"},
    "anything_to_do": {"place_idx", "expiry_idx", "PRIMARY"},
    "next_due": {"place_idx", "PRIMARY"},
    "next_queue": {"place_idx"},
    "next_dead_job": {"deaths_idx"},
    "next_fingerprint": {"deaths_idx"},
    "deaths": {"deaths_idx"},
    "page_of_group_oldest": {"deaths_idx"},
    "page_of_group_newest": {"deaths_idx"},
    "newest_of_group": {"deaths_idx"},
    "dead_among": {"PRIMARY"},
    "owners_of_queue": {"place_idx"},
    "next_finished": {"PRIMARY"},
    "pick": {"PRIMARY"},
    "put_schedule": {"PRIMARY"},
    "change_schedule": {"PRIMARY"},
    "drop_schedule": {"PRIMARY"},
    "schedules_seen": {"PRIMARY"},
    "lane_heads": {"place_idx"},
    "seen_heads": {"place_idx"},
    "lock_stripes": {"PRIMARY"},
    "running_in_queue": {"place_idx"},
    "running_between": {"place_idx"},
    "running_in_lanes": {"place_idx"},
    "gates_of": {"PRIMARY"},
    "book": {"PRIMARY"},
    "lock_limits": {"PRIMARY"},
    "gates": {"PRIMARY"},
    "drop_gate": {"PRIMARY"},
    "lock_unbegun": {"PRIMARY"},
    "take_back": {"PRIMARY"},
    "series": {"PRIMARY"},
    "drop_stretch": {"PRIMARY"},
    "audit_of_job": {"job_idx"},
    "audit_about": {"ref_idx"},
    "audit_by": {"who_idx"},
    "audit_newest": {"at_idx"},
    "audit_among": {"job_idx"},
    "forget_audit": {"job_idx", "PRIMARY"},
    "drop_old_audit": {"job_idx"},
    "asked_among": {"PRIMARY"},
}
WITH_ANSWER = {"put_schedule", "change_schedule", "drop_schedule"}  # a write, and whether it wrote
SORTED = {
    "candidates",
    "due",
    "expired",
    "lane_heads",
    "seen_heads",
    "gates",
    "series",
    "audit_of_job",
    "audit_about",
    "audit_by",
    "audit_newest",
}
SMALL = {"queue", "wanted", "lease", "ended", "lost", "taken", "onward_queues", "onward_sessions"}


def written(name):
    texts, names, _ = STATEMENTS[name]
    values = [literal(PARAMETERS[each]) for each in names]
    return b"".join(part for pair in zip(texts, [*values, b""], strict=True) for part in pair).decode()


@contextmanager
def reads_of(backend):
    """How many rows the backend's connection reads meanwhile: in the list, at the end."""
    (connection,) = backend._connections._open.values()
    connection.send(b"FLUSH STATUS")
    reads = []
    yield reads
    (status,) = connection.send(b"SHOW SESSION STATUS LIKE 'Handler_read%'")
    reads.append(sum(int(value) for _, value in status.rows))


def test_every_statement_is_used():
    sources = "".join(path.read_text() for path in PACKAGE.glob("*.py"))
    shared = "".join(path.read_text() for path in (PACKAGE.parent / "sql").glob("*.py"))

    assert {name for name in STATEMENTS if f'"{name}"' not in sources + shared} == {"rollback"} & set(STATEMENTS)


@pytest.fixture(scope="module")
def full(mariadb):
    """Tables that are full: jobs that wait, jobs of the future and finished ones; statistics never taken."""
    mariadb.emptied()
    columns = "id, queue, state, `rank`, available_at, max_crashes, enqueued_at, job, sealed"
    with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:
        for state, first in (("available", 0), ("scheduled", 1)):
            at = "seq" if state == "available" else "(1 << 57) + seq"
            cursor.execute(
                f"INSERT INTO onward_jobs ({columns}) SELECT lower(lpad(hex(seq * 2 + {first}), 32, '0')), 'q1', '{state}', "
                f"seq % 3, {at}, 3, 1, 'work', 'x' FROM seq_1_to_{ROWS}"
            )
        # Ten lanes have a thousand jobs each, and thousands have two.
        number = "CASE WHEN seq % 2 THEN 256 * (seq % 20) ELSE seq % 10000 END"
        cursor.execute(
            f"INSERT INTO onward_jobs ({columns}, lane) SELECT concat('l', lower(lpad(hex(seq), 31, '0'))), 'laned', "
            f"'available', 0, seq, 3, 1, 'render', 'x', concat('render/', lpad(hex({number}), 4, '0'), 'key') "
            f"FROM seq_1_to_{ROWS // 4}"
        )
        cursor.execute(
            "INSERT INTO onward_finished (id, queue, state, tombstone, finished_at, `rank`, available_at, delivery, "
            "max_crashes, enqueued_at, idempotency_ttl, attempts, crashes, interruptions, waits, job, sealed) "
            "SELECT concat('f', lower(lpad(hex(seq), 31, '0'))), 'q1', 'completed', false, 1, 0, 1, 1, 3, 1, 0, 1, 0, 0, 0, "
            f"'work', '' FROM seq_1_to_{ROWS}"
        )
        cursor.execute(
            "INSERT INTO onward_series (at, width, reporter, data) "
            f"SELECT seq * 60000000, 0, '*', '' FROM seq_1_to_{ROWS // 4}"
        )
        cursor.execute(
            "INSERT INTO onward_audit (at, job_id, who, act, detail, ref, signature) SELECT seq, "
            "CASE WHEN seq % 5 THEN lower(lpad(hex(seq), 32, '0')) ELSE '' END, concat('person', seq % 9), 'retry', '', "
            f"concat('bulk', seq % 50), '' FROM seq_1_to_{ROWS // 4}"
        )
    yield
    mariadb.emptied()


@pytest.mark.promise("F45", "F46")
@pytest.mark.parametrize("name", INDEXES)
def test_a_statement_walks_its_index(full, mariadb, name):
    with closing(mariadb.connect("jobs")) as connection, connection.cursor() as cursor:
        sql = written(name)
        cursor.execute(f"EXPLAIN {sql.split(';')[0] if name in WITH_ANSWER else sql}")
        headings = [column[0] for column in cursor.description]
        plan = [dict(zip(headings, row, strict=True)) for row in cursor.fetchall()]

    walked = {step["key"] for step in plan if step["table"] and step["key"]}
    assert walked <= INDEXES[name]
    assert walked or all("json_table" in str(step["Extra"]).lower() or step["table"] is None for step in plan)
    whole = [step for step in plan if step["type"] == "ALL" and "Table function" not in str(step["Extra"])]
    assert [step for step in whole if not step["table"].startswith("<derived")] == []
    assert not any("filesort" in str(step["Extra"]) for step in plan if name in SORTED)


@pytest.mark.promise("F44", "F45", "F46")
def test_a_turn_looks_at_as_many_rows_as_it_moves(full, mariadb, open_full, report):
    backend = open_full()
    backend.open_session(a_session("w"))
    claim = Claim(queues=("q1",), limit=LIMIT)
    leases = backend.turn(Turn(owner="w", claim=claim)).leases

    with reads_of(backend) as reads:
        result = backend.turn(Turn(owner="w", settlements=[*map(Settlement.ack, leases)], claim=claim))
    backend.reap(owner="w", started=())
    looked_at = reads.pop()

    assert len(leases) == len(result.leases) == LIMIT
    report(
        f"MariaDB, {ROWS:,} waiting, {ROWS:,} future, {ROWS:,} finished: {LIMIT} settled and claimed by {looked_at} reads"
    )
    assert looked_at < 15 * LIMIT


@contextmanager
def packets_of(monkeypatch):
    """The packets that are sent meanwhile."""
    sent = []
    with monkeypatch.context() as patch:
        send = Connection.send
        patch.setattr(Connection, "send", lambda self, sql: sent.append(sql) or send(self, sql))
        yield sent


@pytest.mark.promise("L51")
@pytest.mark.parametrize(
    ("limits", "claimed", "at_most"),
    [
        ((), LIMIT, 10),
        ((a_limit(running=20),), 20, 12),
        ((a_limit(running=LIMIT), a_limit(kind="key", running=1)), LIMIT, 14),
        ((a_limit(kind="key", rate="5/min"),), MOST_LOCKED, 12),
        ((a_limit("laned", "queue", running=10),), 10, 14),
    ],
    ids=["fair", "a job", "a job and its keys", "a rate of each key", "a queue"],
)
def test_a_walk_looks_at_as_many_rows_as_it_takes(open_full, limits, claimed, at_most, monkeypatch, report, request):
    backend = open_full()
    declare(backend, *limits, owner="w")
    turn = Turn(owner="w", claim=Claim(queues=("laned",), limit=LIMIT))

    try:
        with reads_of(backend) as reads, packets_of(monkeypatch) as packets:
            leases = backend.turn(turn).leases
        with reads_of(backend) as again:
            backend.turn(turn)
    finally:
        backend.reap(owner="w", started=())
        backend._with_retries(lambda connection: connection.send(b"DELETE FROM onward_limits;DELETE FROM onward_gates"))

    assert len(leases) == claimed
    report(
        f"MariaDB, {request.node.callspec.id}: {claimed} of {ROWS // 4:,} by {reads[0]} reads in {len(packets)} packets"
    )
    assert reads.pop() < 25 * LIMIT
    assert again.pop() < 25 * LIMIT
    assert len(packets) <= at_most


@pytest.mark.promise("L46", "L51")
def test_a_full_job_is_one_step_however_much_waits(open_full, monkeypatch):
    backend = open_full()
    declare(backend, a_limit(running=1), owner="w")
    turn = Turn(owner="w", claim=Claim(queues=("laned",), limit=LIMIT))
    try:
        leases = backend.turn(turn).leases
        with reads_of(backend) as reads, packets_of(monkeypatch) as packets:
            result = backend.turn(turn)
    finally:
        backend.reap(owner="w", started=())
        backend._with_retries(lambda connection: connection.send(b"DELETE FROM onward_limits"))

    assert (len(leases), len(result.leases), result.more) == (1, 0, False)
    assert reads.pop() < 100
    assert len(packets) <= 7


@pytest.fixture
def open_full(full, mariadb):
    """Open the full tables without emptying them."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(connected(MySQLBackend.from_url(mariadb.url()))))


@pytest.mark.promise("F45")
def test_a_sweep_looks_at_what_runs_and_nothing_else(full, open_full):
    backend = open_full()
    backend.open_session(a_session("w"))
    backend.turn(Turn(owner="w", claim=Claim(queues=("q1",), limit=LIMIT)))

    with reads_of(backend) as reads:
        backend.reap()
    backend.reap(owner="w", started=())

    assert reads.pop() < 10 * LIMIT


@pytest.mark.promise("S125")
@pytest.mark.parametrize(
    "look",
    [
        lambda backend: backend.wait(["q2", "q3"], 0),
        lambda backend: backend._until_work(["laned"]),
        lambda backend: backend.look(Look(counts=True, at_most=100)),
        lambda backend: backend.look(Look(deaths=True, at_most=100)),
        lambda backend: backend.list(Query(limit=10)),
        lambda backend: backend.prune({State.COMPLETED: 0}, limit=10),
        lambda backend: backend.queues_with_work("q"),
    ],
    ids=["wait", "wait for lanes", "overview", "groups", "list", "prune", "queues with work"],
)
def test_a_look_costs_the_same_however_much_there_is(open_full, look):
    backend = open_full()

    with reads_of(backend) as reads:
        look(backend)

    assert reads.pop() < 2_000


@pytest.mark.parametrize("size", [1, 10, 200])
@pytest.mark.promise("L53")
def test_a_turn_takes_as_many_packets_whatever_its_batch(backend, size, monkeypatch):
    backend.enqueue(some_envelopes(2 * size))
    backend.open_session(a_session("w"))
    claim = Claim(queues=("default",), limit=size)
    leases = backend.turn(Turn(owner="w", claim=claim)).leases
    (connection,) = backend._connections._open.values()
    sent = []
    send = type(connection).send
    monkeypatch.setattr(type(connection), "send", lambda self, sql: sent.append(sql) or send(self, sql))

    backend.turn(Turn(owner="w", settlements=[*map(Settlement.ack, leases)], claim=claim))

    assert len(sent) == 2
    assert [len(re.findall(rb";", sql)) for sql in sent] == [6, 2]
