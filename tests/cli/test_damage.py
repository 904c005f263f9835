"""A row that no worker wrote is shown as what it is, and keeps nothing else from being shown."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from onward import JobContext, Onward, ResultUnreadable, State
from onward.testing import FakeClock
from tests.servers.stores import emptied

LATEST = 2**63 - 1
LISTS = (
    ("job", "list"),
    ("dead", "list"),
    ("worker", "list"),
    ("queue", "list"),
    ("top", "--once", "--interval", "0.1s"),
)


@pytest.fixture
def overwrite(tmp_path):
    """Change the file as a restored backup or a broken disk does: without asking the table's constraints."""

    def overwrite(statement, *values):
        with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection, connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            assert connection.execute(statement, values).rowcount == 1

    return overwrite


@pytest.fixture
def work(jobs):
    @jobs.job(name="work")
    def work(n: int = 0) -> int:
        return n

    return work


@pytest.fixture
def ended(jobs, work):
    """A job that has returned 7."""
    handle = work.enqueue(7)
    jobs.drain()
    return handle


class TestAnUnknownState:
    def test_a_live_job_is_listed_with_the_word_and_a_note(self, onward, overwrite, work):
        beside, damaged = work.enqueue(), work.enqueue()
        overwrite("UPDATE onward_jobs SET state = 'nonsense' WHERE id = ?", damaged.id)

        lines = {line["id"]: line for line in onward("job", "list", "--json").json}

        assert lines[damaged.id]["state"] == "nonsense"
        assert lines[damaged.id]["damage"] == "state is 'nonsense' of a job that has not ended"
        assert lines[beside.id]["damage"] is None
        assert "nonsense (damaged)" in onward("job", "list").out

    def test_a_finished_job_is_shown_with_a_note(self, onward, overwrite, ended):
        overwrite("UPDATE onward_finished SET state = 'nonsense' WHERE id = ?", ended.id)

        ran = onward("job", "show", ended.id)

        assert ran.code == 0
        assert "damaged   state is 'nonsense' of a job that has ended: no worker writes that" in ran.out

    @pytest.mark.parametrize("words", LISTS, ids=" ".join)
    @pytest.mark.parametrize("table", ["jobs", "finished"])
    def test_every_list_shows_the_rest(self, onward, overwrite, jobs, work, ended, table, words):
        damaged = work.enqueue() if table == "jobs" else ended
        overwrite(f"UPDATE onward_{table} SET state = 'nonsense' WHERE id = ?", damaged.id)

        for shown in (onward(*words), onward(*words, "--json")):
            assert (shown.code, "Error" in shown.err) == (0, False)

    @pytest.mark.parametrize("verb", ["retry", "cancel"])
    def test_steering_it_says_that_it_is_damaged_or_ended(self, onward, overwrite, ended, verb):
        overwrite("UPDATE onward_finished SET state = 'nonsense' WHERE id = ?", ended.id)

        ran = onward("job", verb, ended.id)

        assert ran.code != 0
        assert "nonsense" in ran.err

    def test_pruning_leaves_it_where_it_is(self, onward, overwrite, ended):
        overwrite("UPDATE onward_finished SET state = 'nonsense' WHERE id = ?", ended.id)

        ran = onward("prune", "--older-than", "0s", "--dry-run")

        assert ran.code == 0
        assert ended.record().state == "nonsense"

    def test_its_result_is_an_error_that_names_the_word(self, overwrite, ended):
        overwrite("UPDATE onward_finished SET state = 'nonsense' WHERE id = ?", ended.id)

        with pytest.raises(ResultUnreadable, match=f"{ended.id} has ended.*'nonsense'") as caught:
            ended.result(1)
        assert caught.value.job_id == ended.id


