"""What no SDK does, or does not show: the protocol, spoken by hand."""

import socket
import time

import pytest

from onward.testing import FakeClock
from tests.servers.servicebus_standin import QueueOptions, ServiceBusStandin, State
from tests.servers.servicebus_standin.codec import Described, Symbol, Timestamp, UInt, ULong, decode_at, encode
from tests.servers.servicebus_standin.framing import frame
from tests.servers.servicebus_standin.message import read_request
from tests.servers.servicebus_standin.performatives import Close, Detach, Disposition, End, Flow, Transfer
from tests.servers.standin_tests.peer import Peer, message


@pytest.fixture(scope="module")
def standin():
    with ServiceBusStandin({"mail": QueueOptions(lock_duration=30)}, clock=FakeClock()) as standin:
        yield standin


@pytest.fixture
def bus(standin):
    standin.clear()
    return standin


def test_every_field_is_written(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.flow(1, 1)
        peer.send()
        peer.expect(Transfer)

        # open, begin, attach, flow, attach, disposition, transfer, attach, flow, attach, transfer
        assert peer.raw_fields == [10, 8, 14, 11, 14, 6, 11, 14, 11, 14, 11]


def test_nothing_comes_without_credit(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        for body in (b"1", b"2", b"3"):
            peer.send(body)
        peer.flow(1, 2)
        peer.expect(Transfer)
        peer.expect(Transfer)
        bus.wait_for(2, "deliver")

        assert [each.lock is not None for each in bus.messages("mail")] == [True, True, False]

        peer.flow(1, 1, delivery_count=2, seen=2)
        assert peer.expect(Transfer)[1].endswith(b"3")


def test_credit_counts_from_what_the_client_has_seen(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.send()
        peer.flow(1, 1)
        peer.expect(Transfer)
        peer.send()
        peer.flow(1, 1, delivery_count=0)  # it has not counted the delivery that is on its way
        peer.flow(1, 0, drain=True)

        assert peer.expect(Flow).drain, "no second message came before"


def test_a_closed_window_stops_the_session(bus):
    with Peer(bus, window=1000) as peer:
        peer.open_mail()
        peer.send()
        peer.flow(1, 5, window=0, seen=1)  # the answer to the token was a frame, too
        peer.flow(1, 0, drain=True, window=0, seen=1)
        assert peer.expect(Flow).link_credit == 0

        peer.flow(1, 5, delivery_count=0, window=10, seen=1)
        peer.expect(Transfer)


def test_draining_uses_the_credit_up(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.send()
        bus.wait_for(1, "send")
        peer.flow(1, 10, drain=True)

        peer.expect(Transfer)
        answer = peer.expect(Flow)
        assert (answer.handle, answer.delivery_count, answer.link_credit, answer.drain) == (1, 10, 0, True)


def test_messages_are_cut_to_the_size_of_the_clients_frames(bus):
    body = bytes(range(256)) * 20
    with Peer(bus, max_frame_size=1024) as peer:
        peer.open_mail()
        for at in range(0, 5120, 512):
            payload = message(body) if at == 0 else b""
            peer.say(Transfer(handle=0, delivery_id=9, delivery_tag=b"t", settled=True, more=at < 4608), payload)
        peer.flow(1, 1)
        frames = [peer.expect(Transfer)]
        while frames[-1][0].more:
            frames.append(peer.expect(Transfer))

        assert len(frames) > 5
        assert b"".join(payload for _, payload in frames).endswith(body)
        assert [said.delivery_id is None for said, _ in frames] == [False] + [True] * (len(frames) - 1)


def test_a_message_that_is_aborted_never_was(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.transfer(0, message(b"half"), settled=True, more=True)
        peer.say(Transfer(handle=0, aborted=True))
        peer.send(b"whole")
        bus.wait_for(1, "send")

        assert [each.content.body[-5:] for each in bus.messages("mail")] == [b"whole"]


def test_a_range_is_settled_one_by_one(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        for _ in range(3):
            peer.send()
        peer.flow(1, 3)
        numbers = [peer.expect(Transfer)[0].delivery_id for _ in range(3)]

        accepted = Described(ULong(0x24), [])
        peer.say(Disposition(role=True, first=numbers[0], last=numbers[-1], state=accepted))

        assert [peer.expect(Disposition).first for _ in range(3)] == numbers
        assert bus.messages("mail") == []


def test_a_settlement_that_wants_no_answer_gets_none(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.send()
        peer.flow(1, 1)
        number = peer.expect(Transfer)[0].delivery_id
        peer.say(Disposition(role=True, first=number, settled=True, state=Described(ULong(0x26), [])))
        peer.flow(1, 0, delivery_count=1, drain=True, seen=2)

        assert peer.expect(Flow).drain
        assert bus.count("release") == 1
        assert [each.delivery_count for each in bus.messages("mail")] == [0]


def test_who_goes_away_keeps_its_locks(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.send()
        peer.flow(1, 5)
        peer.expect(Transfer)
        peer.say(Detach(handle=1, closed=True))
        assert peer.expect(Detach).handle == 1
        peer.say(End())
        peer.expect(End)
        peer.say(Close())
        peer.expect(Close)

    (stored,) = bus.messages("mail")
    assert (stored.state, stored.lock is not None, stored.delivery_count) == (State.ACTIVE, True, 0)


def test_who_has_detached_gets_nothing_more(bus):
    with Peer(bus) as peer:
        peer.open_mail()
        peer.flow(1, 5)
        peer.say(Detach(handle=1, closed=True))
        peer.expect(Detach)
        peer.send()
        bus.wait_for(1, "send")

        assert bus.count("deliver") == 0


def test_by_the_hosts_clock_locks_expire_and_schedules_come_by_themselves():
    soon = {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(time.time_ns() // 1_000_000 + 50)}
    with ServiceBusStandin({"mail": QueueOptions(lock_duration=0.05)}) as bus, Peer(bus) as peer:
        peer.open_mail()
        peer.flow(1, 2)
        peer.transfer(0, encode(Described(ULong(0x72), soon)) + message(), settled=True)

        header, again = (decode_at(peer.expect(Transfer)[1], 0)[0].value for _ in range(2))

        assert (header[4], again[4]) == (0, 1), "the delivery count"


@pytest.mark.parametrize(
    ("address", "condition"),
    [("nowhere", "amqp:not-found"), ("nowhere/$management", "amqp:not-found")],
)
def test_a_link_to_nowhere_is_refused(bus, address, condition):
    with Peer(bus) as peer:
        peer.log_in()
        for attach in (peer.attach_sender, peer.attach_receiver):
            answer = attach(address)
            assert answer.source is None
            assert answer.target is None
            refusal = peer.expect(Detach)
            assert refusal.error.value[0] == condition


def test_sessions_are_refused(bus):
    source = Described(ULong(0x28), ["mail", *[None] * 6, {Symbol("com.microsoft:session-filter"): None}])
    with Peer(bus) as peer:
        peer.log_in()
        peer.attach_receiver("mail", source=source)

        assert peer.expect(Detach).error.value[0] == "amqp:not-implemented"


class TestAccess:
    def test_without_a_token_there_is_none(self, bus):
        with Peer(bus) as peer:
            for attach in (peer.attach_sender, peer.attach_receiver):
                attach("mail")
                assert peer.expect(Detach).error.value[0] == "amqp:unauthorized-access"

    @pytest.mark.parametrize(
        ("resource", "allowed"),
        [
            ("sb://x/", True),
            ("sb://x/mail", True),
            ("sb://x/MAIL", True),
            ("sb://x/ma", False),
            ("sb://x/mail/more", False),
        ],
    )
    def test_a_token_is_good_for_what_it_names(self, bus, resource, allowed):
        with Peer(bus) as peer:
            assert peer.log_in(resource) == 202
            answer = peer.attach_sender("mail")

            assert (answer.target is not None) == allowed

    def test_a_token_for_a_queue_is_good_for_what_belongs_to_it(self, bus):
        with Peer(bus) as peer:
            peer.log_in("sb://x/mail")

            for handle, part in enumerate(["$DeadLetterQueue", "$management", "$DeadLetterQueue/$management"], start=1):
                assert peer.attach_receiver(f"mail/{part}", handle=handle).source is not None

    @pytest.mark.parametrize("wrong", [{"key": "guess"}, {"expiry": 1}])
    def test_a_wrong_or_old_token_is_refused(self, bus, wrong):
        with Peer(bus) as peer:
            assert peer.log_in(**wrong) == 401


def test_an_unknown_operation_is_answered(bus):
    with Peer(bus) as peer:
        peer.log_in()
        peer.attach_sender("mail/$management")
        peer.expect(Flow)
        peer.attach_receiver("mail/$management")
        request = encode(Described(ULong(0x74), {"operation": "com.microsoft:dance"}))
        peer.transfer(0, message(message_id=UInt(7)) + request + encode(Described(ULong(0x77), {})))
        peer.expect(Disposition)
        peer.flow(1, 1, seen=1)  # the answer has waited for credit

        _, payload = peer.expect(Transfer)

        _, application, _ = read_request(payload)
        assert (application["statusCode"], application["errorCondition"]) == (501, "amqp:not-implemented")


@pytest.mark.parametrize(
    "nonsense",
    [b"\x00\x00\x00\x04\x02\x00\x00\x00", frame(0, b"\x3f"), frame(7, Flow(**dict.fromkeys(
        ["incoming_window", "next_outgoing_id", "outgoing_window"], 1)).encoded())],
    ids=["size", "constructor", "channel"],
)  # fmt: skip
def test_nonsense_closes_the_connection_with_a_reason(bus, nonsense):
    with Peer(bus) as peer:
        peer.socket.sendall(nonsense)

        assert peer.expect(Close).error.value[0] == "amqp:decode-error"
        with pytest.raises(EOFError):
            peer.hear()


def test_a_client_that_asks_for_heartbeats_gets_them(bus):
    with Peer(bus, idle_time_out=20) as peer:
        assert peer.hear() == (None, b"")


def test_another_protocol_is_not_answered(bus):
    with socket.create_connection((bus.host, bus.port), timeout=5) as client:
        client.sendall(b"AMQP\x00\x00\x09\x01")

        assert b"amqp:decode-error" in client.recv(1000)
