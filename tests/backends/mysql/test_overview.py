"""A look at a database has a time limit."""

from contextlib import closing

import pytest

from onward.backend import Look, Query
from onward.errors import BackendUnavailable


def test_a_look_that_takes_too_long_is_ended_and_the_next_one_is_not(backend):
    def look(tx):
        tx.flush()
        tx._connection.send(b"SELECT sleep(30)")

    with pytest.raises(BackendUnavailable, match="max_statement_time"):
        backend._read_briefly(look)

    for _ in range(2):
        (limit,) = backend._with_retries(lambda connection: connection.send(b"SELECT @@max_statement_time"))
        assert float(limit.rows[0][0]) == 0
        assert backend.look(Look(counts=True)).overview.queues == []


def test_a_page_of_jobs_that_is_not_found_in_time_is_given_up(backend, mariadb):
    backend.connect()
    with closing(mariadb.connect("jobs")) as other:
        other.cursor().execute("LOCK TABLES onward_jobs WRITE")

        with pytest.raises(BackendUnavailable, match="max_statement_time"):
            backend.list(Query(queue="rare", within=0.1))

    assert backend.list(Query(queue="rare", within=60.0)) == []
