"""What a database says of itself."""

import psycopg
import pytest

from onward.backends.postgres import health
from onward.testing.contract.builders import a_lease
from tests.servers.postgres import postgres_server


@pytest.fixture
def checks(backend):
    return lambda: {check.name: check for check in backend.health()}


def test_a_sound_database_is_sound(checks, postgres):
    found = checks()

    assert found["server"].detail.startswith(f"PostgreSQL {postgres.version}.")
    assert str(postgres.folder) in found["server"].detail
    assert found["schema"].detail == "version 1, tables onward_*"
    assert found["durability"].detail == "synchronous_commit=on, fsync=on"
    assert {check.status for check in found.values()} == {"ok"}


def test_behind_a_pooler_it_says_how_workers_are_woken(open_backend, url):
    (check,) = [check for check in open_backend(at=f"{url}&pooler=transaction").health() if check.name == "waking"]

    assert "look five times a second" in check.detail


@pytest.mark.promise("F44")
def test_a_transaction_that_keeps_vacuum_from_its_work_is_named(checks, url, monkeypatch):
    monkeypatch.setattr(health, "_LONG", 0)
    with psycopg.connect(url, application_name="a report") as other:
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")

        check, pid = checks()["horizon"], other.info.backend_pid

    assert check.status == "warn"
    assert f"(pid {pid}, a report)" in check.detail
    assert check.fix == f"SELECT pg_terminate_backend({pid})"


@pytest.mark.promise("F44")
def test_one_that_has_written_and_forgot_to_commit_is_named_too(checks, url, monkeypatch):
    monkeypatch.setattr(health, "_LONG", 0)
    with psycopg.connect(url) as other:
        other.execute("CREATE TABLE forgotten (id integer)")

        assert f"pid {other.info.backend_pid}, " in checks()["horizon"].detail
        other.rollback()


class TestForgotten:
    """What no session holds any more and the server keeps all the same."""

    @pytest.fixture
    def own_server(self, postgres):
        with postgres_server(postgres.version) as server:
            server.restart(max_prepared_transactions=2)
            yield server

    @pytest.fixture
    def own(self, own_server, open_backend):
        backend = open_backend(at=own_server.url())
        return lambda: {check.name: check for check in backend.health()}["horizon"]

    def test_a_prepared_transaction_and_a_slot_are_named_with_the_statement_that_ends_them(
        self, own, own_server, monkeypatch
    ):
        monkeypatch.setattr(health, "_LONG", 0)
        with psycopg.connect(own_server.url(), autocommit=True) as connection:
            connection.execute("BEGIN; CREATE TABLE forgotten (id integer); PREPARE TRANSACTION 'left behind'")
            connection.execute("SELECT pg_create_physical_replication_slot('gone', true)")

            assert own().status == "warn"
            assert own().fix == "ROLLBACK PREPARED 'left behind'"  # the slot keeps little as yet
            monkeypatch.setattr(health, "_MUCH", 0)
            assert "SELECT pg_drop_replication_slot('gone')" in own().fix

            for statement in own().fix.split("; "):
                connection.execute(statement)

        assert own().status == "ok"


def test_a_lease_without_a_live_session_is_a_warning(backend, checks, clock):
    lease = a_lease(backend, lease_for=30)
    clock.advance(40)

    assert checks()["leases"].status == "warn"
    assert "started 40 s ago" in checks()["leases"].detail

    backend.extend(lease.owner)
    assert checks()["leases"].status == "ok"
