"""What no script wrote: it is set aside with its bytes, a reason and a critical line, and stops nothing beside it."""

import logging
import random

import pytest

from onward.backend import Look, Query, Sample, Settlement
from onward.backends import damage
from onward.contract.samples import MINUTE
from onward.errors import BackendError, BackendRefused
from onward.flow.lanes import lane_of
from onward.job.states import State
from onward.testing.contract.builders import (
    SETTLEMENTS,
    a_claim,
    a_failure,
    a_lease,
    a_session,
    a_turn,
    an_envelope,
    some_envelopes,
)
from onward.testing.contract.lanes import a_limit, declare, in_lane

P = "{onward}:"
NO_TEXT = b"\xff\xfe\xfd"
RANDOM_STORIES = 30


@pytest.fixture
def critical(caplog):
    """The critical lines that were written so far."""
    caplog.set_level(logging.CRITICAL, logger="onward.backend")
    return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]


def claimed(backend, **options):
    return [lease.envelope.id for lease in backend.claim(a_claim(limit=100, **options))]


def enqueued(backend, count=3, **options):
    envelopes = some_envelopes(count, **options)
    backend.enqueue(envelopes)
    return [envelope.id for envelope in envelopes]


def test_a_lease_that_cannot_be_read_is_set_aside_and_those_beside_it_are_delivered(backend, raw, critical):
    first, bad, last = enqueued(backend)
    record = raw.hget(f"{P}jobs", bad)
    spoilt = record.replace(b"\xa7default", b"\xa7defa\xff\xfe\xfd")
    assert spoilt != record
    raw.hset(f"{P}jobs", bad, spoilt)

    assert claimed(backend) == [first, last]

    job = backend.get(bad)
    assert job.state is State.DISCARDED
    assert "cannot be read" in job.reason
    assert bad in critical()[0]
    assert [each.id for each in backend.list(Query(states=frozenset({State.DISCARDED})))] == [bad]
    kept = raw.hget(f"{P}damaged", bad)
    assert b"defa\xff\xfe\xfd" in kept
    assert job.data == kept


@pytest.mark.parametrize(
    ("right", "wrong"), [(b"render/\x2a", b"renderX\x2a"), (b"render/\x2a", b"render/\x00")], ids=["lane", "cost"]
)
def test_the_dead_letter_of_a_damaged_lane_is_whole(backend, raw, right, wrong, monkeypatch):
    """It has no lane that scripts cannot read, or every search would find it again."""
    monkeypatch.setattr(damage, "_LOOK_AGAIN_AFTER", 0)
    (bad,) = in_lane(1, cost=42)
    backend.enqueue([bad])
    record = raw.hget(f"{P}jobs", bad.id)
    assert right in record
    raw.hset(f"{P}jobs", bad.id, record.replace(right, wrong))

    assert claimed(backend) == []

    assert backend.get(bad.id).state is State.DISCARDED
    assert backend.set_aside() == 0


def test_an_id_without_a_record_becomes_a_dead_letter_that_says_so(backend, raw, critical):
    first, lost, last = enqueued(backend)
    raw.hdel(f"{P}jobs", lost)

    assert claimed(backend) == [first, last]

    job = backend.get(lost)
    assert (job.state, job.queue) == (State.DISCARDED, "default")
    assert "ready:default names it, and there is no record of it" in job.reason
    assert len(critical()) == 1
    assert not any(member.endswith(lost.encode()) for member in raw.zrange(f"{P}ready:default", 0, -1))
    assert claimed(backend) == []


@pytest.mark.parametrize("index", ["later", "expiring"])
def test_an_id_without_a_record_does_not_keep_others_from_falling_due(backend, clock, raw, index):
    raw.zadd(f"{P}{index}:default", {f"lost-{n}": 0 for n in range(200)})
    due = enqueued(backend, delay=5)
    clock.advance(10)

    claimed(backend)  # which finds what is damaged
    claimed(backend)

    assert [backend.get(each).state for each in due] == [State.EXECUTING] * 3
    assert {backend.get(f"lost-{n}").state for n in range(200)} == {State.DISCARDED}


def test_a_damaged_record_that_is_leased_does_not_keep_others_of_its_session_from_coming_back(backend, clock, raw):
    backend.open_session(a_session(owner="dead"))
    sound, bad = enqueued(backend, 2)
    assert claimed(backend, owner="dead") == [sound, bad]
    raw.hset(f"{P}jobs", bad, raw.hget(f"{P}jobs", bad)[:20])
    clock.advance(3600)

    assert [each.id for each in backend.reap()] == [sound]
    assert backend.get(bad).state is State.DISCARDED


