"""Every operation of the stand-in, asked for by the unmodified SDK, sync and async."""

from datetime import timedelta
from itertools import pairwise

import pytest
from azure.servicebus import (
    ServiceBusMessage,
    ServiceBusMessageState,
    ServiceBusReceiveMode,
)
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
)

from tests.servers.servicebus_standin import QueueOptions, State
from tests.servers.servicebus_standin.codec import Described, ULong, encode
from tests.servers.servicebus_standin.message import Content
from tests.servers.standin_tests.conftest import LOCK, MOST_DELIVERIES

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # sockets that the SDK forgets

SOON = 5  # seconds that the SDK may wait for a message that is there
BRIEFLY = 0.2  # and for one that is not


def receive(receiver, count=1, *, wait=SOON):
    return receiver.receive_messages(max_message_count=count, max_wait_time=wait)


def receive_one(receiver):
    (message,) = receive(receiver)
    return message


def seed(bus, queue, count):
    """Messages m0, m1, ...: without a sender, which would take half a second to open."""
    for number in range(count):
        raw = encode(Described(ULong(0x75), b"m%d" % number))
        bus._server.call(lambda raw=raw: bus._namespace.find(queue).put(Content.parse(raw)))


def body(message):
    return b"".join(message.body)


def test_a_message_arrives_as_it_was_sent(sdk, bus):
    sdk.sender.send_messages(
        ServiceBusMessage(
            b'{"n":1}',
            message_id="m1",
            application_properties={"task": "a.b", "n": 1, "share": 0.5, "really": True},
            correlation_id="c1",
            subject="greeting",
            content_type="application/json",
        )
    )

    message = receive_one(sdk.receiver)

    assert body(message) == b'{"n":1}'
    assert message.message_id == "m1"
    assert message.correlation_id == "c1"
    assert message.subject == "greeting"
    assert message.content_type == "application/json"
    assert message.application_properties == {b"task": b"a.b", b"n": 1, b"share": 0.5, b"really": True}
    assert message.state is ServiceBusMessageState.ACTIVE


def test_it_comes_with_the_facts_of_the_broker(sdk, bus, clock):
    sdk.sender.send_messages(ServiceBusMessage("hello"))

    message = receive_one(sdk.receiver)
    (stored,) = bus.messages("mail")

    assert message.delivery_count == 0
    assert message.sequence_number == stored.sequence_number
    assert message.lock_token == stored.lock.token
    assert message.enqueued_time_utc == clock.now()
    assert message.locked_until_utc == clock.now() + timedelta(seconds=LOCK)


def test_a_completed_message_is_gone(sdk, bus, clock):
    sdk.sender.send_messages(ServiceBusMessage("once"))

    sdk.receiver.complete_message(receive_one(sdk.receiver))

    assert bus.messages("mail") == []
    assert bus.count("send", "complete") == 2


def test_a_locked_message_is_given_to_no_other(sdk, bus):
    sdk.sender.send_messages(ServiceBusMessage("mine"))
    message = receive_one(sdk.receiver)

    assert receive(sdk.receiver, wait=BRIEFLY) == []

    sdk.receiver.complete_message(message)


def test_an_abandoned_message_comes_again_and_counts(sdk, bus):
    sdk.sender.send_messages(ServiceBusMessage("again"))
    sdk.receiver.abandon_message(receive_one(sdk.receiver))

    message = receive_one(sdk.receiver)

    assert (body(message), message.delivery_count) == (b"again", 1)


def test_too_many_deliveries_end_in_the_dead_letter_queue(sdk, bus):
    sdk.sender.send_messages(ServiceBusMessage("poison"))
    for _ in range(MOST_DELIVERIES):
        sdk.receiver.abandon_message(receive_one(sdk.receiver))

    message = receive_one(sdk.dead)

    assert body(message) == b"poison"
    assert message.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert message.delivery_count == MOST_DELIVERIES
    assert bus.messages("mail") == []


def test_a_dead_letter_keeps_its_reason_and_can_be_settled(sdk, bus):
    sdk.sender.send_messages(ServiceBusMessage("broken", application_properties={"a": 1}))
    sdk.receiver.dead_letter_message(receive_one(sdk.receiver), reason="Poison", error_description="no such user")

    message = receive_one(sdk.dead)

    assert message.dead_letter_reason == "Poison"
    assert message.dead_letter_error_description == "no such user"
    assert message.application_properties[b"a"] == 1

    sdk.dead.complete_message(message)

    assert bus.messages("mail/$DeadLetterQueue") == []


