"""A look at a database has a time limit."""

import pytest

from onward.backend import Look
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
