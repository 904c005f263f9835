"""What a database says of itself."""

import pytest

from onward.backends.mysql import health
from onward.testing.contract.builders import a_lease
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane


@pytest.fixture
def checks(backend):
    return lambda: {check.name: check for check in backend.health()}


def test_a_sound_database_is_sound(checks, mariadb):
    found = checks()

    assert "MariaDB" in found["server"].detail
    assert str(mariadb.socket) in found["server"].detail
    assert found["schema"].detail == "version 1, tables onward_*"
    assert found["durability"].detail == "innodb_flush_log_at_trx_commit=1, no binary log"
    assert {check.status for check in found.values()} == {"ok"}


@pytest.mark.promise("F44")
def test_a_transaction_that_keeps_the_server_from_cleaning_up_is_named(checks, other_session, monkeypatch, until):
    monkeypatch.setattr(health, "_LONG", 0)
    with other_session() as other:
        other.execute("SELECT connection_id() FROM onward_jobs")
        other.execute("SELECT connection_id()")
        ((number,),) = other.fetchall()

        # The server shows what it remembers to a client that asks again within a tenth of a second.
        until(lambda: checks()["horizon"].status == "warn", every=0.2)
        fix = checks()["horizon"].fix

    assert fix == f"KILL {number}"


def test_who_may_not_see_others_transactions_is_told(open_backend, mariadb, sql):
    sql("CREATE OR REPLACE USER clerk@localhost")
    sql("GRANT SELECT, INSERT, UPDATE, DELETE ON jobs.* TO clerk@localhost")

    checks = {check.name: check for check in open_backend(at=mariadb.url(user="clerk")).health()}

    assert "PROCESS" in checks["horizon"].detail
    assert {check.status for check in checks.values()} == {"ok"}


def test_a_lease_without_a_live_session_is_a_warning(backend, checks, clock):
    lease = a_lease(backend, lease_for=30)
    clock.advance(40)

    assert checks()["leases"].status == "warn"
    assert "started 40 s ago" in checks()["leases"].detail

    backend.extend(lease.owner)
    assert checks()["leases"].status == "ok"


class TestStripes:
    """Rows that claims of limits lock, which a person may remove."""

    @pytest.fixture
    def removed(self, backend, sql):
        declare(backend, a_limit(running=1))
        sql("DELETE FROM jobs.onward_stripes WHERE number < 1001")

    def test_missing_stripes_are_named(self, checks, removed):
        assert checks()["limits"].status == "fail"
        assert "1001 rows of onward_stripes are missing" in checks()["limits"].detail

    def test_a_session_that_declares_limits_inserts_them_again(self, backend, checks, removed, caplog):
        backend.enqueue(in_lane(1))
        assert claimed(backend, limit=1) == []

        declare(backend, a_limit(running=1))

        assert checks()["limits"].status == "ok"
        assert len(claimed(backend, limit=1)) == 1
        assert "1001 rows of onward_stripes were inserted again" in caplog.text

    def test_pruning_inserts_them_again(self, backend, checks, removed):
        backend.prune({})

        assert checks()["limits"].status == "ok"
