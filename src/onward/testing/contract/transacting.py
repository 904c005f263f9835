"""Taking part in transactions: enqueueing in one, and completing a job in the one that its handler works in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from onward.backend import Session, Settled, Settlement
from onward.base.failure import Failure
from onward.contract.transactions import Rows, Statement, Steps, Style
from onward.job.states import State
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids
from onward.testing.contract.capabilities import needs

__all__ = ["CallersConnectionContract", "CompletingContract", "JoiningContract"]

_PLENTY = 30.0  # seconds


@contextmanager
def _transaction(backend: Any) -> Iterator[Any]:
    """Yield a transaction, and roll it back unless the test has committed it."""
    completion = backend.begin(at_most=_PLENTY)
    try:
        yield completion
    finally:
        completion.roll_back()


def _settle_in(backend: Any, completion: Any, settlement: Settlement) -> Settled:
    """Settle as on a connection of a caller, which runs one statement after the other."""
    styles: list[Style] = []

    def see(style: Style) -> Steps[None]:
        styles.append(style)
        yield from ()

    def run(statement: Statement) -> Rows:
        def step(_: Style) -> Steps[Rows]:
            return (yield statement)

        rows: Rows = completion.run(step)
        return rows

    completion.run(see)
    settled: Settled = backend.settle_in(settlement, styles[0], run)
    return settled


def _enqueue(backend: Any, completion: Any, *envelopes: Any) -> Any:
    return completion.run(lambda style: backend.joining(envelopes, style))


@needs("transacts", "inspection")
class JoiningContract:
    @pytest.mark.promise("F90")
    def test_a_job_exists_if_and_only_if_the_transaction_commits(self, backend):
        with _transaction(backend) as undone:
            _enqueue(backend, undone, an_envelope(), an_envelope())
        assert backend.counts()[State.AVAILABLE] == 0

        with _transaction(backend) as kept:
            first, second = _enqueue(backend, kept, one := an_envelope(), other := an_envelope())
            kept.commit()

        assert (first.id, first.created, second.id, second.created) == (one.id, True, other.id, True)
        assert sorted(ids(backend.claim(a_claim(limit=5)))) == sorted([one.id, other.id])

    @pytest.mark.promise("F90")
    def test_nobody_sees_it_before_the_commit(self, backend, open_client):
        with _transaction(backend) as tx:
            (answer,) = _enqueue(backend, tx, an_envelope())

            assert open_client().get(answer.id) is None
            tx.commit()
        assert open_client().get(answer.id).state is State.AVAILABLE

    def test_what_an_envelope_says_is_stored(self, backend, clock):
        now = clock.micros()
        envelopes = [
            an_envelope(queue="mail", priority=7),
            an_envelope(delay=5),
            an_envelope(not_before=now + 9_000_000),
            an_envelope(idempotency_key="paid", idempotency_ttl=1_000_000),
        ]

        with _transaction(backend) as tx:
            _enqueue(backend, tx, *envelopes)
            tx.commit()

        mail, later, much_later, keyed = (backend.get(each.id) for each in envelopes)
        assert (mail.queue, mail.priority, mail.state, mail.data) == ("mail", 7, State.AVAILABLE, envelopes[0].data)
        assert (later.state, later.available_at) == (State.SCHEDULED, now + 5_000_000)
        assert (much_later.state, much_later.available_at) == (State.SCHEDULED, now + 9_000_000)
        (lease,) = backend.claim(a_claim())
        assert (lease.envelope.id, str(lease.hold)) == (keyed.id, "held")

    def test_many_go_in_at_once(self, backend):
        envelopes = [an_envelope(queue=f"queue-{number % 3}") for number in range(300)]

        with _transaction(backend) as tx:
            answers = _enqueue(backend, tx, *envelopes)
            tx.commit()

        assert [answer.id for answer in answers] == [each.id for each in envelopes]
        assert backend.counts()[State.AVAILABLE] == 300

    def test_a_key_that_is_held_names_its_holder(self, backend):
        (holder,) = backend.enqueue([an_envelope(unique_key="k")])

        with _transaction(backend) as tx:
            (mine,) = _enqueue(backend, tx, an_envelope(unique_key="k"))
            first, second = _enqueue(backend, tx, an_envelope(unique_key="new"), an_envelope(unique_key="new"))
            tx.commit()

        assert (mine.created, mine.existing_id) == (False, holder.id)
        assert first.created
        assert (second.created, second.existing_id) == (False, first.id)

    def test_a_holder_is_replaced_if_and_only_if_the_transaction_commits(self, backend):
        (holder,) = backend.enqueue([an_envelope(unique_key="k")])
        rival = an_envelope(unique_key="k", unique_strategy="cancel_existing")

        with _transaction(backend) as undone:
            assert _enqueue(backend, undone, rival)[0].created
        assert backend.get(holder.id).state is State.AVAILABLE

        with _transaction(backend) as kept:
            assert _enqueue(backend, kept, rival)[0].created
            kept.commit()
        replaced = backend.get(holder.id)
        assert (replaced.state, replaced.reason) == (State.CANCELLED, f"replaced by {rival.id}")
        assert backend.get(rival.id).state is State.AVAILABLE

    def test_a_running_holder_is_asked_to_cancel_by_the_commit(self, backend):
        lease = a_lease(backend, unique_key="k")
        rival = an_envelope(unique_key="k", unique_strategy="cancel_existing")

        with _transaction(backend) as tx:
            assert _enqueue(backend, tx, rival)[0].created
            tx.commit()

        assert backend.get(lease.envelope.id).cancel_requested
        assert backend.get(rival.id).state is State.AVAILABLE

    def test_an_id_that_is_live_is_not_stored_twice(self, backend):
        envelope = an_envelope()
        backend.enqueue([envelope])

        with _transaction(backend) as tx:
            again, twice, new = _enqueue(backend, tx, envelope, envelope, an_envelope())
            tx.commit()

        assert (again.created, again.existing_id, twice.created) == (False, envelope.id, False)
        assert new.created
        assert backend.counts()[State.AVAILABLE] == 2


@needs("transacts", "inspection")
class CompletingContract:
    def test_a_success_and_what_was_enqueued_are_committed_together(self, backend):
        lease = a_lease(backend)

        with _transaction(backend) as tx:
            (child,) = _enqueue(backend, tx, an_envelope())
            settled = tx.settle(Settlement.ack(lease, b'"done"'))
            assert backend.get(child.id) is None
            tx.commit()

        job = backend.get(lease.envelope.id)
        assert (settled.applied, settled.state) == (True, State.COMPLETED)
        assert (job.state, job.result, job.attempts) == (State.COMPLETED, b'"done"', 1)
        assert backend.get(child.id).state is State.AVAILABLE

    def test_nothing_happens_if_it_is_rolled_back(self, backend):
        lease = a_lease(backend)

        with _transaction(backend) as tx:
            (child,) = _enqueue(backend, tx, an_envelope())
            assert tx.settle(Settlement.ack(lease)).applied

        assert backend.get(child.id) is None
        assert backend.get(lease.envelope.id).state is State.EXECUTING
        assert backend.ack(lease).applied

    def test_the_worker_s_own_settlement_then_finds_it_applied(self, backend):
        lease = a_lease(backend)
        with _transaction(backend) as tx:
            tx.settle(Settlement.ack(lease, b"1"))
            tx.commit()

        again = backend.ack(lease, b"1")

        assert (again.already_applied, again.state) == (True, State.COMPLETED)
        assert backend.get(lease.envelope.id).attempts == 1

    @pytest.mark.parametrize("keep", [True, False])
    def test_it_is_known_afterwards_whether_it_was_completed(self, backend, keep):
        lease, other = a_lease(backend), a_lease(backend)

        with _transaction(backend) as tx:
            tx.settle(Settlement.ack(lease, keep=keep))
            tx.commit()

        assert backend.completed(lease)
        assert not backend.completed(other)

    def test_a_lease_that_was_lost_settles_nothing(self, backend):
        lease = a_lease(backend)
        backend.reap(owner=lease.owner)

        with _transaction(backend) as tx:
            _enqueue(backend, tx, an_envelope())
            settled = tx.settle(Settlement.ack(lease))

        assert settled.lease_lost
        assert backend.counts()[State.AVAILABLE] == 0
        assert backend.get(lease.envelope.id).state is not State.COMPLETED
        assert not backend.completed(lease)

    def test_a_lease_of_an_older_claim_settles_nothing(self, backend):
        old = a_lease(backend)
        backend.nack(old, 0)
        (new,) = backend.claim(a_claim())

        with _transaction(backend) as tx:
            assert tx.settle(Settlement.ack(old)).lease_lost

        assert backend.ack(new).applied

    def test_an_adoption_in_the_meantime_loses_nothing(self, backend):
        """Adopt the session while the handler works, as the pump may do without the handler noticing."""
        lease = a_lease(backend)
        backend.open_session(Session(owner="successor"), adopts=lease.owner)

        with _transaction(backend) as tx:
            assert tx.settle(Settlement.ack(lease)).applied
            tx.commit()

        assert backend.get(lease.envelope.id).state is State.COMPLETED

    def test_a_success_wins_over_a_request_to_cancel(self, backend):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "no more")

        with _transaction(backend) as tx:
            assert tx.settle(Settlement.ack(lease)).state is State.COMPLETED
            tx.commit()

        assert backend.get(lease.envelope.id).state is State.COMPLETED

    def test_an_idempotency_key_is_confirmed_with_it(self, backend):
        lease = a_lease(backend, idempotency_key="paid", idempotency_ttl=60_000_000)
        (waiter,) = backend.enqueue([an_envelope(idempotency_key="paid", idempotency_ttl=60_000_000)])

        with _transaction(backend) as tx:
            tx.settle(Settlement.ack(lease))
            tx.commit()

        (late,) = backend.claim(a_claim())
        assert (late.envelope.id, str(late.hold)) == (waiter.id, "done")

    def test_an_error_after_the_success_is_put_on_record(self, backend, clock):
        lease = a_lease(backend)
        with _transaction(backend) as tx:
            tx.settle(Settlement.ack(lease))
            tx.commit()
        failure = Failure("RuntimeError", "too late", "Traceback ...")

        assert backend.note_after_completion(lease, failure, duration_ms=3)

        job = backend.get(lease.envelope.id)
        (run,) = job.runs
        assert (job.state, job.attempts) == (State.COMPLETED, 1)
        assert (run.failure, run.to, run.attempt, run.duration_ms) == (failure, State.COMPLETED, 1, 3)
        assert run.owner == lease.owner
        assert backend.ack(lease).already_applied

    def test_nothing_is_put_on_record_of_a_job_that_was_not_completed(self, backend):
        lease = a_lease(backend)

        assert not backend.note_after_completion(lease, Failure("RuntimeError", "no"), duration_ms=0)
        assert backend.get(lease.envelope.id).runs == ()


@needs("transacts", "inspection")
class CallersConnectionContract:
    """Settling and showing jobs by statements that any connection could run."""

    @pytest.mark.promise("A23")
    def test_a_job_is_completed_if_and_only_if_the_transaction_commits(self, backend):
        undone, kept = a_lease(backend), a_lease(backend)
        with _transaction(backend) as tx:
            assert _settle_in(backend, tx, Settlement.ack(undone)).applied
        with _transaction(backend) as tx:
            assert _settle_in(backend, tx, Settlement.ack(kept, b'"paid"', reason="told")).applied
            tx.commit()

        jobs = [backend.get(lease.envelope.id) for lease in (undone, kept)]
        assert [job.state for job in jobs] == [State.EXECUTING, State.COMPLETED]
        assert (jobs[1].result, jobs[1].reason, jobs[1].attempts) == (b'"paid"', "told", 1)
        assert [backend.completed(lease) for lease in (undone, kept)] == [False, True]
        assert backend.ack(undone).applied

    @pytest.mark.promise("A23")
    def test_a_lost_lease_settles_nothing(self, backend):
        old = a_lease(backend)
        backend.nack(old, 0)
        (new,) = backend.claim(a_claim())

        with _transaction(backend) as tx:
            assert _settle_in(backend, tx, Settlement.ack(old)).lease_lost
            tx.commit()

        assert backend.get(new.envelope.id).state is State.EXECUTING
        assert backend.ack(new).applied

    @pytest.mark.promise("A23")
    def test_an_adoption_loses_nothing_on_the_connection_of_a_caller(self, backend):
        lease = a_lease(backend)
        backend.open_session(Session(owner="successor"), adopts=lease.owner)

        with _transaction(backend) as tx:
            assert _settle_in(backend, tx, Settlement.ack(lease)).applied
            tx.commit()

        assert backend.completed(lease)

    def test_keys_are_confirmed_and_set_free_with_it(self, backend):
        keys: dict[str, Any] = {"idempotency_key": "paid", "idempotency_ttl": 60_000_000, "single_instance": "alone"}
        lease = a_lease(backend, **keys)
        (waiter,) = backend.enqueue([an_envelope(**keys)])

        with _transaction(backend) as tx:
            _settle_in(backend, tx, Settlement.ack(lease))
            tx.commit()

        (late,) = backend.claim(a_claim())
        assert (late.envelope.id, str(late.hold)) == (waiter.id, "done")

    def test_a_success_that_leaves_no_record_leaves_a_tombstone(self, backend):
        lease = a_lease(backend)

        with _transaction(backend) as tx:
            _settle_in(backend, tx, Settlement.ack(lease, keep=False))
            tx.commit()

        assert backend.get(lease.envelope.id).tombstone
        assert backend.completed(lease)

    def test_a_job_is_shown_as_the_transaction_sees_it(self, backend, open_client):
        told = a_lease(backend)
        backend.settle([Settlement.abandon(told, "why", failure=Failure("RuntimeError", "no", "Traceback"))])
        with _transaction(backend) as tx:
            (answer,) = _enqueue(backend, tx, an_envelope(priority=3))

            shown = tx.run(lambda style: backend.showing(answer.id, style))
            dead = tx.run(lambda style: backend.showing(told.envelope.id, style))
            assert tx.run(lambda style: backend.showing("no such job", style)) is None
            assert open_client().get(answer.id) is None
            tx.commit()

        assert [shown, dead] == [backend.get(answer.id), backend.get(told.envelope.id)]
        assert (shown.state, shown.priority, len(dead.runs)) == (State.AVAILABLE, 3, 1)
