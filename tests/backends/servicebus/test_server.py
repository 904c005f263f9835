"""What the server keeps, what it refuses, and how a queue must be set up."""

import os
import time

import pytest
from azure.core.credentials import AccessToken
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from onward.backends.servicebus import ServiceBusBackend
from onward.backends.servicebus import driver as servicebus_driver
from onward.backends.servicebus.url import parse_url
from onward.errors import (
    BackendMisconfigured,
    BackendUnavailable,
    InvalidName,
    PayloadTooLarge,
)
from onward.testing.contract.builders import a_claim, a_lease, an_envelope, ids, some_envelopes
from tests.servers.connecting import connected
from tests.servers.servicebus import entity, servicebus, url_of
from tests.servers.servicebus_standin import QueueOptions, ServiceBusStandin

GOOD = QueueOptions(max_delivery_count=2000)


def health(backend):
    return {check.name: check for check in backend.health()}


# How a queue must be set up


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({"max_delivery_count": 999}, "az servicebus queue update .* --max-delivery-count 2000"),
        ({"default_time_to_live": 86_400}, "--enable-dead-lettering-on-message-expiration true"),
    ],
)
def test_a_queue_that_would_lose_jobs_is_refused_at_the_start_with_the_command_that_mends_it(options, command, open_at):
    with servicebus("default", **options) as server, pytest.raises(BackendMisconfigured, match=command):
        open_at(server)


def test_a_queue_of_another_namespace_is_not_looked_at(open_at):
    with servicebus("default") as server:
        server.add_queue("orders", QueueOptions(max_delivery_count=1))
        server.add_queue("onward.shop.mail", QueueOptions(max_delivery_count=1))

        assert health(open_at(server))["queues"].status == "ok"


def test_a_queue_that_is_not_there_names_the_command_that_creates_it(server, open_at):
    backend = open_at(server)
    command = f"az servicebus queue create .* --name {entity('mail')} --max-delivery-count 2000"

    with pytest.raises(BackendMisconfigured, match=command):
        backend.enqueue([an_envelope(queue="mail")])
    with pytest.raises(BackendMisconfigured, match=command):
        backend.claim(a_claim(queues=("mail",)))
    server.add_queue(entity("mail"), QueueOptions(max_delivery_count=10))
    with pytest.raises(BackendMisconfigured, match="10 deliveries"):
        backend.enqueue([an_envelope(queue="mail")])


def test_a_key_that_may_not_look_works_with_unchecked(server, open_at):
    backend = open_at(server, unchecked="true")
    backend.enqueue([envelope := an_envelope()])

    assert ids(backend.claim(a_claim())) == [envelope.id]
    assert health(backend)["queues"].status == "warn"


def test_health_looks_at_the_same_list(server, open_at):
    backend = open_at(server)
    assert {check.status for check in backend.health()} == {"ok"}

    server.add_queue(entity("late"), QueueOptions(max_delivery_count=10))
    backend.abandon(a_lease(backend), "gave up")

    found = health(backend)
    assert (found["queues"].status, found["duplicates"].status) == ("fail", "warn")
    assert "1 in default" in found["dead letters"].detail
    server.stop()
    assert [check.status for check in backend.health()] == ["fail"]


# What it takes


@pytest.mark.promise("F61")
def test_a_job_that_is_too_large_is_refused_before_anything_is_stored(backend, timed_server):
    large = an_envelope(payload={"text": "x" * 259_000})

    with pytest.raises(PayloadTooLarge, match="Service Bus"):
        backend.enqueue([an_envelope(), large])

    assert timed_server.count() == 0


def test_the_largest_job_can_still_be_put_back_and_buried(backend, messages):
    room = 256 * 1024 - 4096 - len(an_envelope(payload={"text": ""}).data) - 700
    backend.enqueue([an_envelope(payload={"text": "x" * room})])

    for _ in range(2):
        (lease,) = backend.claim(a_claim())
        assert backend.nack(lease).applied
    (lease,) = backend.claim(a_claim())

    assert backend.abandon(lease, "w\ud800" * 10_000).applied
    assert len(messages()[1]) == 1


@pytest.mark.promise("F57")
def test_what_no_onward_wrote_is_dead_lettered_and_hides_nothing(backend, timed_server, messages):
    with (
        ServiceBusClient.from_connection_string(timed_server.connection_string) as client,
        client.get_queue_sender(entity()) as sender,
    ):
        sender.send_messages([ServiceBusMessage("hello"), ServiceBusMessage("", application_properties={"onward": 1})])
    backend.enqueue([envelope := an_envelope()])

    assert ids(backend.claim(a_claim(limit=9))) == [envelope.id]
    assert [message.dead_letter.reason for message in messages()[1]] == ["Onward did not write it"] * 2


@pytest.mark.parametrize("queue", ["a b", "a\r\nb", "-first", "Case", "case", "a\0b", "a-x20b", "ends.", "ünï"])
def test_no_two_queues_share_a_name(queue):
    names = {
        entity(each): each for each in ("a b", "a\r\nb", "-first", "Case", "case", "a-x20b", "ends.", "ünï", "ends")
    }

    assert names.get(entity(queue), queue) == queue
    assert entity(queue) == entity(queue).lower()


