"""What a database says of itself."""

import psycopg
import pytest

from onward.backends.postgres import health
from onward.testing.contract.builders import a_lease


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
    assert f"pid {pid}, a report" in check.detail


def test_a_lease_without_a_live_session_is_a_warning(backend, checks, clock):
    lease = a_lease(backend, lease_for=30)
    clock.advance(40)

    assert checks()["leases"].status == "warn"
    assert "started 40 s ago" in checks()["leases"].detail

    backend.extend(lease.owner)
    assert checks()["leases"].status == "ok"
