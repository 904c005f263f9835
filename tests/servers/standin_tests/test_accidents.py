"""What a test can do to a client: cut it off, refuse it, kill it between two commands."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError, ServiceBusServerBusyError

from tests.servers.servicebus_standin import ServiceBusStandin, StandinError
from tests.servers.servicebus_standin.performatives import Transfer
from tests.servers.standin_tests.conftest import LOCK
from tests.servers.standin_tests.peer import Peer, message

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # sockets that the SDK forgets

SEND_FOREVER = """
import sys
from azure.servicebus import ServiceBusClient, ServiceBusMessage
with ServiceBusClient.from_connection_string(sys.argv[1]) as client, client.get_queue_sender("mail") as sender:
    while True:
        sender.send_messages(ServiceBusMessage("x"))
"""


@pytest.fixture(scope="module")
def client(shared_bus):
    # As many retries as by default, but sooner: they also reopen the links that a test before has cut.
    options = {"retry_total": 3, "retry_backoff_factor": 0.01}
    with ServiceBusClient.from_connection_string(shared_bus.connection_string, **options) as client:
        yield client


@pytest.fixture(scope="module")
def sender(client):
    return client.get_queue_sender("mail")


@pytest.fixture(scope="module")
def receiver(client):
    return client.get_queue_receiver("mail")


def receive_one(receiver):
    (message,) = receiver.receive_messages(max_wait_time=5)
    return message


@pytest.mark.parametrize("verb", ["complete", "abandon", "defer", "dead-letter", "renew"])
def test_a_refused_command_changes_nothing(bus, sender, receiver, verb):
    sender.send_messages(ServiceBusMessage("x"))
    message = receive_one(receiver)
    bus.refuse(verb)
    method = "renew_message_lock" if verb == "renew" else f"{verb.replace('-', '_')}_message"

    with pytest.raises(MessageLockLostError):
        getattr(receiver, method)(message)

    (stored,) = bus.messages("mail")
    assert stored.lock.token == message.lock_token
    assert [command.refused for command in bus.commands if command.kind == verb] == ["com.microsoft:message-lock-lost"]


def test_a_refusal_has_a_condition_and_an_end(bus, sender):
    bus.refuse("send", times=4, condition="com.microsoft:server-busy")

    with pytest.raises(ServiceBusServerBusyError, match="The test refuses it"):
        sender.send_messages(ServiceBusMessage("x"))
    sender.send_messages(ServiceBusMessage("x"))

    assert len(bus.messages("mail")) == 1
    assert bus.count("send") == 5, "the SDK has tried the first one four times"


def test_a_client_is_killed_after_its_third_command(bus):
    sending = subprocess.Popen([sys.executable, "-c", SEND_FOREVER, bus.connection_string])
    bus.after(3, "send", do=lambda: os.kill(sending.pid, signal.SIGKILL))

    assert sending.wait(30) == -signal.SIGKILL

    assert bus.count("send") == len(bus.messages("mail")) == 3


def test_waiting_ends_when_enough_has_come(bus, sender):
    sending = threading.Timer(0, lambda: [sender.send_messages(ServiceBusMessage("x")) for _ in range(3)])
    sending.start()

    bus.wait_for(3, "send")

    sending.join()
    assert len(bus.messages("mail")) == 3


def test_waiting_in_vain_is_an_error(bus):
    with pytest.raises(StandinError, match="0 of 1 complete came within 0"):
        bus.wait_for(1, "complete", timeout=0.01)


def test_commands_are_told_in_order(bus, sender, receiver):
    sender.send_messages(ServiceBusMessage("x"))
    receiver.complete_message(receive_one(receiver))

    number = bus.commands[0].sequence_numbers
    assert [(command.kind, command.queue) for command in bus.commands] == [
        ("send", "mail"),
        ("deliver", "mail"),
        ("complete", "mail"),
    ]
    assert {command.sequence_numbers for command in bus.commands} == {number}
    assert bus.count() == 2, "a delivery is no command"


def test_names_of_commands_are_checked(bus):
    with pytest.raises(ValueError, match="finish: no such command; there are send"):
        bus.count("finish")
    with pytest.raises(ValueError, match="counted from 1"):
        bus.after(0, do=print)


def test_starting_twice_or_on_a_taken_port_is_an_error(bus):
    with pytest.raises(StandinError, match="runs already"):
        bus.start()
    with pytest.raises(StandinError, match=f"cannot listen on 127.0.0.1:{bus.port}"):
        ServiceBusStandin(["mail"], port=bus.port).start()


def test_there_is_no_address_before_the_start():
    with pytest.raises(StandinError, match="with block"):
        _ = ServiceBusStandin(["mail"]).connection_string


def test_what_was_never_started_can_be_looked_at_and_stopped():
    bus = ServiceBusStandin(["mail"])
    bus.stop()

    assert bus.messages("mail") == []


def test_a_settlement_whose_answer_is_lost_was_applied(bus, sender, receiver):
    sender.send_messages(ServiceBusMessage("x"))
    message = receive_one(receiver)
    bus.after(1, "complete", do=bus.drop_connections)

    with pytest.raises(MessageLockLostError):  # the SDK asks again, and finds that the message is gone
        receiver.complete_message(message)

    assert bus.messages("mail") == []
    assert [command.refused is None for command in bus.commands if command.kind == "complete"] == [True, False]


def test_a_message_whose_receipt_is_lost_is_sent_again(bus, sender):
    bus.after(1, "send", do=bus.drop_connections)

    sender.send_messages(ServiceBusMessage("x", message_id="same"))

    ids = [message.content.message_id for message in bus.messages("mail")]
    assert ids.count("same") == len(ids) >= 2, "only duplicate detection would have noticed"


def test_what_was_stored_survives_a_restart(bus, sender, receiver):
    sender.send_messages([ServiceBusMessage("locked"), ServiceBusMessage("waits")])
    receive_one(receiver)
    port = bus.port

    bus.stop()
    with pytest.raises(ServiceBusError):
        sender.send_messages(ServiceBusMessage("lost"))
    bus.start()

    assert bus.port == port
    assert [stored.lock is not None for stored in bus.messages("mail")] == [True, False]
    assert str(receive_one(receiver)) == "waits"


def test_who_is_cut_off_keeps_the_lock_and_nothing_else(bus, clock):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.send()
        peer.flow(1, 1)
        peer.expect(Transfer)

        assert bus.drop_connections() >= 1
        with pytest.raises((EOFError, ConnectionError)):
            peer.hear()

    (stored,) = bus.messages("mail")
    assert stored.lock is not None

    clock.advance(LOCK)
    bus.tick()
    (stored,) = bus.messages("mail")
    assert (stored.lock, stored.delivery_count) == (None, 1)


def test_the_server_dies_after_a_command(bus):
    bus.after(2, do=bus.stop)
    with Peer(bus) as peer:
        peer.open_mail()
        peer.send()
        peer.transfer(0, message())

        with pytest.raises((EOFError, ConnectionError)):
            peer.hear()
    bus.start()

    assert len(bus.messages("mail")) == 2


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child touches no lock that a thread may hold
def test_a_forked_process_does_not_keep_a_connection_alive(bus):
    with socket.create_connection((bus.host, bus.port), timeout=5) as client:
        client.sendall(b"AMQP\x00\x01\x00\x00")
        assert client.recv(8)
        forked = os.fork()
        if not forked:
            signal.alarm(30)  # should no test kill it
            signal.pause()

        bus.drop_connections()
        try:
            assert client.recv(1) == b""
            bus.stop()
            bus.start()
        finally:
            os.kill(forked, signal.SIGKILL)
            os.waitpid(forked, 0)
