"""What the server keeps, what it refuses, and what it does not say."""

import signal

import pytest

from onward.backend import Enqueued, Settlement
from onward.backends.beanstalk.url import parse_url
from onward.errors import (
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    InvalidName,
    PayloadTooLarge,
)
from onward.testing.contract.builders import a_claim, an_envelope, ids, some_envelopes
from tests.servers.beanstalkd import beanstalkd_server
from tests.waiting import eventually

TUBE = "onward.default.default"


def health(backend):
    return {check.name: check for check in backend.health()}


@pytest.mark.promise("F37")
def test_what_was_stored_survives_the_death_of_the_server(server, report, open_at):
    envelopes = [envelope for at in range(100) for envelope in (an_envelope(), an_envelope(delay=3600 + at))]
    backend = open_at(server)
    for envelope in envelopes:
        backend.enqueue([envelope])

    for _ in range(3):
        server.restart(signal.SIGKILL)

    backend = open_at(server)
    assert (backend.counts()["available"], backend.counts()["scheduled"]) == (100, 100)
    assert ids(backend.claim(a_claim(limit=200))) == ids(envelopes[::2])
    report("beanstalkd killed 3 times: 200 of 200 jobs there")


@pytest.mark.promise("F37")
def test_a_server_that_writes_nothing_to_a_disk_is_refused(open_at):
    with beanstalkd_server(start=False) as server:
        server.start(log=False)

        with pytest.raises(BackendMisconfigured, match="-b DIRECTORY -f 0"):
            open_at(server)
        backend = open_at(server, allow_lossy="true")

        assert not backend.capabilities.durable
        assert health(backend)["durability"].status == "fail"


@pytest.mark.promise("F37", "F52")
def test_a_server_that_stopped_writing_is_found_out(server, open_at):
    backend = open_at(server)
    assert health(backend)["durability"].status == "ok"

    server.limit_files("0")  # as if the disk were full
    with pytest.raises(BackendUnavailable, match="could not write the job to its log"):
        backend.enqueue([an_envelope()])
    server.limit_files("unlimited")

    # There is room now.  The server says that the job is stored, and writes nothing.
    backend.enqueue([an_envelope()])
    assert health(backend)["durability"].status == "fail"
    server.restart(signal.SIGKILL)
    assert sum(open_at(server).counts().values()) == 0


@pytest.mark.promise("F61")
def test_a_job_that_is_too_large_is_refused_before_anything_is_stored(server, open_at):
    backend = open_at(server)
    large = an_envelope(payload={"text": "x" * 64_000})

    with pytest.raises(PayloadTooLarge, match="beanstalkd"):
        backend.enqueue([an_envelope(), large])

    assert sum(backend.counts().values()) == 0


@pytest.mark.promise("F61")
def test_the_limit_is_the_servers(server, open_at):
    server.restart(signal.SIGTERM, "-z", "200000")

    open_at(server).enqueue([an_envelope(payload={"text": "x" * 100_000})])


def test_the_largest_job_can_still_be_put_back_and_buried(server, open_at):
    backend = open_at(server)
    size = 65_535 - 2048
    room = size - len(an_envelope(payload={"text": ""}).data) - 500
    backend.enqueue([an_envelope(payload={"text": "x" * room})])

    for _ in range(3):
        (lease,) = backend.claim(a_claim())
        assert backend.nack(lease).applied
    (lease,) = backend.claim(a_claim())

    assert backend.abandon(lease, "w" * 10_000).applied


@pytest.mark.promise("F57")
def test_what_no_onward_wrote_is_buried_and_hides_nothing(server, open_at):
    backend, envelope = open_at(server), an_envelope()
    with server.connect(use=TUBE) as client:
        for body in (b"", b"hello", b"onward-beanstalk/1 {]\n", b'onward-beanstalk/1 {"id": 7}\n', b"\xff\r\n\x00"):
            client.put(body)
    backend.enqueue([envelope])

    assert ids(backend.claim(a_claim(limit=9))) == [envelope.id]
    assert backend.counts()["discarded"] == 5


@pytest.mark.parametrize("queue", ["a b", "a\r\nput 0 0 0 0", "-first", "(", "a\0b", "ünïcode", "a(20)b"])
def test_no_name_of_a_queue_can_say_anything_to_the_server(server, queue, open_at):
    backend, envelope = open_at(server), an_envelope(queue=queue)

    backend.enqueue([envelope])

    assert ids(backend.claim(a_claim(queues=(queue,)))) == [envelope.id]
    assert [each.name for each in backend.queues()] == [queue]


def test_a_name_that_is_too_long_for_the_server_is_refused(server, open_at):
    with pytest.raises(InvalidName, match="200"):
        open_at(server).enqueue([an_envelope(queue="q" * 190)])


def test_a_batch_that_fails_is_taken_back(server, open_at):
    backend = open_at(server)
    backend.enqueue([an_envelope()])
    backend._max_job_size = 1 << 20  # it believes that the server takes more than it does
    batch = [*some_envelopes(120), an_envelope(payload="x" * 70_000), *some_envelopes(120)]

    with pytest.raises(BackendRefused, match="size"):
        backend.enqueue(batch)

    assert sum(backend.counts().values()) == 1
    assert backend.enqueue(batch[:2]) == [Enqueued(envelope.id) for envelope in batch[:2]]


def test_a_batch_of_any_size_keeps_its_order(server, open_at):
    backend, batch = open_at(server), some_envelopes(250)

    assert [answer.id for answer in backend.enqueue(batch)] == ids(batch)
    taken = [lease for _ in range(4) for lease in backend.claim(a_claim(limit=100))]
    assert ids(taken) == ids(batch)
    assert {answer.applied for answer in backend.settle([Settlement.ack(lease) for lease in taken])} == {True}
    assert sum(backend.counts().values()) == 0


def test_a_server_that_drains_is_no_place_for_a_job_and_says_so(server, open_at):
    backend = open_at(server)
    server._process.send_signal(signal.SIGUSR1)

    eventually(lambda: "draining" in health(backend))
    with pytest.raises(BackendUnavailable, match="Draining"):
        backend.enqueue([an_envelope()])

    assert health(backend)["draining"].status == "fail"


def test_a_producer_outlives_a_restart_of_the_server(server, open_at):
    backend = open_at(server)
    backend.enqueue([an_envelope()])
    server.restart(signal.SIGTERM)

    backend.enqueue([an_envelope()])

    assert backend.counts()["available"] == 2


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("beanstalk://ann@host", "no users"),
        ("beanstalk://host/jobs", "no databases"),
        ("beanstalk://host?ttr=1", "10 to 86400"),
        ("beanstalk://host?ttl=90", "did you mean 'ttr'"),
        ("beanstalk://host?timeout=x", "1 to 600"),
        ("beanstalk://host?allow_lossy=2", "'true' or 'false'"),
        ("beanstalk://host:port", "beanstalk://host:port"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url, message):
    with pytest.raises(BackendMisconfigured, match=message):
        parse_url(url)


def test_a_server_that_is_not_there_is_unavailable(open_at):
    with beanstalkd_server(start=False) as server, pytest.raises(BackendUnavailable, match="start the server"):
        open_at(server)
