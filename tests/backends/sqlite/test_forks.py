"""A fork shares no connection: SQLite's locks belong to a process, and a copied connection destroys the file."""

import os
import sqlite3
import threading
from contextlib import closing

import pytest

from onward.backends.sqlite import connection
from onward.errors import BackendMisconfigured, BackendUnavailable
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


def in_child(act):
    """Run ``act`` in a forked child; gives its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)  # without a word to pytest
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def is_sound(file):
    with closing(sqlite3.connect(file)) as looking:
        return looking.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.promise("F31", "F53")
def test_a_child_and_its_parent_both_go_on(backend, file):
    lease = a_lease(backend)
    childs, parents = an_envelope(), an_envelope()

    assert in_child(lambda: backend.enqueue([childs])) == 0

    backend.enqueue([parents])
    assert backend.ack(lease).applied
    assert ids(backend.claim(a_claim(limit=10))) == sorted(ids([childs, parents]))
    assert is_sound(file)


@pytest.mark.promise("F31")
def test_children_may_be_forked_while_threads_write(backend, file):
    stop, stored = threading.Event(), []

    def write():
        while not stop.is_set():
            stored.append(backend.enqueue([an_envelope()])[0].id)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()

    codes = [in_child(lambda: backend.enqueue([an_envelope()])) for _ in range(10)]
    stop.set()
    for thread in threads:
        thread.join()

    assert codes == [0] * 10
    # Ids made in a child may equal ids made in the parent; none of the parent's is lost.
    assert all(backend.get(job_id) is not None for job_id in stored)
    assert is_sound(file)


@pytest.mark.promise("F31")
def test_a_child_of_a_child_works_too(backend):
    def be_a_parent():
        assert in_child(lambda: backend.enqueue([an_envelope()])) == 0
        backend.enqueue([an_envelope()])

    assert in_child(be_a_parent) == 0
    assert backend.counts()["available"] == 2


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
        with pytest.raises(BackendMisconfigured, match="carried over"):
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