def test_a_damaged_record_does_not_keep_others_from_being_settled_or_adopted(backend, raw):
    backend.open_session(a_session(owner="one"))
    enqueued(backend)
    leases = backend.claim(a_claim(owner="one", limit=3))
    raw.hset(f"{P}jobs", leases[1].envelope.id, NO_TEXT)

    adopted = backend.open_session(a_session(owner="two"), adopts="one")

    assert [lease.envelope.id for lease in adopted] == [leases[0].envelope.id, leases[2].envelope.id]
    raw.hset(f"{P}jobs", adopted[0].envelope.id, NO_TEXT)
    settled = backend.turn(a_turn(*map(Settlement.ack, adopted), owner="two")).settled
    assert [each.state for each in settled] == [None, State.COMPLETED]


def test_what_is_damaged_is_shown_as_that_before_it_is_set_aside(backend, raw):
    sound, bad = enqueued(backend)[:2]
    raw.hset(f"{P}jobs", bad, NO_TEXT)

    shown = {job.id: (str(job.state), job.data) for job in backend.list(Query())}

    assert shown[bad] == ("damaged", NO_TEXT)
    assert shown[sound][0] == "available"
    assert str(backend.get(bad).state) == "damaged"


def test_a_list_of_all_jobs_sets_aside_an_id_without_a_record(backend, raw):
    sound, *_, lost = enqueued(backend)
    raw.hdel(f"{P}jobs", lost)

    shown = {job.id: (str(job.state), job.data) for job in backend.list(Query())}

    assert shown[lost] == ("discarded", b"")
    assert shown[sound][0] == "available"


def test_a_finished_job_that_is_damaged_does_not_stop_a_prune(backend, clock, raw):
    leases = [a_lease(backend) for _ in range(3)]
    backend.settle([Settlement.ack(lease) for lease in leases])
    bad = leases[1].envelope.id
    raw.hset(f"{P}jobs", bad, raw.hget(f"{P}jobs", bad)[:9])
    clock.advance(10)

    pruned = backend.prune({State.COMPLETED: clock.micros()})

    assert pruned.removed == {("default", State.COMPLETED): 2}
    assert [job.id for job in backend.list(Query())] == [bad]


def test_a_run_that_cannot_be_read_is_shown_as_that(backend, raw):
    lease = a_lease(backend)
    backend.settle([Settlement.nack(lease, delay=0, failure=a_failure())])
    raw.hset(f"{P}runs:{lease.envelope.id}", "7", NO_TEXT)

    unreadable, sound = backend.get(lease.envelope.id).runs

    assert unreadable.failure.kind == "UnreadableRun"
    assert sound.token == 1


def test_sessions_and_numbers_with_nonsense_in_them_are_shown(backend, raw, critical):
    enqueued(backend)
    for owner in ("sound", "unreadable", "for ever"):
        backend.open_session(a_session(owner=owner))
    raw.hset(f"{P}sessions", "unreadable", NO_TEXT)
    raw.zadd(f"{P}expiry", {"for ever": float("inf")})
    raw.hset(f"{P}counts:default", "3", "many")
    raw.hset(f"{P}counts", NO_TEXT, NO_TEXT)
    raw.sadd(f"{P}paused", NO_TEXT)
    raw.zadd(f"{P}queues", {NO_TEXT: 0})

    assert [session.owner for session in backend.sessions()] == ["for ever", "sound", "unreadable"]
    assert [queue.name for queue in backend.queues()] == ["default", "\\xff\\xfe\\xfd"]
    assert backend.look(Look(counts=True)).overview.queues
    assert backend.counts("default")[State.EXECUTING] == 0
    assert backend.extend("unreadable").alive
    assert len(claimed(backend)) == 3

    assert [session.owner for session in backend.sessions()] == ["sound", "unreadable", "worker"]
    assert any("for ever" in line for line in critical())


