"""A look at a file has a time limit."""

import pytest

from onward.backend import Look
from onward.errors import BackendUnavailable

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
