"""A look at a file has a time limit."""

import pytest
from msgspec import structs

from onward.backend import Look, Query
from onward.errors import BackendUnavailable
from onward.testing.contract.builders import some_envelopes

ENDLESS, LONG = (
    f"WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {rows}) SELECT count(*) FROM n"
    for rows in (-1, 1_000_000)
)


def test_a_look_that_takes_too_long_is_ended_and_the_next_one_is_not(backend):
    def look():
        with backend._transactions.reading_briefly(0.05) as tx:
            tx._connection.execute(ENDLESS).fetchall()

    with pytest.raises(BackendUnavailable, match=r"a look took longer than 0\.05 s"):
        look()

    assert backend.look(Look(counts=True)).overview.queues == []
    with backend._reading() as tx:  # the limit is gone
        assert tx._connection.execute(LONG).fetchall() == [(1_000_000,)]


def test_a_page_of_jobs_that_is_not_found_in_time_is_given_up(backend):
    for _ in range(10):
        backend.enqueue(some_envelopes(1_000))
    rare = Query(queue="rare", newest_first=True)

    told = "it was found in time"
    try:
        backend.list(structs.replace(rare, within=1e-6))
    except BackendUnavailable as error:
        told = str(error)

    assert "a look took longer than 1e-06 s" in told
    assert backend.list(structs.replace(rare, within=60.0)) == []
