"""A fork shares no connection: two processes that talk over one socket mix their sentences."""

import os
import threading

import pytest

from onward.backends import pool
from onward.job.states import State
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


@pytest.mark.promise("F31", "F53")
def test_a_child_and_its_parent_both_go_on(backend):
    lease = a_lease(backend)
    childs, parents = an_envelope(), an_envelope()
    (before,) = [each.number for each in backend._connections._open.values()]

    assert in_child(lambda: backend.enqueue([childs])) == 0
    assert in_child(backend.close) == 0

    backend.enqueue([parents])
    assert [each.number for each in backend._connections._open.values()] == [before]
    assert backend.ack(lease).applied
    assert ids(backend.claim(a_claim(limit=10))) == sorted(ids([childs, parents]))


@pytest.mark.promise("F31")
def test_children_may_be_forked_while_threads_write(backend):
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
    assert all(backend.get(job_id) is not None for job_id in stored)


@pytest.mark.promise("F26", "F53")
def test_a_child_does_not_keep_its_dead_parents_locks(backend, start):
    """The parent is killed in the middle of a transaction; its child lives on, with a copy of the socket."""
    lease = a_lease(backend)
    parent = start(
        """
        import os, signal, sys
        from onward.backends.mysql import MySQLBackend

        backend = MySQLBackend.from_url(sys.argv[1])

        def fork_and_die(tx):
            tx.ask("lock_session", owner="worker").rows()
            if os.fork() == 0:
                print("forked", flush=True)
                signal.pause()
            signal.pause()

        backend._write(fork_and_die)
        """,
        start_new_session=True,
    )
    assert parent.stdout.readline() == "forked\n"
    parent.kill()
    parent.wait()

    try:
        assert backend.ack(lease).applied
    finally:
        os.killpg(parent.pid, 9)


@pytest.mark.promise("F53")
def test_a_fork_in_the_middle_of_a_transaction_leaves_it_to_the_parent(backend):
    envelope = an_envelope()

    def go_on_in_the_child(tx):
        assert tx.ask("pause", queue="mail").count == 1
        assert in_child(lambda: backend.enqueue([envelope])) == 0

    backend._write(go_on_in_the_child)

    assert backend.queues()[1].paused
    assert backend.get(envelope.id).state is State.AVAILABLE


@pytest.mark.promise("F53")
def test_a_fork_that_python_did_not_see_is_noticed_before_any_statement(backend, monkeypatch):
    backend.enqueue([an_envelope()])
    (inherited,) = backend._connections._open.values()

    with monkeypatch.context() as patch:
        patch.setattr(pool.os, "getpid", lambda: 0)
        assert backend.enqueue([an_envelope()])[0].created

    assert not inherited.is_quiet