class TestAnImpossibleTime:
    @pytest.mark.parametrize("instant", [LATEST, -1, -LATEST])
    @pytest.mark.parametrize("column", ["available_at", "enqueued_at", "started_at", "finished_at"])
    def test_a_finished_job_is_shown_with_a_note(self, onward, overwrite, ended, column, instant):
        overwrite(f"UPDATE onward_finished SET {column} = ? WHERE id = ?", instant, ended.id)

        (line,) = onward("job", "list", "--json").json

        assert line["damage"] == f"{column} is {instant}"
        assert f"{column} is {instant}: no worker writes that" in onward("job", "show", ended.id).out
        assert "completed (damaged)" in onward("job", "list").out

    def test_that_of_a_run_is_shown_with_a_note(self, onward, overwrite, jobs):
        @jobs.job(max_retries=0)
        def fails() -> None:
            raise ValueError("no")

        handle = fails.enqueue()
        jobs.drain()
        overwrite("UPDATE onward_attempts SET at = ? WHERE job_id = ?", LATEST, handle.id)

        (line,) = onward("dead", "list", "--json").json

        assert line["damage"] == f"at of a run is {LATEST}"
        assert onward("job", "show", handle.id).code == 0

    @pytest.mark.parametrize("words", LISTS, ids=" ".join)
    def test_every_list_shows_the_rest(self, onward, overwrite, jobs, work, ended, words):
        overwrite("UPDATE onward_finished SET finished_at = ? WHERE id = ?", LATEST, ended.id)

        for shown in (onward(*words), onward(*words, "--json")):
            assert (shown.code, "Error" in shown.err) == (0, False)


class TestAResult:
    @pytest.mark.parametrize("result", [b"{", b"\xff\xfe", b"", b"[" * 5000, b"\0" * 16])
    def test_that_cannot_be_read_is_an_error_and_not_none(self, onward, overwrite, jobs, ended, result):
        overwrite("UPDATE onward_finished SET result = ? WHERE id = ?", result, ended.id)

        with pytest.raises(ResultUnreadable, match=f"{ended.id} is completed, and its result cannot be read: "):
            ended.result(1)
        (error,) = jobs.results([ended], 1, return_exceptions=True)
        assert isinstance(error, ResultUnreadable)
        record = ended.record()
        assert (record.state, record.result) == (State.COMPLETED, None)
        assert record.damage.startswith("its result cannot be read: ")
        shown = onward("job", "show", ended.id)
        assert "result    unreadable\n" in shown.out
        assert "its result cannot be read" in shown.out

    def test_of_none_is_none(self, jobs):
        handle = jobs.job(name="quiet")(lambda: None).enqueue()
        jobs.drain()

        assert handle.result(1) is None
        assert handle.record().damage is None


@pytest.mark.parametrize("count", [-1, -(10**9), -(2**63), 2**31, 2**63 - 1])
@pytest.mark.parametrize("column", ["attempts", "delivery", "crashes", "waits", "interruptions"])
def test_no_handler_is_given_an_attempt_that_no_worker_counts(onward, overwrite, jobs, column, count):
    seen = []

    @jobs.job(name="counting")
    def counting(ctx: JobContext) -> None:
        seen.append((ctx.attempt, ctx.delivery))

    damaged, beside = counting.enqueue(), counting.enqueue()
    overwrite(f"UPDATE onward_jobs SET {column} = ? WHERE id = ?", count, damaged.id)

    with jobs.worker(concurrency=1):
        assert beside.result(30) is None
    jobs.drain()

    assert seen == [(1, 1)]
    record = damaged.record()
    assert (record.state, column in record.reason) == (State.DISCARDED, True)

    assert onward("dead", "replay", damaged.id).code == 0
    jobs.drain()
    assert damaged.record().state is State.COMPLETED
    assert min(seen) >= (1, 1)


def on_postgres(server):
    """The store, and how a person who may alter its tables changes it."""
    url = emptied(server)

    def overwrite(table, column, value, job_id):
        with psycopg.connect(url) as connection:
            checks = connection.execute(
                "SELECT conname, pg_get_expr(conbin, conrelid) FROM pg_constraint "
                "WHERE contype = 'c' AND conrelid = %s::regclass",
                (f"onward_{table}",),
            ).fetchall()
            for name, _ in checks:
                connection.execute(f"ALTER TABLE onward_{table} DROP CONSTRAINT {name}")
            connection.execute(f"UPDATE onward_{table} SET {column} = %s WHERE id = %s", (value, job_id))
            for name, meaning in checks:
                connection.execute(f"ALTER TABLE onward_{table} ADD CONSTRAINT {name} CHECK ({meaning}) NOT VALID")

    return url, overwrite