KEYS = (
    "jobs", "sealed", "progress", "results", "older", "unique", "holds", "live", "ended:5", "tombs", "ready:default",
    "later:default", "expiring:default", "counts", "counts:default", "queues", "paused", "sessions", "expiry", "owners",
    "leases:worker", "asked:worker", "confirmed", "wake:default",
)  # fmt: skip
HEALED = ("wake:default",)  # by the next look


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_another_type_is_put_aside_and_stops_nothing(backend, raw, key, critical):
    kept = enqueued(backend, payload="x" * 300)
    scheduled = enqueued(backend, delay=3600)
    raw.delete(P + key)
    raw.set(P + key, "nonsense") if key != "wake:default" else raw.sadd(P + key, "nonsense")

    later = enqueued(backend, payload="x" * 300)
    later += enqueued(backend, 1, unique_key="u", idempotency_key="i", single_instance=True)
    found = {*claimed(backend), *claimed(backend)}
    backend.settle([Settlement.ack(a_lease(backend), b"result"), Settlement.ack(a_lease(backend), keep=False)])
    backend.list(Query())
    backend.sessions()
    backend.wait(["default"], 0)
    backend.reap()
    backend.prune({})

    assert {*later} <= found
    if key != "jobs":
        assert {*kept} <= found
    shown = {job.id: job.state for job in backend.list(Query())}
    assert {*kept, *later, *scheduled} <= shown.keys()
    assert raw.type(P + key) != b"string"
    assert any(f"key {key} was renamed" in line for line in critical()) or key in HEALED


@pytest.mark.parametrize("options", [{}, {"delay": 3600}], ids=["available", "scheduled"])
def test_queues_whose_list_is_of_another_type_are_listed_again(backend, raw, options):
    enqueued(backend, **options)
    raw.delete(f"{P}queues")
    raw.set(f"{P}queues", "nonsense")

    backend.queues()

    assert [(queue.name, queue.live) for queue in backend.queues()] == [("default", 3)]


def test_a_queue_whose_jobs_are_all_available_is_marked_again_for_its_limit(backend, raw):
    enqueued(backend)
    declare(backend, a_limit(kind="queue", name="default", running=2))
    raw.delete(f"{P}counts:default", f"{P}paused")
    raw.set(f"{P}paused", "nonsense")

    assert len({*claimed(backend), *claimed(backend)}) == 2


@pytest.mark.parametrize("number", ["many", "1.5", "-", "9" * 20])
def test_a_count_that_is_no_number_is_counted_anew_and_fails_no_turn(backend, raw, critical, number):
    leases = [a_lease(backend) for _ in range(3)]
    raw.hset(f"{P}counts:default", "3", number)

    backend.settle([Settlement.ack(lease) for lease in leases[:2]])

    assert backend.counts("default") == dict.fromkeys(State, 0) | {State.EXECUTING: 1, State.COMPLETED: 2}
    assert [queue.name for queue in backend.queues()] == ["default"]


def test_a_session_is_not_ended_for_what_is_written_about_it(backend, raw):
    backend.open_session(a_session(owner="one"))
    lease = a_lease(backend, owner="one")
    raw.hset(f"{P}sessions", "one", NO_TEXT)

    assert backend.extend("one").alive
    assert backend.reap() == []
    assert backend.turn(a_turn(Settlement.ack(lease), owner="one")).settled[0].applied


def test_where_nothing_is_wrong_nothing_is_looked_for(backend, clock, monkeypatch):
    monkeypatch.setattr(backend, "set_aside", lambda: pytest.fail("nothing is wrong"))
    for settle in SETTLEMENTS.values():
        keys = {"unique_key": "u", "idempotency_key": f"i{settle}", "single_instance": True}
        backend.settle([settle(a_lease(backend, **keys))])
        clock.advance(7200)
        backend.reap()
        backend.list(Query())
        for lease in backend.claim(a_claim(limit=10)):
            backend.settle([Settlement.ack(lease)])
    with pytest.raises(BackendRefused):
        backend.open_session(a_session(owner="x" * 300))


def spoil(rng, raw):
    """Damage anything that the server holds."""
    key = rng.choice(sorted(raw.keys(f"{P}*")))
    kind = raw.type(key)
    noise = rng.choice([b"", NO_TEXT, b"-1", b"1e300", b"nonsense", b"\0" * 30, b"\x03" * 30, b"\xc1"])
    if kind == b"hash":
        field = rng.choice(sorted(raw.hkeys(key)))
        value = bytearray(raw.hget(key, field))
        if value and rng.random() < 0.7:
            value[rng.randrange(len(value))] ^= 1 << rng.randrange(8)
        else:
            value = noise
        raw.hset(key, rng.choice([field, field, field, noise]), bytes(value))
    elif kind == b"zset":
        member = rng.choice(raw.zrange(key, 0, -1))
        raw.zadd(key, {rng.choice([member, noise]): rng.choice([0, -1, 1e300, float("inf"), float("-inf")])})
        raw.zrem(key, rng.choice([member, b"-"]))
    elif kind == b"set":
        raw.sadd(key, noise)
    if rng.random() < 0.1:
        raw.delete(key)
        raw.set(key, noise)


