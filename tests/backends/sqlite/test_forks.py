"""A fork shares no connection: SQLite's locks belong to a process, and a copied connection destroys the file."""

import sqlite3
from contextlib import closing

import pytest

from onward.backends.sqlite import connection
from onward.errors import BackendMisconfigured, BackendUnavailable
from onward.testing.contract.builders import an_envelope
from tests.backends.forking import IN_THREADS, Forks, in_child

pytestmark = IN_THREADS


def is_sound(file):
    with closing(sqlite3.connect(file)) as looking:
        return looking.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


class TestForks(Forks):
    @pytest.fixture(autouse=True)
    def sound(self, file):
        yield
        assert is_sound(file)


@pytest.mark.promise("F53")
def test_no_connection_is_open_while_forking(backend):
    backend.enqueue([an_envelope()])
    backend.get("x")
    lines = (backend._connections.writer, backend._connections._reader)

    assert in_child(lambda: _expect(all(line._connection is None for line in lines))) == 0


@pytest.mark.promise("F53")
def test_a_connection_that_was_carried_over_is_refused_before_any_statement(backend, monkeypatch):
    statements = []
    backend.get("x")
    for line in (backend._connections.writer, backend._connections._reader):
        line._connection.set_trace_callback(statements.append)

    with monkeypatch.context() as patch:
        patch.setattr(connection.os, "getpid", lambda: 0)
        for act in (lambda: backend.enqueue([an_envelope()]), lambda: backend.get("x")):
            with pytest.raises(BackendMisconfigured, match="open the backend after forking"):
                act()

    assert statements == []
    assert backend.enqueue([an_envelope()])[0].created


@pytest.mark.promise("F53")
def test_a_fork_in_the_middle_of_a_transaction_leaves_it_to_the_parent(backend, file):
    def be_refused():
        with pytest.raises(BackendMisconfigured, match="copy of an open connection"):
            backend.enqueue([an_envelope()])

    with backend._writing() as tx:
        tx.run("pause", ("mail", tx.now))
        assert in_child(be_refused) == 0

    assert backend.queues()[0].paused
    assert is_sound(file)


def test_a_signal_handler_is_told_that_it_came_in_between(backend):
    with backend._writing(), pytest.raises(BackendUnavailable, match="from within its own transaction"):
        backend.enqueue([an_envelope()])


def _expect(fact):
    assert fact