def on_mariadb(server):
    url = server.emptied()

    def overwrite(table, column, value, job_id):
        with closing(server.connect("jobs")) as connection, connection.cursor() as cursor:
            cursor.execute("SET check_constraint_checks = OFF")
            cursor.execute(f"UPDATE onward_{table} SET {column} = %s WHERE id = %s", (value, job_id))
            connection.commit()

    return url, overwrite


@pytest.mark.parametrize(("server", "store"), [("newest_postgres", on_postgres), ("mariadb", on_mariadb)])
def test_servers_show_what_no_worker_wrote(request, onward, server, store):
    url, overwrite = store(request.getfixturevalue(server))
    with Onward(url, clock=FakeClock()) as jobs:
        work = jobs.job(name="work")(lambda n=0: n)
        unreadable, late, strange, fine = (work.enqueue(n) for n in range(4))
        jobs.drain()
        waiting = work.enqueue(5)
        overwrite("finished", "result", b"\xff", unreadable.id)
        overwrite("finished", "started_at", -5, late.id)
        overwrite("finished", "state", "nonsense", strange.id)
        overwrite("jobs", "state", "other", waiting.id)

        for order in ((), ("--newest",)):
            lines = {each["id"]: each for each in onward("job", "list", *order, "--json", "--url", url).json}

            assert lines[unreadable.id]["damage"].startswith("its result cannot be read: ")
            assert lines[late.id]["damage"] == "started_at is -5"
            assert lines[strange.id]["damage"] == "state is 'nonsense' of a job that has ended"
            assert lines[waiting.id]["damage"] == "state is 'other' of a job that has not ended"
            assert lines[fine.id]["damage"] is None
        with pytest.raises(ResultUnreadable):
            unreadable.result(1)
        with pytest.raises(ResultUnreadable):
            strange.result(1)
        assert (late.result(1), fine.result(1)) == (1, 3)
        assert [each.id for each in jobs.list(state="completed")] == [unreadable.id, late.id, fine.id]


@pytest.mark.parametrize(("server", "store"), [("newest_postgres", on_postgres), ("mariadb", on_mariadb)])
@pytest.mark.parametrize("count", [-(10**9), 2**31 - 1])
def test_a_job_whose_deliveries_no_worker_counted_is_discarded_and_can_be_replayed(
    request, onward, server, store, count
):
    url, overwrite = store(request.getfixturevalue(server))
    with Onward(url) as jobs:
        work = jobs.job(name="work")(lambda n=0: n)
        damaged, beside = work.enqueue(1), work.enqueue(2)
        overwrite("jobs", "delivery", count, damaged.id)
        jobs.drain()
        assert (beside.result(1), damaged.state()) == (2, State.DISCARDED)

        assert onward("dead", "replay", damaged.id, "--url", url).code == 0
        jobs.drain()

        assert damaged.result(1) == 1


@pytest.mark.parametrize("count", [-(10**9), 2**31 - 1])
@pytest.mark.parametrize(("server", "store"), [("newest_postgres", on_postgres), ("mariadb", on_mariadb)])
def test_a_dead_letter_with_deliveries_that_no_worker_counted_can_be_replayed(request, onward, server, store, count):
    url, overwrite = store(request.getfixturevalue(server))
    with Onward(url) as jobs:
        check_replay(jobs, onward, lambda job_id: overwrite("finished", "delivery", count, job_id))


@pytest.mark.parametrize("count", [-(10**9), 2**31 - 1])
def test_a_dead_letter_on_sqlite_with_deliveries_that_no_worker_counted_can_be_replayed(onward, jobs, overwrite, count):
    statement = "UPDATE onward_finished SET delivery = ? WHERE id = ?"
    check_replay(jobs, onward, lambda job_id: overwrite(statement, count, job_id))


def check_replay(jobs, onward, damage):
    works = []

    @jobs.job(name="fails_once", max_retries=0)
    def fails_once() -> int:
        if not works:
            works.append(True)
            raise ValueError("not yet")
        return 7

    dead = fails_once.enqueue()
    jobs.drain()
    damage(dead.id)

    assert onward("dead", "replay", dead.id, "--url", jobs.settings.url).code == 0
    jobs.drain()

    assert dead.result(1) == 7
