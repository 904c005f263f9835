"""Forks, asked of each store: a child shares no connection with its parent."""

import os
import threading

import pytest

from onward.backends import pool
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids
from tests.waiting import eventually

IN_THREADS = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


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


@IN_THREADS
class Forks:
    """Asked of every store that processes share."""

    @pytest.fixture(autouse=True)
    def sound(self):
        """Fail if the store is damaged after the test."""

    @pytest.mark.promise("F31", "F53")
    def test_a_child_and_its_parent_both_go_on(self, backend):
        lease = a_lease(backend)
        childs, parents = an_envelope(), an_envelope()

        assert in_child(lambda: backend.enqueue([childs])) == 0

        backend.enqueue([parents])
        assert backend.ack(lease).applied
        assert ids(backend.claim(a_claim(limit=10))) == sorted(ids([childs, parents]))

    @pytest.mark.promise("F31")
    def test_children_may_be_forked_while_threads_write(self, backend):
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

    @pytest.mark.promise("F31")
    def test_a_child_of_a_child_works_too(self, backend):
        def be_a_parent():
            assert in_child(lambda: backend.enqueue([an_envelope()])) == 0
            backend.enqueue([an_envelope()])

        assert in_child(be_a_parent) == 0
        assert backend.counts()["available"] == 2


class ForksOfServers(Forks):
    """Asked of stores behind a socket: two processes that talk over one mix their sentences.

    Fixtures: ``connections()`` names the open connections as the server does; ``is_left(connection)`` says whether the
    backend has left one that it inherited.
    """

    @pytest.mark.promise("F31")
    def test_the_parent_keeps_its_connection_whatever_the_child_does_to_its_copy(self, backend, connections):
        backend.enqueue([an_envelope()])
        before = connections()

        assert in_child(backend.close) == 0

        backend.enqueue([an_envelope()])
        assert connections() == before
        assert len(before) == 1

    @pytest.mark.promise("F53")
    def test_a_fork_that_python_did_not_see_is_noticed_before_any_statement(self, backend, is_left, monkeypatch):
        backend.enqueue([an_envelope()])
        (inherited,) = backend._connections._open.values()

        with monkeypatch.context() as patch:
            patch.setattr(pool.os, "getpid", lambda: 0)
            assert backend.enqueue([an_envelope()])[0].created

        assert is_left(inherited)


class ForksOfDatabases(ForksOfServers):
    """Asked of databases: a transaction belongs to the process that began it."""

    @pytest.mark.promise("F26", "F53")
    def test_a_child_does_not_keep_the_locks_of_its_dead_parent(self, backend, start):
        """The parent is killed in the middle of a transaction; its child lives on, with a copy of the socket."""
        lease = a_lease(backend)
        parent = start(
            """
            import os, signal, sys
            from onward.backends.opening import open_store
            from onward.config import Settings

            backend = open_store(Settings(url=sys.argv[1]))

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
    def test_a_fork_in_the_middle_of_a_transaction_leaves_it_to_the_parent(self, backend):
        envelope = an_envelope()

        def go_on_in_the_child(tx):
            tx.ask("pause", queue="mail").rows()
            assert in_child(lambda: backend.enqueue([envelope])) == 0

        backend._write(go_on_in_the_child)

        assert backend.queues()[1].paused
        assert backend.get(envelope.id).state is State.AVAILABLE


class ForksWhileWaiting:
    """Asked of stores on which a thread waits for a word of the server.  Fixture: ``is_waiting()`` says that one does."""

    @IN_THREADS
    def test_a_waiting_thread_is_left_to_the_parent(self, backend, is_waiting):
        waiting = threading.Thread(target=backend.wait, args=(["default"], 60))
        waiting.start()
        eventually(is_waiting)

        def wait_too():
            backend.enqueue([an_envelope(queue="other")])
            backend.wait(["other"], 60)

        assert in_child(wait_too) == 0
        backend.enqueue([an_envelope()])
        waiting.join(30)
        assert not waiting.is_alive()
