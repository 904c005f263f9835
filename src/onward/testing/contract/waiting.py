"""Waiting: `wait` returns when there may be work, and never later than asked.  Tests use threads and wide bounds."""

from __future__ import annotations

import threading
import time

from onward.backend import Settlement
from onward.testing.contract.builders import PATIENCE, a_claim, an_envelope, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn

__all__ = ["WaitingContract"]

_LONG = 10 * PATIENCE  # a wait that only ends in time if it is woken


class WaitingContract:
    def _wait_in_thread(self, backend, queues: tuple[str, ...]) -> threading.Thread:
        about_to_wait = threading.Event()

        def wait() -> None:
            about_to_wait.set()
            backend.wait(queues, _LONG)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        assert about_to_wait.wait(PATIENCE)
        return thread

    def test_a_wait_for_nothing_ends_with_its_timeout(self, backend):
        begun = time.monotonic()

        backend.wait(["default"], 0.05)

        assert time.monotonic() - begun < PATIENCE

    def test_a_wait_without_patience_ends_at_once(self, backend):
        begun = time.monotonic()

        backend.wait(["default"], 0)

        assert time.monotonic() - begun < PATIENCE

    def test_a_wait_ends_at_once_when_there_is_work_already(self, backend):
        backend.enqueue([an_envelope()])
        begun = time.monotonic()

        backend.wait(["default"], _LONG)

        assert time.monotonic() - begun < PATIENCE

    @needs("wakes")
    def test_a_wait_ends_when_another_client_enqueues(self, backend, open_client):
        other = open_client()
        waiting = self._wait_in_thread(backend, ("default",))

        other.enqueue([an_envelope()])

        waiting.join(PATIENCE)
        assert not waiting.is_alive()

    @needs("wakes")
    def test_a_wait_for_several_queues_ends_with_work_in_any(self, backend):
        waiting = self._wait_in_thread(backend, ("a", "b", "c"))

        backend.enqueue([an_envelope(queue="c")])

        waiting.join(PATIENCE)
        assert not waiting.is_alive()

    @needs("wakes", "lanes")
    def test_a_slot_of_a_job_that_one_queue_frees_wakes_those_who_wait_in_another(self, backend, open_client):
        declare(backend, a_limit(running=1))
        backend.enqueue(in_lane(1, queue="a"))
        (held,) = claimed(backend, queues=("a",))
        backend.enqueue([an_envelope(queue="a"), *in_lane(1, queue="b")])
        waiting = self._wait_in_thread(open_client(), ("b",))

        assert len(turn(backend, Settlement.ack(held), queues=("a",), limit=10).leases) == 1

        waiting.join(PATIENCE)
        assert not waiting.is_alive()

    @needs("wakes")
    def test_what_woke_the_waiter_can_be_claimed(self, backend, open_client):
        other = open_client()
        waiting = self._wait_in_thread(backend, ("default",))
        other.enqueue([envelope := an_envelope()])
        waiting.join(PATIENCE)

        assert ids(backend.claim(a_claim())) == [envelope.id]
