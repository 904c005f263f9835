"""Keys are locked in one order on MariaDB: a turn waits for another one's keys, and never both for each other's."""

from contextlib import closing, contextmanager

import pytest

from onward.testing.contract.builders import a_lease
from tests.backends.key_order import KeyOrder


@pytest.fixture
def server(mariadb):
    return mariadb


@pytest.fixture
def waiting(sql):
    def count():
        ((_, number),) = sql("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
        return int(number)

    return count


@pytest.fixture
def held_back(mariadb):
    @contextmanager
    def hold(key):
        with closing(mariadb.connect("jobs", autocommit=False)) as other, other.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            if not cursor.execute("SELECT 1 FROM onward_holds WHERE `key` = %s FOR UPDATE", [f"work/{key}"]):
                cursor.execute("INSERT INTO onward_holds VALUES ('once', %s, '', 0, NULL)", [f"work/{key}"])
            yield
            other.rollback()

    return hold


class TestKeyOrder(KeyOrder):
    pass


@pytest.mark.promise("S33")
def test_the_row_of_a_free_key_is_pruned_after_a_minute(backend, clock, sql):
    backend.nack(a_lease(backend, idempotency_key="k", single_instance=True), 3600)
    backend.prune({})
    assert sql("SELECT count(*) FROM onward_holds WHERE job_id = ''") == [(2,)]

    clock.advance(60)
    backend.prune({})

    assert sql("SELECT count(*) FROM onward_holds") == [(0,)]
