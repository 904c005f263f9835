"""What the two do together that neither does alone: disagree, miss each other, and find together again."""

from contextlib import closing

import pytest

from onward.backend import Enqueued, Query, Settlement
from onward.backends.beanstalk import BeanstalkBackend
from onward.base.clock import SECOND
from onward.errors import BackendUnavailable, PayloadTooLarge, Unsupported
from onward.job.states import State
from onward.testing.contract.booking import an_occurrence
from onward.testing.contract.builders import a_claim, a_lease, a_session, an_envelope, ids, some_envelopes
from onward.testing.contract.schedules import a_change, a_schedule

TTR = 120


def messages(backend):
    return sum(backend.broker.counts().values())


def cut(monkeypatch, one, *verbs):
    """Nothing gets through to one of the two.  Gives what mends it."""

    def away(*args, **kwargs):
        raise BackendUnavailable("it is away")

    for verb in verbs:
        monkeypatch.setattr(one, verb, away)
    return monkeypatch.undo


# Messages that the store did not expect


def test_a_job_of_a_program_without_the_store_is_learned_of_and_run(backend, timed_server, clock):
    envelope = an_envelope(idempotency_key="once", payload={"a": 1})
    with closing(BeanstalkBackend.from_url(timed_server.url(), clock=clock)) as alone:
        alone.enqueue([envelope])

    (lease,) = backend.claim(a_claim())

    stored = backend.get(envelope.id)
    assert (lease.envelope.data, lease.hold, stored.state) == (envelope.data, "held", State.EXECUTING)
    assert backend.ack(lease, b"1").applied
    assert (backend.get(envelope.id).result, messages(backend)) == (b"1", 0)


def test_unreadable_bytes_are_learned_of_too(backend, timed_server, clock):
    envelope = an_envelope()
    broken = type(envelope)(envelope.id, envelope.queue, b"\xff\x00 nonsense", job="x", enqueued_at=0, max_crashes=3)
    with closing(BeanstalkBackend.from_url(timed_server.url(), clock=clock)) as alone:
        alone.enqueue([broken])

    (lease,) = backend.claim(a_claim())
    backend.settle([Settlement.abandon(lease, "not a job", ran=False)])

    assert (backend.get(envelope.id).data, backend.get(envelope.id).reason) == (broken.data, "not a job")


@pytest.mark.promise("F38")
def test_a_second_message_about_a_job_is_not_a_second_run(backend, open_pair, clock):
    lease = a_lease(backend)
    backend._putter.put_waiting([lease.envelope.id])  # nothing: it does not wait
    backend.broker.enqueue([an_envelope(id=lease.envelope.id)])
    other = open_pair()

    assert other.claim(a_claim(owner="other")) == []
    assert backend.ack(lease).applied
    clock.advance(60)
    assert other.claim(a_claim(owner="other")) == []
    assert messages(backend) == 0


@pytest.mark.promise("F21", "F38")
def test_a_job_whose_message_the_broker_took_back_stays_its_workers(backend, open_pair, clock):
    """Its process held the interpreter for minutes, and only a supervisor could renew its session."""
    lease, other = a_lease(backend), open_pair()
    for _ in range(10):
        clock.advance(20)
        assert other.extend("worker").alive
    assert other.claim(a_claim(owner="other")) == []

    assert backend.ack(lease).applied
    clock.advance(60)
    assert other.claim(a_claim(owner="other")) == []
    assert messages(backend) == 0


def test_a_message_that_comes_early_waits(backend, open_pair, clock):
    lease = a_lease(backend)
    backend.store.settle([Settlement.nack(lease, 90)])  # and its process died before the broker was told
    backend.broker._sessions["worker"].connection.close()
    other = open_pair()

    assert other.claim(a_claim(owner="other")) == []
    assert backend.broker.counts()[State.SCHEDULED] == 1
    clock.advance(90)
    (again,) = other.claim(a_claim(owner="other"))
    assert (again.envelope.id, again.attempts) == (lease.envelope.id, 1)


def test_what_is_due_in_a_week_is_looked_at_every_day(backend, clock):
    envelope = an_envelope(delay=7 * 86_400)
    backend.enqueue([envelope])
    for _ in range(6):
        clock.advance(86_400)
        assert backend.claim(a_claim()) == []

    clock.advance(86_400)
    assert ids(backend.claim(a_claim())) == [envelope.id]


# Jobs that the broker lost


def test_a_broker_that_lost_everything_is_filled_from_the_store(backend, timed_server, clock, report):
    envelopes = some_envelopes(120)
    backend.enqueue(envelopes)
    timed_server.empty()
    assert backend.claim(a_claim()) == []

    clock.advance(6)
    backend.reap()

    leases = backend.claim(a_claim(limit=200))
    assert sorted(ids(leases)) == sorted(ids(envelopes))
    report("companion: 120 of 120 messages that the broker lost were put again")


