"""The overview, cheap enough to be asked for every second, and the sessions at work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onward.backend import Look, Overview, QueueCounts, Session, SessionState, Settlement, Snapshot
from onward.job.states import LIVE, State
from onward.testing.contract.builders import a_claim, a_lease, a_session, an_envelope, micros, some_envelopes
from onward.testing.contract.capabilities import needs
from onward.testing.contract.stage import Stage

__all__ = ["OverviewContract", "SessionListContract"]


@needs("inspection")
class OverviewContract:
    @pytest.mark.promise("S126")
    def test_a_look_tells_the_time_of_the_store(self, backend, clock):
        seen = backend.look(Look())

        assert seen == Snapshot(now=clock.micros(), overview=None, place=None)

    def test_an_empty_store_is_seen_as_empty(self, backend):
        assert _overview(backend) == Overview(counts=dict.fromkeys(State, 0), queues=[], ended=_overview(backend).ended)

    def test_every_state_is_seen(self, backend, clock):
        for state in State:
            Stage(backend, clock, queue=f"q-{state}").bring(state)

        seen = _overview(backend)

        assert seen.counts == dict.fromkeys(State, 1)
        assert [(queue.name, queue.paused, queue.counts) for queue in seen.queues] == [
            (f"q-{state}", False, dict.fromkeys(LIVE, 0) | {state: 1}) for state in sorted(LIVE)
        ]

    def test_a_queue_is_seen_with_all_that_lives_in_it(self, backend):
        backend.enqueue([*some_envelopes(4, queue="mail"), *some_envelopes(2, queue="mail", delay=60)])
        backend.nack(backend.claim(a_claim(queues=("mail",)))[0], 60)
        backend.claim(a_claim(queues=("mail",)))
        backend.enqueue([an_envelope(queue="news")])

        mail, news = _overview(backend).queues

        expected = {State.AVAILABLE: 2, State.SCHEDULED: 2, State.RETRYABLE: 1, State.EXECUTING: 1}
        assert (mail.name, mail.counts) == ("mail", expected)
        assert (news.name, news.counts[State.AVAILABLE]) == ("news", 1)

    def test_a_paused_queue_is_seen_even_if_it_is_empty(self, backend, clock):
        backend.pause("mail")
        paused_at = clock.micros()
        clock.advance(5)
        backend.pause("mail")

        (queue,) = _overview(backend).queues

        assert queue == QueueCounts(name="mail", paused=True, counts=dict.fromkeys(LIVE, 0), paused_at=paused_at)

    def test_a_queue_that_was_resumed_is_not_paused(self, backend):
        backend.enqueue([an_envelope(queue="mail")])
        backend.pause("mail")
        backend.pause("mail", paused=False)

        (queue,) = _overview(backend).queues

        assert (queue.paused, queue.paused_at) == (False, None)

    def test_a_queue_tells_since_when_its_oldest_job_is_due(self, backend, clock):
        first = clock.micros()
        backend.enqueue([an_envelope(queue="mail", priority=-5)])
        clock.advance(10)
        backend.enqueue([an_envelope(queue="mail", priority=5), an_envelope(queue="mail", delay=60)])
        backend.enqueue([an_envelope(queue="news", delay=60), an_envelope(queue="more")])

        seen = {queue.name: queue.oldest_due for queue in _overview(backend).queues}

        assert seen == {"mail": first, "more": clock.micros(), "news": None}

    def test_a_job_that_is_due_and_was_not_made_available_is_the_oldest(self, backend, clock):
        backend.enqueue([an_envelope(queue="mail", delay=60)])
        due = clock.micros() + micros(60)
        clock.advance(61)
        backend.enqueue([an_envelope(queue="mail")])

        (queue,) = _overview(backend).queues

        assert queue.oldest_due == due

    def test_no_state_is_counted_beyond_the_limit(self, backend):
        backend.enqueue([*some_envelopes(5, queue="mail"), *some_envelopes(5, queue="mail", delay=60)])
        backend.enqueue(some_envelopes(10, queue="done"))
        for settle in (Settlement.ack, lambda lease: Settlement.abandon(lease, "no")):
            backend.settle([settle(lease) for lease in backend.claim(a_claim(queues=("done",), limit=5))])

        seen = _overview(backend, at_most=3)

        capped = {State.AVAILABLE: 3, State.SCHEDULED: 3, State.RETRYABLE: 0, State.EXECUTING: 0}
        assert seen.counts == capped | {State.COMPLETED: 3, State.DISCARDED: 3, State.CANCELLED: 0}
        assert [(queue.name, queue.counts) for queue in seen.queues] == [("mail", capped)]

    def test_a_number_below_the_limit_is_exact(self, backend):
        backend.enqueue(some_envelopes(5, queue="mail"))

        assert _overview(backend, at_most=6).counts[State.AVAILABLE] == 5

    def test_of_very_many_queues_the_first_hundred_are_seen(self, backend):
        backend.enqueue([an_envelope(queue=f"q-{number:03}", delay=number % 2) for number in range(120)])

        seen = _overview(backend)

        assert [queue.name for queue in seen.queues] == [f"q-{number:03}" for number in range(100)]
        assert (seen.counts[State.AVAILABLE], seen.counts[State.SCHEDULED]) == (60, 60)

    @pytest.mark.parametrize(
        "end",
        [
            Settlement.ack,
            lambda lease: Settlement.ack(lease, keep=False),
            lambda lease: Settlement.abandon(lease, "no"),
            lambda lease: Settlement.cancelled(lease, "stopped"),
        ],
        ids=["completed", "leaves a tombstone", "discarded", "cancelled"],
    )
    def test_every_job_that_ends_is_counted_once(self, backend, end):
        backend.enqueue(some_envelopes(3))
        before = _overview(backend).ended

        backend.settle([end(lease) for lease in backend.claim(a_claim(limit=2))])

        assert _overview(backend).ended - before == 2

    def test_a_job_that_goes_on_is_not_counted_as_ended(self, backend):
        backend.ack(a_lease(backend))
        before = _overview(backend).ended

        backend.nack(a_lease(backend))

        assert _overview(backend).ended == before

    def test_what_is_removed_later_has_ended_all_the_same(self, backend, clock):
        backend.ack(a_lease(backend))
        clock.advance(60)
        backend.ack(a_lease(backend))
        before = _overview(backend).ended

        backend.prune({State.COMPLETED: clock.micros()})

        assert _overview(backend).ended == before


def _overview(backend: Any, at_most: int = 10_000) -> Overview:
    overview: Overview | None = backend.look(Look(counts=True, at_most=at_most)).overview
    assert overview is not None
    return overview


@needs("inspection")
class SessionListContract:
    def test_a_session_is_listed_as_it_was_opened(self, backend, clock):
        backend.open_session(
            Session(owner="a", lease_for=timedelta(seconds=20), host="somewhere", pid=42, version="1.2.3")
        )

        assert list(backend.sessions()) == [
            SessionState(
                owner="a",
                lease_for=timedelta(seconds=20),
                host="somewhere",
                pid=42,
                version="1.2.3",
                expires_at=clock.micros() + micros(20),
                leases=0,
            )
        ]

    def test_a_session_has_its_description_as_it_was_given(self, backend):
        description = bytes(range(256)) * 64
        backend.open_session(Session(owner="a", description=description))
        backend.open_session(Session(owner="b"))
        backend.extend("a")

        assert [each.description for each in backend.sessions()] == [description, b""]

    def test_the_description_is_the_one_of_the_last_opening(self, backend):
        backend.open_session(Session(owner="a", description=b"old"))
        backend.open_session(Session(owner="a", description=b"new"))

        assert [each.description for each in backend.sessions()] == [b"new"]

    def test_a_successor_brings_its_own_description(self, backend):
        backend.open_session(Session(owner="old", description=b"old"))
        backend.open_session(Session(owner="new", description=b"new"), adopts="old")

        assert [each.description for each in backend.sessions()] == [b"new"]

    def test_sessions_are_listed_with_what_each_holds(self, backend):
        backend.enqueue(some_envelopes(5))
        backend.claim(a_claim(owner="b", limit=3))
        (lease,) = backend.claim(a_claim(owner="a"))
        backend.open_session(a_session("c"))

        backend.ack(backend.claim(a_claim(owner="a"))[0])

        assert [(each.owner, each.leases) for each in backend.sessions()] == [("a", 1), ("b", 3), ("c", 0)]
        assert backend.ack(lease).applied

    def test_a_renewal_moves_the_expiry(self, backend, clock):
        backend.open_session(a_session("a", lease_for=30))
        clock.advance(10)

        backend.extend("a")

        assert [each.expires_at for each in backend.sessions()] == [clock.micros() + micros(30)]

    def test_an_expired_session_is_listed_until_it_is_reaped(self, backend, clock):
        backend.open_session(a_session("a", lease_for=30))
        clock.advance(31)

        expired = list(backend.sessions())
        backend.reap()

        assert [each.owner for each in expired] == ["a"]
        assert list(backend.sessions()) == []

    def test_an_heir_is_listed_with_what_it_adopted(self, backend):
        a_lease(backend, owner="old")

        backend.open_session(a_session("new"), adopts="old")

        assert [(each.owner, each.leases) for each in backend.sessions()] == [("new", 1)]
