"""Who can write to a broker, or to one half of a pair: what they put there runs nothing, and stops no worker."""

import sqlite3
from contextlib import closing

import msgspec
import pytest

from onward.backends.beanstalk.tubes import Tubes
from onward.backends.servicebus.driver import sdk
from onward.telemetry import JobCompleted, JobDiscarded
from tests.security.signing import attacks
from tests.security.signing.attacks import ATTACKS, DAMAGE, QUEUE, RING, Forged, honest
from tests.security.signing.shop import assert_refused_and_kept, open_shop
from tests.servers.servicebus import entity
from tests.servers.stores import emptied
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("quiet")

PAIR = pytest.mark.parametrize("store", ["companion"])
BROKERS = pytest.mark.parametrize("store", ["beanstalk", "servicebus"])


@pytest.fixture
def strict(url):
    with open_shop(url, signing_keys=RING, signing="require") as shop:
        yield shop


@pytest.fixture
def put(store, request, url):
    """Put messages into the queue, whose headers say what they should not; past the backend."""

    def into_beanstalkd(jobs):
        with request.getfixturevalue("a_beanstalkd").connect(use=Tubes("default").of(QUEUE)) as client:
            for job, header in jobs:
                said = {"id": job.id, "job": "send", "enqueued_at": 1, "max_crashes": 3, **header}
                client.put(b"onward-beanstalk/1 " + msgspec.json.encode(said) + b"\n" + job.data)

    def into_servicebus(jobs):
        server, _ = request.getfixturevalue("a_servicebus")
        with (
            sdk.ServiceBusClient.from_connection_string(server.connection_string) as client,
            client.get_queue_sender(entity(QUEUE)) as sender,
        ):
            for job, header in jobs:
                said = {"onward": 1, "id": job.id, "job": "send", "enqueued_at": "1", "max_crashes": 3, **header}
                said = {name: as_long(value) for name, value in said.items()}
                sender.send_messages(sdk.ServiceBusMessage(job.data, application_properties=said))

    return into_servicebus if store == "servicebus" else into_beanstalkd


def as_long(value):
    """The SDK writes numbers in 32 bits, unless it is told otherwise."""
    return {"TYPE": "LONG", "VALUE": value} if isinstance(value, int) and abs(value) >= 2**31 else value


# One half of a pair


@PAIR
@pytest.mark.promise("S36")
def test_what_is_put_into_the_broker_alone_is_refused_and_kept_in_the_store(url, store):
    with open_shop(url, signing_keys=RING, signing="off") as lax:
        forged = attacks.many(ATTACKS, 1)
        lax.meets(forged, into=lax.jobs.backend.broker)

        assert {type(lax.ends[each.id]) for each in forged} == {JobCompleted}
        assert len(lax.ran) == len(ATTACKS)

    with open_shop(url, signing_keys=RING, signing="require") as strict:
        forged = [*attacks.many(ATTACKS, 1), *attacks.many(DAMAGE, 1)]
        strict.meets(forged, into=strict.jobs.backend.broker)

        assert_refused_and_kept(strict, forged)


@PAIR
@pytest.mark.promise("S36")
def test_what_is_put_into_the_store_alone_is_swept_up_refused_and_kept(url, store, tmp_path):
    def store_alone(shop):
        forged = attacks.many(ATTACKS, 1)
        shop.jobs.backend.store.enqueue([each.envelope for each in forged])
        with closing(sqlite3.connect(tmp_path / "beside.db")) as tables, tables:
            tables.execute("UPDATE onward_jobs SET available_at = 1")  # long due: the sweep does not wait
        shop.jobs.reap()
        shop.works_until_ended(each.id for each in forged)
        return forged

    with open_shop(url, signing_keys=RING, signing="off") as lax:
        forged = store_alone(lax)

        assert {type(lax.ends[each.id]) for each in forged} == {JobCompleted}

    with open_shop(url, signing_keys=RING, signing="require") as strict:
        assert_refused_and_kept(strict, store_alone(strict))


@PAIR
@pytest.mark.promise("S36")
def test_of_two_halves_that_disagree_the_store_counts_and_is_verified_too(url, store, tmp_path):
    def disagreeing(shop):
        """The arguments of one were changed in the store, those of the other in the broker."""
        in_store, in_broker = honest(), honest()
        beside = shop.jobs.backend.store
        beside.enqueue([in_store, in_broker])
        with closing(sqlite3.connect(tmp_path / "beside.db")) as tables, tables:
            changed = in_store.data.replace(b'{"n":1}', b'{"n":2}')
            tables.execute("UPDATE onward_jobs SET sealed = ? WHERE id = ?", (changed, in_store.id))
        altered = msgspec.structs.replace(in_broker, data=in_broker.data.replace(b'{"n":1}', b'{"n":3}'))
        shop.jobs.backend.broker.enqueue([in_store, altered])
        shop.works_until_ended([in_store.id, in_broker.id])
        return in_store, in_broker

    with open_shop(url, signing_keys=RING, signing="off") as lax:
        disagreeing(lax)
        assert sorted(lax.ran) == [("send", 1), ("send", 2)]

    with open_shop(url, signing_keys=RING, signing="require") as strict:
        in_store, _ = disagreeing(strict)
        assert strict.ran == [("send", 1)]
        assert "does not match" in strict.jobs.get(in_store.id).reason


