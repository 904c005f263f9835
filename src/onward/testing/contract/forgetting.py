"""Forgetting: a key that a success confirmed is freed when asked for; one that a lease holds is left alone."""

from __future__ import annotations

from functools import partial

import pytest

from onward.backend import Hold, Settlement
from onward.testing.contract.builders import SETTLEMENTS, a_claim, a_lease, an_envelope, at_once
from onward.testing.contract.capabilities import needs
from onward.testing.contract.holds import ONCE, SINGLE

__all__ = ["ForgettingContract"]

KEY = an_envelope(job="send", **ONCE).idempotency_key or ""


@needs("holds", "inspection")
@pytest.mark.promise("S33")
class ForgettingContract:
    FORGOTTEN = 20

    def test_a_done_key_that_is_forgotten_is_free_for_the_next_job(self, backend):
        first = a_lease(backend, job="send", **ONCE)
        backend.ack(first)

        assert backend.forget_key(KEY) == (Hold.DONE, first.envelope.id)
        assert a_lease(backend, job="send", **ONCE).hold is Hold.HELD

    def test_a_key_that_was_forgotten_can_be_done_and_forgotten_again(self, backend):
        answers = []
        for _ in range(2):
            lease = a_lease(backend, job="send", **ONCE)
            backend.ack(lease)
            answers.append(backend.forget_key(KEY) == (Hold.DONE, lease.envelope.id))

        assert answers == [True, True]
        assert backend.forget_key(KEY) == (Hold.FREE, None)

    def test_it_is_forgotten_for_other_clients_too(self, backend, open_client):
        backend.ack(a_lease(backend, job="send", **ONCE))

        assert open_client().forget_key(KEY)[0] is Hold.DONE
        assert a_lease(backend, job="send", **ONCE).hold is Hold.HELD

    def test_there_is_nothing_to_forget_of_a_key_that_was_never_done(self, backend):
        assert backend.forget_key(KEY) == (Hold.FREE, None)

    def test_a_key_that_a_running_job_holds_is_left_to_it(self, backend):
        running = a_lease(backend, job="send", **ONCE)

        assert backend.forget_key(KEY) == (Hold.BUSY, running.envelope.id)
        assert a_lease(backend, queue="other", job="send", **ONCE).hold is Hold.BUSY

    def test_the_success_of_a_job_whose_key_was_asked_for_meanwhile_counts(self, backend):
        running = a_lease(backend, job="send", **ONCE)
        backend.forget_key(KEY)
        backend.ack(running)

        assert a_lease(backend, job="send", **ONCE).hold is Hold.DONE

    @pytest.mark.parametrize("name", [name for name in SETTLEMENTS if name != "ack"])
    def test_a_key_whose_lease_ended_without_success_is_free_already(self, backend, name):
        backend.settle([SETTLEMENTS[name](a_lease(backend, job="send", **ONCE))])

        assert backend.forget_key(KEY) == (Hold.FREE, None)

    def test_a_key_whose_session_was_reaped_is_free_already(self, backend):
        a_lease(backend, owner="dead", job="send", **ONCE)
        backend.reap(owner="dead")

        assert backend.forget_key(KEY) == (Hold.FREE, None)

    def test_a_key_whose_time_is_over_is_free_already(self, backend, clock):
        backend.ack(a_lease(backend, job="send", idempotency_ttl=60, **ONCE))
        clock.advance(60)

        assert backend.forget_key(KEY) == (Hold.FREE, None)

    def test_other_keys_stay_done(self, backend):
        backend.ack(a_lease(backend, job="send", **ONCE))
        backend.ack(a_lease(backend, job="receive", **ONCE))
        backend.ack(a_lease(backend, job="send", idempotency_key="other"))

        backend.forget_key(KEY)

        assert a_lease(backend, job="receive", **ONCE).hold is Hold.DONE
        assert a_lease(backend, job="send", idempotency_key="other").hold is Hold.DONE

    def test_a_single_instance_of_the_same_text_is_no_such_key(self, backend):
        a_lease(backend, job=KEY, **SINGLE)

        assert backend.forget_key(KEY) == (Hold.FREE, None)
        assert a_lease(backend, job=KEY, **SINGLE).hold is Hold.BUSY

    def test_a_waiter_that_a_success_woke_runs_if_the_key_was_forgotten_since(self, backend):
        running = a_lease(backend, job="send", **ONCE)
        waiting = a_lease(backend, job="send", **ONCE)
        backend.settle([Settlement.snooze(waiting, 60, waits=1)])
        backend.ack(running)

        backend.forget_key(KEY)

        (lease,) = backend.claim(a_claim())
        assert (lease.envelope.id, lease.hold) == (waiting.envelope.id, Hold.HELD)

    def test_of_many_who_forget_a_key_at_once_one_has_freed_it(self, backend, open_client):
        clients = [backend, open_client()]
        backend.ack(a_lease(backend, job="send", **ONCE))

        answers = at_once(4, lambda number: clients[number % 2].forget_key(KEY)[0])

        assert sorted(answers) == [Hold.DONE, Hold.FREE, Hold.FREE, Hold.FREE]

    def test_who_forgets_a_key_while_its_jobs_run_frees_each_success_once(self, backend, open_client):
        other = open_client()
        for number in range(self.FORGOTTEN):
            lease = a_lease(backend, job="send", **ONCE)
            assert lease.hold is Hold.HELD, number

            acts = [partial(backend.ack, lease), partial(other.forget_key, KEY)]
            settled, first = at_once(2, lambda side, acts=acts: acts[side]())  # type: ignore[misc]

            assert settled.applied
            if first != (Hold.DONE, lease.envelope.id):
                assert first == (Hold.BUSY, lease.envelope.id)
                assert other.forget_key(KEY) == (Hold.DONE, lease.envelope.id)
