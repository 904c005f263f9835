"""Keys, tokens and TLS; and the administration client, which speaks HTTPS only."""

import asyncio
import time

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.aio.management import ServiceBusAdministrationClient as AsyncAdministrationClient
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusError
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.servers.servicebus_standin import QueueOptions, ServiceBusStandin, StandinError
from tests.servers.servicebus_standin.certificate import Certificate
from tests.servers.servicebus_standin.errors import Unauthorized
from tests.servers.servicebus_standin.sas import Keys

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # sockets that the SDK forgets

OPTIONS = QueueOptions(lock_duration=30, max_delivery_count=2000)


@pytest.fixture(scope="module")
def bus():
    with ServiceBusStandin({"mail": OPTIONS}, bearer_tokens=["let me in"]) as bus:
        yield bus


@pytest.fixture(scope="module")
def tls_bus():
    with ServiceBusStandin({"mail": OPTIONS}, tls=True) as bus:
        yield bus


class Credential:
    """What stands in for azure-identity."""

    def __init__(self, token):
        self.token = token

    def get_token(self, *scopes, **kwargs):
        return AccessToken(self.token, int(time.time()) + 3600)


def test_a_wrong_key_is_refused(bus):
    wrong = bus.connection_string.replace("SharedAccessKey=", "SharedAccessKey=x")
    with (
        ServiceBusClient.from_connection_string(wrong, retry_total=0) as client,
        pytest.raises(ServiceBusAuthenticationError),
    ):
        client.get_queue_sender("mail").send_messages(ServiceBusMessage("x"))


def test_a_wrong_key_is_refused_async(bus):
    async def send():
        wrong = bus.connection_string.replace("SharedAccessKey=", "SharedAccessKey=x")
        async with AsyncServiceBusClient.from_connection_string(wrong, retry_total=0) as client:
            await client.get_queue_sender("mail").send_messages(ServiceBusMessage("x"))

    with pytest.raises(ServiceBusAuthenticationError):
        asyncio.run(send())


def test_a_namespace_with_a_credential(bus):
    host = f"{bus.host}:{bus.port}"
    with ServiceBusClient(host, Credential("let me in"), use_tls=False, retry_total=0) as client:
        client.get_queue_sender("mail").send_messages(ServiceBusMessage("x"))

    assert bus.count("send") == 1


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("anything", "InvalidToken"),
        ("SharedAccessSignature sr=sb%3A%2F%2Fx&sig=x&se=9999999999&skn=nobody", "there is no key 'nobody'"),
        ("SharedAccessSignature sr=sb%3A%2F%2Fx&sig=x&se=9999999999&skn=me", "invalid signature"),
        ("SharedAccessSignature skn=me", "invalid signature"),
    ],
)
def test_a_token_is_refused_for_a_reason(token, why):
    with pytest.raises(Unauthorized, match=why):
        Keys(name="me", key="secret").check(token)


def test_tls_with_a_certificate_that_the_client_trusts(tls_bus):
    with (
        ServiceBusClient.from_connection_string(
            tls_bus.connection_string, connection_verify=str(tls_bus.certificate)
        ) as client,
        client.get_queue_sender("mail") as sender,
    ):
        sender.send_messages(ServiceBusMessage(b"x" * 200_000))

    assert [stored.content.size > 200_000 for stored in tls_bus.messages("mail")] == [True]


def test_tls_with_an_untrusted_certificate(tls_bus):
    with (
        ServiceBusClient.from_connection_string(tls_bus.connection_string, retry_total=0) as client,
        pytest.raises(ServiceBusError, match="certificate verify failed"),
    ):
        client.get_queue_sender("mail").send_messages(ServiceBusMessage("x"))


def test_two_with_tls_stand_beside_each_other(tls_bus):
    with ServiceBusStandin(["mail"], tls=True) as other:
        assert (other.port, tls_bus.port) == (5671, 5671)
        assert other.host != tls_bus.host


def test_the_certificate_goes_with_the_stand_in():
    with ServiceBusStandin(["mail"]) as bus:
        certificate = bus.certificate
        assert certificate.exists()

    assert not certificate.exists()


def test_without_openssl_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")

    with pytest.raises(StandinError, match="install the package openssl"):
        _ = Certificate("127.0.0.1").file


@pytest.fixture(params=["plain", "tls"])
def either_bus(request, bus, tls_bus):
    return tls_bus if request.param == "tls" else bus


class TestAdministration:
    @pytest.fixture
    def admin(self, either_bus):
        either_bus.clear()
        with ServiceBusAdministrationClient.from_connection_string(
            either_bus.connection_string, connection_verify=str(either_bus.certificate)
        ) as admin:
            yield admin

    def test_it_tells_the_properties_of_a_queue(self, admin):
        queue = admin.get_queue("mail")

        assert queue.max_delivery_count == 2000
        assert queue.lock_duration.total_seconds() == 30
        assert not queue.requires_duplicate_detection
        assert not queue.requires_session

    def test_it_counts_messages(self, admin):
        counted = admin.get_queue_runtime_properties("mail")

        assert (counted.active_message_count, counted.dead_letter_message_count) == (0, 0)

    def test_it_lists_queues(self, admin):
        assert [queue.name for queue in admin.list_queues()] == ["mail"]

    def test_a_queue_that_is_not_there_is_not_found(self, admin):
        with pytest.raises(ResourceNotFoundError):
            admin.get_queue("post")

    def test_it_changes_nothing(self, admin):
        with pytest.raises(HttpResponseError, match="only tells the properties"):
            admin.create_queue("post")

    def test_a_wrong_key_is_refused(self, either_bus):
        with (
            ServiceBusAdministrationClient.from_connection_string(
                either_bus.connection_string.replace("SharedAccessKey=", "SharedAccessKey=x"),
                connection_verify=str(either_bus.certificate),
            ) as admin,
            pytest.raises(ClientAuthenticationError),
        ):
            admin.get_queue("mail")

    def test_async(self, either_bus):
        async def ask():
            async with AsyncAdministrationClient.from_connection_string(
                either_bus.connection_string, connection_verify=str(either_bus.certificate)
            ) as admin:
                return await admin.get_queue("mail")

        assert asyncio.run(ask()).max_delivery_count == 2000