def test_dead_letters_can_be_peeked_at(sdk, bus):
    sdk.sender.send_messages([ServiceBusMessage(f"d{number}") for number in range(3)])
    for message in receive(sdk.receiver, 3):
        sdk.receiver.dead_letter_message(message, reason="r")

    peeked = sdk.dead.peek_messages(max_message_count=10, sequence_number=0)

    assert [body(message) for message in peeked] == [b"d0", b"d1", b"d2"]


def test_a_deferred_message_waits_for_who_knows_its_number(sdk, bus):
    sdk.sender.send_messages(ServiceBusMessage("later"))
    deferred = receive_one(sdk.receiver)
    sdk.receiver.defer_message(deferred)

    assert receive(sdk.receiver, wait=BRIEFLY) == []

    (message,) = sdk.receiver.receive_deferred_messages([deferred.sequence_number])
    assert body(message) == b"later"

    sdk.receiver.complete_message(message)

    assert bus.messages("mail") == []


@pytest.mark.parametrize("verb", ["abandon_message", "defer_message", "dead_letter_message", "complete_message"])
def test_a_deferred_message_is_settled_through_the_management_link(sdk, bus, verb):
    sdk.sender.send_messages(ServiceBusMessage("later"))
    deferred = receive_one(sdk.receiver)
    sdk.receiver.defer_message(deferred)
    (message,) = sdk.receiver.receive_deferred_messages([deferred.sequence_number])

    getattr(sdk.receiver, verb)(message)

    stays = {"abandon_message": [State.DEFERRED], "defer_message": [State.DEFERRED]}
    assert [each.state for each in bus.messages("mail")] == stays.get(verb, [])
    assert len(bus.messages("mail/$deadletterqueue")) == (verb == "dead_letter_message")


def test_an_unknown_number_is_not_found(sdk, bus):
    with pytest.raises(MessageNotFoundError):
        sdk.receiver.receive_deferred_messages([4711])


def test_a_lock_that_expires_gives_the_message_to_another(sdk, bus, clock):
    sdk.sender.send_messages(ServiceBusMessage("slow"))
    late = receive_one(sdk.receiver)

    clock.advance(LOCK + 1)
    fresh = receive_one(sdk.receiver)

    assert fresh.delivery_count == 1
    with pytest.raises(MessageLockLostError):
        sdk.receiver.complete_message(late)
    sdk.receiver.complete_message(fresh)
    assert bus.messages("mail") == []


@pytest.mark.parametrize(
    "verb", ["complete_message", "abandon_message", "dead_letter_message", "defer_message", "renew_message_lock"]
)
def test_whatever_comes_after_the_lock_is_refused(sdk, bus, clock, verb):
    sdk.sender.send_messages(ServiceBusMessage("slow"))
    late = receive_one(sdk.receiver)

    clock.advance(LOCK)

    with pytest.raises(MessageLockLostError):
        getattr(sdk.receiver, verb)(late)
    assert [message.delivery_count for message in bus.messages("mail")] == [1]


def test_a_renewed_lock_lasts(sdk, bus, clock):
    sdk.sender.send_messages(ServiceBusMessage("long"))
    message = receive_one(sdk.receiver)

    clock.advance(LOCK - 1)
    until = sdk.receiver.renew_message_lock(message)
    clock.advance(LOCK - 1)
    sdk.receiver.complete_message(message)

    assert until == clock.now() + timedelta(seconds=1)
    assert bus.messages("mail") == []


def test_scheduled_messages_come_when_they_are_due(sdk, bus, clock):
    due = clock.now() + timedelta(hours=1)
    sdk.sender.schedule_messages(ServiceBusMessage("by call"), due)
    sdk.sender.send_messages(ServiceBusMessage("by property", scheduled_enqueue_time_utc=due))
    waiting = sdk.receiver.peek_messages(max_message_count=10, sequence_number=0)
    assert [message.state for message in waiting] == [ServiceBusMessageState.SCHEDULED] * 2
    assert receive(sdk.receiver, wait=BRIEFLY) == []

    clock.advance(3600)

    assert [body(receive_one(sdk.receiver)) for _ in waiting] == [b"by call", b"by property"]


def test_a_cancelled_message_never_comes(sdk, bus, clock):
    due = clock.now() + timedelta(hours=1)
    numbers = sdk.sender.schedule_messages([ServiceBusMessage("a"), ServiceBusMessage("b")], due)

    sdk.sender.cancel_scheduled_messages(numbers)

    assert bus.messages("mail") == []
    with pytest.raises(MessageNotFoundError):
        sdk.sender.cancel_scheduled_messages(numbers)