@PAIR
@pytest.mark.promise("S36")
def test_a_forged_message_with_the_idempotency_key_of_an_honest_job_is_refused_like_any_other(strict, store):
    job = honest(idempotency_key="order-1")
    before, after = (honest(sign=None, idempotency_key="order-1") for _ in range(2))
    strict.meets([Forged(*part_of(before))], into=strict.jobs.backend.broker)
    strict.jobs.backend.enqueue([job])
    strict.works_until_ended([job.id])
    strict.meets([Forged(*part_of(after))], into=strict.jobs.backend.broker)

    assert strict.ran == [("send", 1)]
    assert [type(strict.ends[each.id]) for each in (before, job, after)] == [JobDiscarded, JobCompleted, JobDiscarded]


def part_of(envelope):
    return envelope.id, envelope.queue, envelope.data


@PAIR
@pytest.mark.promise("S36")
def test_what_the_store_beside_cannot_write_down_stops_no_worker(store, request, put):
    """PostgreSQL knows no NUL: neither in what a message calls itself, nor in what its bytes say."""
    beside = emptied(request.getfixturevalue("newest_postgres"))
    url = request.getfixturevalue("a_beanstalkd").url()
    with open_shop(url, store=beside, signing_keys=RING, signing="require") as strict:
        nameless = [(honest(sign=None), {"id": each}) for each in ("\0", "a\0b", "", "x" * 300)]
        odd = [honest(sign=None, **{field: "a\0b"}) for field in ("job", "idempotency_key", "unique_key", "name")]
        put([*nameless, *((each, {}) for each in odd)])
        job = honest()
        strict.jobs.backend.enqueue([job])
        with strict.jobs.worker(queues=[QUEUE], concurrency=4):
            strict.has_ended([job.id])
            eventually(lambda: kept(strict) == len(nameless) + len(odd), what=strict.jobs.backend.broker.counts)

        assert strict.ran == [("send", 1)]


def kept(shop):
    """By the store, or by the broker where the store could not."""
    return shop.jobs.counts()["discarded"] + shop.jobs.backend.broker.counts()["discarded"]


# Headers: what a broker keeps beside the sealed bytes is not signed

HEADERS = {
    "counters below nought": {"attempts": -1, "crashes": -5, "interruptions": -1, "delivery": -9, "waits": -1},
    "a huge count": {"delivery": 2**40},
    "huge attempts": {"attempts": 2**62},
    "no crashes allowed": {"max_crashes": 0},
    "less than none": {"max_crashes": -1},
    "a spent job": {"spent": "\x1b[31m" + "x" * 1000},
    "rounds": {"rounds": 2**40},
    "no time to run": {"ttr": 0},
    "a time to run below nought": {"ttr": -1},
    "an endless time to run": {"ttr": 2**40},
    "a priority": {"priority": -(2**40)},
    "an urgent one": {"priority": 2**40},
    "another kind": {"crashes": "many"},
    "not an id": {"id": 5},
    "an id with a NUL": {"id": "a\0b"},
    "a dead one": {"ended_at": 5, "reason": "\x00\x1b"},
    "an epoch": {"parked_since": "99999999999999999999999"},
}


@BROKERS
@pytest.mark.promise("S36")
def test_a_header_can_say_what_it_likes_and_nothing_forged_runs_nor_stops_what_is_honest(strict, store, put):
    put([(honest(sign=None), header) for header in HEADERS.values()])
    job = honest()
    strict.jobs.backend.enqueue([job])

    with strict.jobs.worker(queues=[QUEUE], concurrency=4):
        strict.has_ended([job.id])
        eventually(lambda: strict.jobs.counts()["discarded"] == len(HEADERS), what=strict.jobs.counts)

    assert strict.ran == [("send", 1)]
    left = strict.jobs.counts()
    assert sum(left.values()) == left["discarded"]


@BROKERS
@pytest.mark.parametrize("first", ["forged", "honest"])
def test_a_forged_message_with_the_id_of_an_honest_job_takes_nothing_from_it(strict, store, put, first):
    job = honest()
    forged = Forged(job.id, job.queue, job.data.replace(b'{"n":1}', b'{"n":2}'))
    if first == "forged":
        put([(forged, {})])
    strict.jobs.backend.enqueue([job])
    if first == "honest":
        put([(forged, {})])
    with strict.jobs.worker(queues=[QUEUE], concurrency=4):
        eventually(lambda: strict.ran and strict.jobs.counts()["discarded"] == 1, what=strict.jobs.counts)

    assert strict.ran == [("send", 1)]
    left = strict.jobs.counts()
    assert sum(left.values()) == left["discarded"] == 1