@pytest.mark.parametrize("seed", range(RANDOM_STORIES))
def test_whatever_is_damaged_every_verb_answers_and_new_jobs_run(backend, clock, raw, seed, monkeypatch):
    monkeypatch.setattr(damage, "_LOOK_AGAIN_AFTER", 0)  # seconds: a server is not damaged again so soon
    rng = random.Random(seed)
    backend.open_session(a_session(owner="other"))
    for at, settle in enumerate(SETTLEMENTS.values()):
        keys = {"unique_key": f"u{at}", "idempotency_key": f"i{at}", "single_instance": True}
        lease = a_lease(backend, queue=f"q{at}", **keys)
        backend.progress(lease, b"1")
        backend.settle([settle(lease)])
        backend.enqueue([an_envelope(delay=rng.choice([0, 5]), **keys)])
    declare(
        backend, a_limit(kind="key", running=3, rate="4/min"), a_limit("default", "queue", running=500), owner="new"
    )
    backend.enqueue([each for key in "abc" for each in in_lane(4, key)])
    backend.claim(a_claim(owner="other", limit=8))

    for _ in range(8):
        spoil(rng, raw)
        leases = backend.claim(a_claim(limit=5))
        backend.settle([rng.choice([*SETTLEMENTS.values()])(lease) for lease in leases])
        ids = [job.id for job in backend.list(Query(limit=1000))]
        minute = clock.micros() // MINUTE * MINUTE
        merged = ((minute - 4 * MINUTE, MINUTE, b"sum"),)
        backend.extend("other", sample=Sample(rng.choice(["host", "*"]), minute, b"numbers", merged))
        backend.look(Look(series=(0, clock.micros() * 2)))
        backend.cancel(ids[:2], "enough")
        backend.retry(ids)
        backend.sessions()
        backend.queues()
        backend.queues_with_work()
        backend.look(Look(counts=True))
        backend.counts()
        backend.health()
        backend.limits()
        backend.shut("render/", opened=True)
        backend.wait(["default"], 0)
        backend.forget_key("i3")
        backend.replay(Query(limit=3))
        clock.advance(rng.choice([1, 60, 3600]))
        backend.reap()
        backend.prune({State.COMPLETED: clock.micros() - 10_000_000})
        backend.open_session(a_session(owner="other"), adopts=rng.choice([None, "worker", "other"]))
    backend.purge(Query())

    fresh = enqueued(backend, 2, priority=100) + enqueued(backend, 2, priority=100, lane=lane_of("render", "fresh"))
    found = {*claimed(backend), *claimed(backend), *claimed(backend), *claimed(backend)}
    assert {*fresh} <= found, [backend.get(each) for each in fresh]


def test_rows_of_samples_that_no_script_wrote_are_left_out(backend, raw, clock):
    minute = clock.micros() // MINUTE * MINUTE
    backend.extend("", sample=Sample("host", minute, b"numbers"))
    raw.zadd(f"{P}series", {b"short": minute, minute.to_bytes(8, "big") + b"lost": minute})
    raw.hset(f"{P}series_data", minute.to_bytes(8, "big") + b"cut", b"x")
    raw.zadd(f"{P}series", {minute.to_bytes(8, "big") + b"cut": minute})

    assert [row.reporter for row in backend.look(Look(series=(0, minute + 1))).series] == ["*", "host"]


@pytest.mark.parametrize("key", ["series", "series_data"])
def test_a_key_of_samples_of_another_type_is_put_aside(backend, raw, clock, key):
    raw.set(f"{P}{key}", b"no rows")
    minute = clock.micros() // MINUTE * MINUTE

    assert backend.extend("", sample=Sample("host", minute, b"numbers")).refused is None

    assert [row.reporter for row in backend.look(Look(series=(0, minute + 1))).series] == ["*", "host"]


def test_nothing_but_an_error_of_the_backend_comes_out_of_a_verb(backend, monkeypatch):
    monkeypatch.setattr(backend, "_run", lambda *_, **__: NO_TEXT)
    for verb in (
        lambda: backend.turn(a_turn()),
        lambda: backend.extend("worker"),
        backend.reap,
        lambda: backend.open_session(a_session()),
        lambda: backend.list(Query()),
        backend.sessions,
        lambda: backend.look(Look(counts=True)),
    ):
        raised = None
        try:
            verb()
        except Exception as error:  # noqa: BLE001  whatever it is, it is judged
            raised = error
        assert isinstance(raised, BackendError), raised
        assert "cannot be read" in str(raised)
