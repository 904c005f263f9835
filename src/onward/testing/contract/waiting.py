"""Waiting: `wait` returns when there may be work, and never later than asked.  Tests use threads and wide bounds."""

from __future__ import annotations

import threading
import time

import pytest

from onward.backend import Claim, Settlement, Turn
from onward.testing.contract.builders import PATIENCE, a_claim, an_envelope, ids
from onward.testing.contract.capabilities import needs
from onward.testing.contract.flow_stage import FlowStage, Part, ack
from onward.testing.contract.lanes import a_limit, claimed, declare, in_lane, turn

__all__ = ["WaitingContract"]

_LONG = 10 * PATIENCE  # a wait that only ends in time if it is woken


def _by_a_settlement(stage: FlowStage) -> None:
    stage.end("a", ack)


def _by_a_turn_that_claims(stage: FlowStage) -> None:
    """What opens in a turn is not claimed by it: it looks last."""
    (lease,) = stage.claim("a")
    claim = Claim(queues=("a",), limit=1)
    stage.backend.turn(Turn(owner=lease.owner, settlements=[ack(lease)], claim=claim))


def _by_a_person(stage: FlowStage) -> None:
    stage.backend.cancel(ids(stage.envelopes["a"]), "not wanted")


def _by_closing(stage: FlowStage) -> None:
    stage.end("a", ack)
    stage.backend.close_flow(stage.id)


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

    @needs("wakes", "flows")
    @pytest.mark.promise("W72")
    @pytest.mark.parametrize("end", [_by_a_settlement, _by_a_turn_that_claims, _by_a_person, _by_closing])
    def test_a_node_that_opens_wakes_those_who_wait_in_its_queue(self, backend, open_client, clock, end):
        other = open_client()
        stage = FlowStage(other, clock, closed=False, a=Part(), b=Part(after="a", when="finished"))
        if end is not _by_closing:
            other.close_flow(stage.id)
        waiting = self._wait_in_thread(backend, ("b",))

        end(stage)

        waiting.join(PATIENCE)
        assert not waiting.is_alive()
        assert len(stage.claim("b")) == 1

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
