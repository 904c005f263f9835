"""A handler's SQLite connection is used by one thread at a time, so that the interpreter cannot stand still.

SQLite calls Python back while it holds the connection's mutex, and the driver waits for that mutex while it holds the
interpreter's lock.  Two threads in one connection can wait for each other there, and every other thread with them.
"""

import re
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import onward
from onward import JobContext, State
from onward.backends.sqlite.handler_connection import HandlerConnection, HandlerCursor
from onward.base.failure import name_of
from onward.errors import TransactionError, TransactionTooLong
from tests.servers.databases import is_locked
from tests.waiting import eventually

pytestmark = pytest.mark.promise("A12")

WRITE = "INSERT INTO effects (label) VALUES ('{}')"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

# What a handler does over and over while its time ends: ways into SQLite with the interpreter's lock held, and Python
# code that SQLite calls.
ACTS = {
    "a statement that fails": "conn.execute('SELECT * FROM nowhere')",
    "rows of text": "conn.execute('SELECT name FROM sqlite_master').fetchall()",
    "a row at a time": "next(conn.execute('SELECT name FROM sqlite_master'))",
    "parameters": "conn.executemany('SELECT ?', [('x',)] * 20)",
    "a function": "conn.create_function('f', 1, lambda n: 1 / 0); conn.execute('SELECT f(name) FROM sqlite_master')",
    "an aggregate": "conn.create_aggregate('g', 1, Aggregate); conn.execute('SELECT g(name) FROM sqlite_master')",
    "a collation": "conn.create_collation('c', max); conn.execute('SELECT name FROM sqlite_master ORDER BY 1 COLLATE c')",
    "a trace": "conn.set_trace_callback(str.lower); conn.execute('SELECT * FROM nowhere')",
    "a progress handler": "conn.set_progress_handler(int, 1); conn.execute('SELECT name FROM sqlite_master')",
    "an attribute": "conn.isolation_level = None",
}

PROGRAM = """
    import contextlib, faulthandler, sys
    from onward.backends.sqlite.backend import SqliteBackend
    from onward.errors import TransactionTooLong

    faulthandler.dump_traceback_later(60, exit=True)  # in a thread of C: the interpreter's lock may be held for ever

    class Aggregate:
        def step(self, value): raise ValueError
        def finalize(self): return 1

    backend, late = SqliteBackend.open(sys.argv[1]), 0
    for _ in range(200):
        block = backend.begin(at_most=0.005)
        conn, more = block.connection, 20
        while more:
            with contextlib.suppress(Exception):
                ACT
            more -= block._late
        try:
            block.check()
        except TransactionTooLong:
            late += 1
        block.roll_back()
    print(late)
"""


@pytest.mark.parametrize("act", ACTS)
def test_no_use_of_a_connection_stands_still_when_its_time_ends(tmp_path, act):
    program = textwrap.dedent(PROGRAM).replace("ACT", ACTS[act])
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "jobs.db")],
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )

    assert (run.returncode, run.stdout.strip()) == (0, "200"), run.stderr[-4000:]


@pytest.fixture
def database(sqlite_database):
    return sqlite_database


