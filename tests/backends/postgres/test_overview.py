"""A look at a database has a time limit, and costs the same whatever waits."""

import psycopg
import pytest

from onward.backend import Look, Query
from onward.errors import BackendUnavailable


def test_a_look_that_takes_too_long_is_ended_and_the_next_one_is_not(backend):
    with pytest.raises(BackendUnavailable, match="statement timeout"):
        backend._read_briefly(lambda tx: tx._sender.send(b"SELECT pg_sleep(30)", []).rows(), 0.1)

    assert backend._read(lambda tx: tx._sender.send(b"SHOW statement_timeout", []).rows()) == [("0",)]
    assert backend.look(Look(counts=True)).overview.queues == []


def test_a_page_of_jobs_that_is_not_found_in_time_is_given_up(backend, url):
    backend.connect()
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE onward_jobs")

        with pytest.raises(BackendUnavailable, match="statement timeout"):
            backend.list(Query(queue="rare", within=0.1))

    assert backend.list(Query(queue="rare", within=60.0)) == []
