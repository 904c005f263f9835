"""Pausing: a paused queue gives no job to any claim, loses nothing, and stays paused."""

from __future__ import annotations

import pytest

from onward.backend import QueueState
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids, some_envelopes
from onward.testing.contract.capabilities import needs

__all__ = ["PausingContract"]


@needs("inspection")
class PausingContract:
    def test_a_paused_queue_gives_nothing(self, backend, open_client):
        backend.enqueue([an_envelope()])
        backend.pause("default")

        assert backend.claim(a_claim()) == []
        assert open_client().claim(a_claim(owner="other")) == []

    def test_a_paused_queue_keeps_no_other_queue_from_giving(self, backend):
        backend.enqueue([an_envelope(queue="a"), following := an_envelope(queue="b")])
        backend.pause("a")

        assert ids(backend.claim(a_claim(queues=("a", "b"), limit=9))) == [following.id]

    def test_a_queue_that_goes_on_gives_what_it_held_back(self, backend):
        backend.enqueue([envelope := an_envelope()])
        backend.pause("default")
        backend.pause("default", paused=False)

        assert ids(backend.claim(a_claim())) == [envelope.id]

    def test_pausing_cancels_nothing(self, backend):
        backend.enqueue(some_envelopes(2))
        lease = backend.claim(a_claim())[0]
        before = backend.counts()

        backend.pause("default")

        assert backend.counts() == before
        assert backend.ack(lease).applied

    def test_a_paused_queue_still_takes_jobs(self, backend):
        backend.pause("default")

        (answer,) = backend.enqueue([an_envelope()])

        assert answer.created

    @pytest.mark.parametrize(("first", "second"), [(True, True), (False, False)])
    def test_only_a_change_is_answered_as_one(self, backend, first, second):
        backend.pause("default", paused=not first)

        answers = [backend.pause("default", paused=first), backend.pause("default", paused=second)]

        assert answers == [True, False]

    def test_a_queue_that_never_was_paused_is_not_changed_by_going_on(self, backend):
        assert backend.pause("default", paused=False) is False

    def test_paused_queues_are_named_even_if_they_are_empty(self, backend):
        backend.enqueue([an_envelope(queue="b")])
        backend.pause("a")
        backend.pause("b")

        assert list(backend.queues()) == [
            QueueState(name="a", paused=True, live=0),
            QueueState(name="b", paused=True, live=1),
        ]

    @needs("delays")
    def test_what_falls_due_in_a_paused_queue_is_not_lost(self, backend, clock):
        backend.enqueue([envelope := an_envelope(delay=60)])
        backend.pause("default")
        clock.advance(60)
        backend.claim(a_claim())
        backend.pause("default", paused=False)

        assert ids(backend.claim(a_claim())) == [envelope.id]

    def test_a_lease_of_a_paused_queue_is_taken_back_like_any_other(self, backend):
        lease = a_lease(backend, owner="dead")
        backend.pause("default")

        backend.reap(owner="dead", started=())

        assert backend.get(lease.envelope.id).state is State.AVAILABLE
        assert backend.claim(a_claim(owner="other")) == []

    @needs("durable")
    def test_a_pause_survives_a_restart(self, backend, open_client):
        backend.enqueue([an_envelope()])
        backend.pause("default")
        backend.close()

        again = open_client()

        assert again.claim(a_claim()) == []
        assert list(again.queues()) == [QueueState(name="default", paused=True, live=1)]
