"""A fork shares no connection: two processes that talk over one socket mix their sentences."""

import os
import threading

import pytest

from onward.backends import pool as module
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

    assert in_child(lambda: backend.enqueue([childs])) == 0

    backend.enqueue([parents])
    assert backend.ack(lease).applied
    assert ids(backend.claim(a_claim(limit=10))) == sorted(ids([childs, parents]))


@pytest.mark.promise("F31")
def test_the_parent_keeps_its_connection_whatever_the_child_does_to_its_copy(backend, raw):
    backend.enqueue([an_envelope()])
    before = [client["id"] for client in raw.client_list() if client["name"] == "onward"]

    assert in_child(backend.close) == 0

    backend.enqueue([an_envelope()])
    assert [client["id"] for client in raw.client_list() if client["name"] == "onward"] == before


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


@pytest.mark.promise("F53")
def test_a_fork_that_python_did_not_see_is_noticed_before_anything_is_said(backend, monkeypatch):
    backend.enqueue([an_envelope()])
    (inherited,) = backend._connections._open.values()

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "getpid", lambda: 0)
        assert backend.enqueue([an_envelope()])[0].created

    assert inherited not in backend._connections._open.values()


def test_a_waiting_thread_is_left_to_the_parent(backend, raw):
    waiting = threading.Thread(target=backend.wait, args=(["default"], 60))
    waiting.start()
    while not any(client["cmd"] == "blpop" for client in raw.client_list()):
        pass

    def wait_too():
        backend.enqueue([an_envelope(queue="other")])
        backend.wait(["other"], 60)

    assert in_child(wait_too) == 0
    backend.enqueue([an_envelope()])
    waiting.join(30)
    assert not waiting.is_alive()