def test_jobs_that_wait_for_a_message_get_it_when_the_broker_is_back(backend, timed_server, clock, monkeypatch):
    backend.enqueue([an_envelope()])
    timed_server.empty()
    clock.advance(6)
    mend = cut(monkeypatch, backend.broker, "enqueue")
    backend.reap()
    mend()

    clock.advance(30)
    backend.reap()

    assert len(backend.claim(a_claim())) == 1


def test_a_job_without_a_message_gets_one_though_others_have_theirs(backend, timed_server, clock):
    lost, there = some_envelopes(2)
    backend.enqueue([lost])
    timed_server.empty()
    backend.enqueue([there])
    clock.advance(61)

    backend.reap()

    assert sorted(ids(backend.claim(a_claim(limit=9)))) == sorted([lost.id, there.id])


def test_a_job_that_has_its_message_gets_no_other(backend, clock):
    backend.enqueue(some_envelopes(3))
    clock.advance(3600)

    backend.reap()

    assert messages(backend) == 3


@pytest.fixture
def picky(backend, monkeypatch):
    """A broker that takes a message of the same name for a repetition, as one that detects duplicates does."""
    seen, enqueue = set(), backend.broker.enqueue

    def once(envelopes, **options):
        new = [each for each in envelopes if each.id not in seen]
        seen.update(each.id for each in new)
        enqueue(new, **options)
        return [Enqueued(each.id) for each in envelopes]

    monkeypatch.setattr(backend.broker, "enqueue", once)
    return backend


def test_another_message_about_a_job_is_no_repetition_to_the_broker(picky, clock):
    lease = a_lease(picky)
    picky.reap(owner="worker")  # it crashed
    (again,) = picky.claim(a_claim())
    picky.abandon(again, "gave up")
    picky.replay(Query(ids=(lease.envelope.id,)))
    (once_more,) = picky.claim(a_claim())
    picky.nack(once_more, 3600)
    assert picky.retry([lease.envelope.id]) == [True]

    (last,) = picky.claim(a_claim())

    assert picky.ack(last).applied
    clock.advance(3600)
    assert picky.claim(a_claim()) == []
    assert messages(picky) == 0


# Schedules


def booked(backend, *envelopes, version=0, **parts):
    return backend.change_schedule(a_change(version, a_schedule(), envelopes=envelopes, **parts))


def test_a_booked_job_gets_a_message_for_its_tick(backend, clock):
    assert booked(backend, tick := an_occurrence(not_before=clock.micros() + 60 * SECOND))
    assert (messages(backend), backend.claim(a_claim())) == (1, [])

    clock.advance(60)

    assert ids(backend.claim(a_claim())) == [tick.id]


def test_a_change_of_another_version_puts_no_message(backend):
    assert booked(backend)

    assert not booked(backend, an_occurrence())

    assert messages(backend) == 0


@pytest.mark.promise("F25")
def test_what_was_booked_while_the_broker_was_away_gets_its_message_from_the_sweep(backend, monkeypatch, clock):
    mend = cut(monkeypatch, backend.broker, "enqueue")
    assert booked(backend, tick := an_occurrence())
    mend()
    clock.advance(6)

    backend.reap()

    assert ids(backend.claim(a_claim())) == [tick.id]


def test_the_message_about_a_job_that_was_taken_back_is_removed_when_it_comes(backend, clock):
    assert booked(backend, tick := an_occurrence(delay=60))
    assert list(backend.take_back([tick.id])) == [tick.id]
    assert messages(backend) == 1
    clock.advance(60)

    assert backend.claim(a_claim()) == []

    assert (messages(backend), backend.get(tick.id)) == (0, None)


def test_a_tick_that_is_taken_back_and_booked_anew_runs_once(backend, clock):
    tick = an_occurrence(delay=60)
    again = an_occurrence(id=tick.id, delay=60, payload={"changed": True})
    booked(backend, tick)
    assert booked(backend, again, version=1, take_back=[tick.id])
    clock.advance(60)

    (lease,) = backend.claim(a_claim(limit=9))

    assert lease.envelope.data == again.data
    assert backend.ack(lease).applied
    clock.advance(3600)
    assert backend.claim(a_claim(limit=9)) == []
    assert messages(backend) == 0


def test_a_store_that_keeps_no_schedules_is_told_of_where_one_is_asked_for(backend, monkeypatch):
    monkeypatch.setattr(backend, "store", object())

    with pytest.raises(Unsupported, match="keeps no schedules"):
        backend.schedules()


# When one of the two is away


@pytest.mark.promise("F25")
def test_without_the_store_nothing_is_stored_and_nothing_lost(backend, monkeypatch):
    mend = cut(monkeypatch, backend.store, "enqueue")

    with pytest.raises(BackendUnavailable):
        backend.enqueue([an_envelope()])

    assert messages(backend) == 0
    mend()
    backend.enqueue([an_envelope()])
    assert messages(backend) == 1