def test_peeking_locks_nothing(sdk, bus):
    sdk.sender.send_messages([ServiceBusMessage(f"p{number}") for number in range(5)])

    peeked = sdk.receiver.peek_messages(max_message_count=3, sequence_number=0)

    assert [body(message) for message in peeked] == [b"p0", b"p1", b"p2"]
    assert [message.delivery_count for message in bus.messages("mail")] == [0] * 5
    bus.clear()
    assert sdk.receiver.peek_messages(sequence_number=0) == []


def test_a_batch_is_many_messages_and_one_command(sdk, bus):
    batch = sdk.sender.create_message_batch()
    for number in range(100):
        batch.add_message(ServiceBusMessage(f"b{number}", message_id=f"b{number}"))

    sdk.sender.send_messages(batch)

    assert bus.count("send") == 1
    stored = bus.messages("mail")
    assert [message.content.message_id for message in stored] == [f"b{number}" for number in range(100)]
    assert all(one.sequence_number < next_one.sequence_number for one, next_one in pairwise(stored))


def test_a_large_message_travels_in_many_frames(sdk, bus):
    sdk.sender.send_messages(ServiceBusMessage(b"x" * 200_000))

    message = receive_one(sdk.receiver)

    assert body(message) == b"x" * 200_000
    sdk.receiver.complete_message(message)


@pytest.mark.parametrize("how", ["send", "schedule"])
def test_too_large_a_message_is_refused(sdk, bus, clock, how):
    message = ServiceBusMessage(b"x" * 256 * 1024)
    later = clock.now() + timedelta(hours=1)

    with pytest.raises(MessageSizeExceededError):
        sdk.sender.send_messages(message) if how == "send" else sdk.sender.schedule_messages(message, later)

    assert bus.messages("mail") == []


def test_no_more_is_handed_out_than_was_asked_for(sdk, bus):
    sdk.sender.send_messages([ServiceBusMessage(f"m{number}") for number in range(10)])

    got = receive(sdk.receiver, 4)

    assert len(got) == 4
    assert [message.lock is not None for message in bus.messages("mail")] == [True] * 4 + [False] * 6


def test_prefetched_messages_are_locked_ahead(sdk, bus):
    queue = f"prefetch-{id(sdk)}"
    bus.add_queue(queue, QueueOptions(lock_duration=LOCK))
    seed(bus, queue, 10)

    (receiver,) = sdk.open_receivers(queue, prefetch_count=4)
    receive_one(receiver)

    assert 4 <= sum(message.lock is not None for message in bus.messages(queue)) <= 6


def test_receive_and_delete_deletes(sdk, bus):
    queue = f"delete-{id(sdk)}"
    bus.add_queue(queue)
    seed(bus, queue, 2)
    (receiver,) = sdk.open_receivers(queue, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE)

    assert body(receive_one(receiver)) == b"m0"

    assert len(bus.messages(queue)) == 1


def test_several_receivers_share_the_work(sdk, bus):
    queue = f"shared-{id(sdk)}"
    bus.add_queue(queue)
    receivers = sdk.open_receivers(queue, 2)
    seed(bus, queue, 6)

    got = [[body(message) for message in receive(receiver, 3)] for receiver in receivers]

    assert sorted(got[0] + got[1]) == [b"m0", b"m1", b"m2", b"m3", b"m4", b"m5"]
    assert [len(each) for each in got] == [3, 3]


def test_an_id_that_was_seen_is_dropped_within_the_window(sdk, bus, clock):
    queue = f"unique-{id(sdk)}"
    bus.add_queue(queue, QueueOptions(duplicate_detection_window=600))
    sender = sdk.open_sender(queue)

    for _ in range(2):
        sender.send_messages(ServiceBusMessage("x", message_id="same"))
    assert len(bus.messages(queue)) == 1

    clock.advance(600)
    sender.send_messages(ServiceBusMessage("x", message_id="same"))
    assert len(bus.messages(queue)) == 2


def test_a_message_lives_as_long_as_its_sender_says(sdk, bus, clock):
    sdk.sender.send_messages(ServiceBusMessage("short", time_to_live=timedelta(seconds=10)))
    assert len(bus.messages("mail")) == 1

    clock.advance(11)

    assert bus.messages("mail") == []


def test_a_queue_that_is_not_there_is_not_found(sdk, bus):
    with pytest.raises(MessagingEntityNotFoundError, match="nowhere"):
        sdk.open_sender("nowhere")
