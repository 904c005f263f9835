"""A look at a database has a time limit, and costs the same whatever waits."""

import pytest

from onward.backend import Look
from onward.errors import BackendUnavailable


def test_a_look_that_takes_too_long_is_ended_and_the_next_one_is_not(backend, monkeypatch):
    monkeypatch.setattr("onward.backends.postgres.inspection.LOOK_SECONDS", 0.1)

    with pytest.raises(BackendUnavailable, match="statement timeout"):
        backend._read_briefly(lambda tx: tx._sender.send(b"SELECT pg_sleep(30)", []).rows())

    assert backend._read(lambda tx: tx._sender.send(b"SHOW statement_timeout", []).rows()) == [("0",)]
    monkeypatch.undo()
    assert backend.look(Look(counts=True)).overview.queues == []