@pytest.mark.promise("F25")
def test_a_settlement_waits_for_the_store_and_is_then_applied(backend, monkeypatch):
    lease = a_lease(backend)
    mend = cut(monkeypatch, backend.store, "turn")
    with pytest.raises(BackendUnavailable):
        backend.ack(lease)
    assert messages(backend) == 1

    mend()

    assert backend.ack(lease).applied
    assert messages(backend) == 0


@pytest.mark.promise("F25")
def test_a_claim_that_the_store_does_not_answer_gives_the_message_back(backend, open_pair, monkeypatch):
    backend.enqueue([an_envelope()])
    mend = cut(monkeypatch, backend.store, "take")
    with pytest.raises(BackendUnavailable):
        backend.claim(a_claim())

    mend()

    assert len(open_pair().claim(a_claim(owner="other"))) == 1


@pytest.mark.promise("F25")
def test_a_message_that_could_not_be_given_back_is_when_its_session_has_a_successor(backend, open_pair, monkeypatch):
    backend.enqueue([an_envelope()])
    mend = cut(monkeypatch, backend.store, "take")
    turn, turns = backend.broker.turn, []

    def first_only(asked):
        turns.append(asked)
        if len(turns) > 1:
            raise BackendUnavailable("it is away")
        return turn(asked)

    monkeypatch.setattr(backend.broker, "turn", first_only)
    with pytest.raises(BackendUnavailable):
        backend.claim(a_claim(owner="old"))
    mend()
    assert backend.broker.counts()[State.EXECUTING] == 1

    backend.open_session(a_session("new"), adopts="old")

    assert len(open_pair().claim(a_claim(owner="other"))) == 1


@pytest.mark.promise("F25")
def test_what_was_settled_while_the_broker_was_away_stays_settled(backend, open_pair, monkeypatch):
    lease = a_lease(backend)
    mend = cut(monkeypatch, backend.broker, "turn", "enqueue")
    assert backend.ack(lease, b'"done"').applied
    mend()
    backend.broker._sessions["worker"].connection.close()

    assert open_pair().claim(a_claim(owner="other")) == []
    assert (backend.get(lease.envelope.id).state, messages(backend)) == (State.COMPLETED, 0)


@pytest.mark.promise("F25")
def test_an_enqueue_that_the_broker_did_not_take_is_repeated_and_runs_once(backend, monkeypatch):
    envelope = an_envelope()
    mend = cut(monkeypatch, backend.broker, "enqueue")
    with pytest.raises(BackendUnavailable):
        backend.enqueue([envelope])
    mend()

    for _ in range(2):
        backend.enqueue([envelope], retried=True)

    (lease,) = backend.claim(a_claim())
    backend.ack(lease)
    assert backend.claim(a_claim()) == []
    assert messages(backend) == 0


def test_a_job_that_is_too_large_for_the_broker_leaves_no_trace(backend):
    large = an_envelope(payload="x" * 70_000)

    with pytest.raises(PayloadTooLarge):
        backend.enqueue([an_envelope(), large])

    assert (sum(backend.counts().values()), messages(backend)) == (0, 0)


def test_a_dead_letter_that_the_broker_cannot_carry_stays_in_the_store(backend):
    letter = an_envelope(queue="dead", payload="x" * 70_000)
    lease = a_lease(backend)

    (answer,) = backend.settle([Settlement.abandon(lease, "gave up", dead_letter=letter)])

    assert answer.applied
    kept = backend.get(letter.id)
    assert (kept.state, kept.data) == (State.CANCELLED, letter.data)
    assert "the broker refuses the job" in kept.reason


# Steering


def test_a_cancelled_job_leaves_the_broker_when_its_message_comes(backend, clock):
    envelope = an_envelope(delay=60)
    backend.enqueue([envelope])
    assert backend.cancel([envelope.id], "not wanted") == [State.CANCELLED]
    assert messages(backend) == 1

    clock.advance(60)

    assert backend.claim(a_claim()) == []
    assert messages(backend) == 0


def test_a_paused_queue_keeps_its_messages(backend):
    backend.enqueue([an_envelope()])
    backend.pause("default")

    assert backend.claim(a_claim()) == []
    assert backend.broker.counts()[State.AVAILABLE] == 1
    backend.pause("default", paused=False)
    assert len(backend.claim(a_claim())) == 1


def test_a_replayed_job_comes_at_once(backend):
    lease = a_lease(backend)
    backend.abandon(lease, "gave up")
    assert messages(backend) == 0

    assert backend.replay(Query(ids=(lease.envelope.id,))).ids == [lease.envelope.id]

    (again,) = backend.claim(a_claim())
    assert (again.envelope.id, again.token) == (lease.envelope.id, lease.token + 1)


def test_health_speaks_of_both_and_of_what_lies_between(backend, timed_server):
    backend.enqueue(some_envelopes(2))
    timed_server.empty()

    checks = {check.name: check for check in backend.health()}

    assert checks["broker: server"].status == "ok"
    assert any(name.startswith("store: ") for name in checks)
    assert (checks["messages"].status, "2 of default" in checks["messages"].detail) == ("warn", True)