class TestTheLimit:
    @pytest.fixture
    def jobs(self, open_app):
        return open_app(transaction_timeout=0.2)

    def test_holds_while_a_cursor_is_open(self, jobs, database, told):
        """An open read keeps an interruption alive: the ROLLBACK would be interrupted as well."""

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                cursor = conn.execute("SELECT 1 UNION ALL SELECT 2")
                with pytest.raises(sqlite3.OperationalError, match="interrupted"):
                    conn.execute(ENDLESS)
                eventually(lambda: not is_locked(database))
                with pytest.raises(TransactionTooLong):
                    next(cursor)
                told.append("let go")

        handle = pay.enqueue()
        jobs.drain()

        assert (told, database.effects()) == (["let go"], [])
        assert handle.record().errors[0].kind == name_of(TransactionTooLong)

    def test_ends_a_statement_that_begins_just_as_it_is_reached(self, jobs, database):
        """An interruption that meets no statement has no effect, so it is repeated."""

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                completion = conn._completion

                class Value:
                    def __conform__(self, protocol):  # called by execute(), before the statement runs
                        eventually(lambda: completion._late)
                        return 1

                conn.execute(f"{ENDLESS} WHERE ?", (Value(),))

        handle = pay.enqueue()
        jobs.drain()

        assert handle.record().errors[0].kind == name_of(TransactionTooLong)

    def test_is_named_by_every_later_use(self, jobs, database, told):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                cursor, connection = conn.cursor(), conn.connection
                eventually(lambda: not is_locked(database))
                for act in (
                    lambda: conn.execute("SELECT 1"),
                    lambda: cursor.execute("SELECT 1"),
                    lambda: connection.executemany("SELECT ?", [(1,)]),
                    connection.cursor,
                    lambda: conn.enqueue("note"),
                ):
                    with pytest.raises(TransactionTooLong, match=r"0\.2 s .* transaction_timeout"):
                        act()
                    told.append("refused")
                cursor.close()

        handle = pay.enqueue()
        jobs.drain()

        assert (told, handle.state()) == (["refused"] * 5, State.DISCARDED)

    def test_is_none_any_more_once_the_block_is_left(self, jobs, database):
        """What has begun to be committed is not undone half-way."""

        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                conn.execute(WRITE.format("x"))
                completion = conn._completion
                settle = completion.settle

                def slowly(settlement):
                    settled = settle(settlement)
                    completion._expire()
                    return settled

                completion.settle = slowly

        handle = pay.enqueue()
        jobs.drain()

        assert (handle.state(), database.effects()) == (State.COMPLETED, ["x"])


class TestEveryWayIn:
    # It does not enter the connection: it sets a flag, and is meant for other threads.
    OUTSIDE = frozenset({"interrupt"})

    @pytest.mark.parametrize(
        ("ours", "drivers"), [(HandlerConnection, sqlite3.Connection), (HandlerCursor, sqlite3.Cursor)]
    )
    def test_is_guarded(self, ours, drivers):
        """Also what a later Python adds."""
        ways = {
            name
            for name, member in vars(drivers).items()
            if callable(member)
            and not isinstance(member, type)
            and (name[0] != "_" or name in {"__call__", "__exit__", "__next__"})
        }
        assert {"execute", "executemany"} < ways
        assert {name for name in ways - self.OUTSIDE if getattr(ours, name) is getattr(drivers, name)} == set()

    def test_is_a_cursor_of_ours(self, database):
        connection = sqlite3.connect(database.address["file"], factory=HandlerConnection)
        cursors = [
            connection.cursor(),
            connection.execute("SELECT 1"),
            connection.executemany("INSERT INTO effects VALUES (?)", []),
        ]
        assert {type(cursor) for cursor in cursors} == {HandlerCursor}
        connection.end()

    @pytest.mark.parametrize(
        ("act", "instead"),
        [
            (lambda connection: connection.set_authorizer(None), "COMMIT and ATTACH"),
            (lambda connection: connection.create_window_function("w", 1, None), "create_aggregate"),
            (lambda connection: connection.blobopen("effects", "label", 1), "execute"),
            (lambda connection: connection.cursor(factory=type("Cursor", (sqlite3.Cursor,), {})), "row_factory"),
        ],
    )
    def test_that_cannot_be_guarded_is_refused(self, jobs, act, instead, told):
        @jobs.job
        def pay(ctx: JobContext) -> None:
            with ctx.transaction() as conn:
                with pytest.raises(TransactionError, match=instead):
                    act(conn.connection)
                told.append("refused")

        handle = pay.enqueue()
        jobs.drain()

        assert (told, handle.state()) == (["refused"], State.COMPLETED)


def test_no_other_connection_of_ours_calls_python():
    """Two threads in a connection that calls no Python cannot wait for each other.

    A look limits its time by a function of Python; its connection has a lock, so that one thread at a time is in it.
    """
    source = Path(onward.__file__).parent
    installs = re.compile(
        r"\.(set_(authorizer|progress_handler|trace_callback)|create_(function|aggregate|collation|window_function))\("
    )
    found = {file.name for file in source.rglob("*.py") if installs.search(file.read_text())}
    assert found == {"completing.py", "transaction.py"}