def test_a_name_that_is_too_long_for_the_server_is_refused():
    with pytest.raises(InvalidName, match="260"):
        entity("Q" * 100)


# When it goes and comes back


def test_an_enqueue_whose_answer_was_lost_is_repeated_where_duplicates_are_detected(server, open_at):
    backend = open_at(server)
    server.after(1, "send", do=server.drop_connections)

    backend.enqueue(batch := some_envelopes(2))

    assert server.count("send") == 2
    assert sorted(ids(backend.claim(a_claim(limit=9)))) == sorted(ids(batch))


def test_an_enqueue_whose_answer_was_lost_is_an_error_where_they_are_not(open_at):
    with servicebus("default") as server:
        backend = open_at(server)
        server.after(1, "send", do=server.drop_connections)

        with pytest.raises(BackendUnavailable):
            backend.enqueue([an_envelope()])

        assert server.count("send") == 1
        backend.enqueue([an_envelope()])


@pytest.mark.promise("F66")
def test_a_retry_of_which_any_answer_was_lost_is_there_once_where_duplicates_are_detected(server, open_at):
    backend = open_at(server)
    for command in ("renew", "schedule", "complete"):
        lease = a_lease(backend)
        server.after(1, command, do=server.drop_connections)

        try:
            answer = backend.nack(lease)
        except BackendUnavailable:
            answer = backend.nack(lease)

        assert answer.applied
        assert [message.content.application["attempts"] for message in server.messages(entity())] == [1]
        server.clear()


def test_everybody_outlives_a_restart_of_the_server(server, open_at, report):
    backend = open_at(server)
    lease = a_lease(backend)
    server.stop()
    with pytest.raises(BackendUnavailable):
        backend.extend("worker")
    server.start()

    assert backend.extend("worker").lost == ()
    backend.enqueue([envelope := an_envelope()])
    assert backend.ack(lease).applied
    assert ids(backend.claim(a_claim())) == [envelope.id]
    report("Service Bus: a producer and a worker with a lease outlive a restart of the server")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_has_links_of_its_own(server, open_at):
    backend = open_at(server)
    lease = a_lease(backend)
    child = os.fork()
    if child == 0:
        try:
            backend.enqueue([an_envelope()])
            (own,) = backend.claim(a_claim(owner="child"))
            os._exit(0 if backend.ack(own).applied and not backend.extend("worker").alive else 1)
        except BaseException:  # noqa: BLE001
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    assert backend.ack(lease).applied
    assert sum(backend.counts().values()) == 0


def test_a_server_that_is_not_there_is_unavailable(server, open_at):
    server.stop()

    with pytest.raises(BackendUnavailable, match="did not answer"):
        open_at(server)


# Who we are


class Credential:
    def get_token(self, *scopes, **options):
        return AccessToken("let me in", int(time.time()) + 3600)


def test_a_namespace_and_a_credential_over_tls():
    with ServiceBusStandin({entity(): GOOD}, tls=True, bearer_tokens=["let me in"]) as server:
        url = f"servicebus://{server.host}:{server.port}?ca={server.certificate}"
        backend = connected(ServiceBusBackend.from_url(url, credential=Credential()))
        try:
            backend.enqueue([envelope := an_envelope()])
            assert ids(backend.claim(a_claim())) == [envelope.id]
        finally:
            backend.close()


def test_a_namespace_without_a_key_asks_who_we_are_and_names_the_extra(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(servicebus_driver, "import_module", missing)

    with pytest.raises(BackendMisconfigured, match=r"onward\[servicebus-identity\]"):
        connected(ServiceBusBackend.from_url("servicebus://shop.servicebus.windows.net"))


def test_a_wrong_key_is_told_so(server):
    url = url_of(server).replace("SharedAccessKey=", "SharedAccessKey=d3Jvbmc")

    with pytest.raises(BackendMisconfigured, match="does not let this key"):
        connected(ServiceBusBackend.from_url(url))
    backend = connected(ServiceBusBackend.from_url(f"{url}&unchecked=true"))
    with pytest.raises(BackendMisconfigured, match="refuses the key or the role"):
        backend.enqueue([an_envelope()])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("servicebus://", "a namespace is needed"),
        ("servicebus://host/queue", "no queue"),
        ("servicebus://key@host", "no key"),
        ("servicebus://Endpoint=sb://host/;SharedAccessKeyName=a;SharedAccessKey=b;EntityPath=q", "one queue only"),
        ("servicebus://Endpoint=host", "Endpoint=sb://"),
        ("servicebus://Endpoint=sb://host/;SharedAccessKeyName=a", "and SharedAccessKey"),
        ("servicebus://host?timeout=0", "1 to 600"),
        ("servicebus://host?patience_ms=x", "10 to 30000"),
        ("servicebus://host?patience=1", "did you mean 'patience_ms'"),
        ("servicebus://host?unchecked=maybe", "'true' or 'false'"),
        ("servicebus://host?ca=", "name a file"),
        ("servicebus://host:port", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url, message):
    with pytest.raises(BackendMisconfigured, match=message):
        parse_url(url)
