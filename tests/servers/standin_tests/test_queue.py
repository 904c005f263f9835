"""The model of a queue, without a socket: locks, deliveries and the clock."""

from collections import Counter
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from onward.base.clock import SECOND
from onward.testing import FakeClock
from tests.servers.servicebus_standin import QueueOptions, State
from tests.servers.servicebus_standin.errors import EntityNotFound, LockLost, MessageNotFound, NotSupported
from tests.servers.servicebus_standin.message import Content
from tests.servers.servicebus_standin.namespace import Namespace
from tests.servers.servicebus_standin.queue import Queue

LOCK = 30


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def queue(clock):
    return Queue("mail", QueueOptions(lock_duration=LOCK, max_delivery_count=3), clock)


def put(queue, *names, **content):
    return [queue.put(Content(message_id=name, **content)) for name in names]


def names(messages):
    return [message.content.message_id for message in messages]


def take(queue):
    message = queue.take()
    return message and message.content.message_id


def test_messages_come_in_the_order_they_were_put(queue):
    put(queue, "a", "b", "c")

    assert [take(queue), take(queue), take(queue), take(queue)] == ["a", "b", "c", None]


def test_a_message_goes_back_to_its_place(queue):
    put(queue, "a", "b", "c")
    first = queue.take()
    queue.take()

    queue.abandon(first.lock.token)

    assert [take(queue), take(queue)] == ["a", "c"]


def test_a_lock_holds_until_its_last_moment(queue, clock):
    put(queue, "a")
    token = queue.take().lock.token

    clock.advance(LOCK - 0.000001)
    assert queue.take() is None
    clock.advance(0.000001)

    again = queue.take()
    assert again.delivery_count == 1
    assert again.lock.token != token


@pytest.mark.parametrize("verb", ["complete", "abandon", "release", "defer", "bury", "renew"])
def test_an_expired_lock_settles_nothing(queue, clock, verb):
    put(queue, "a")
    token = queue.take().lock.token
    clock.advance(LOCK)

    with pytest.raises(LockLost):
        getattr(queue, verb)(token)

    assert names(queue.peek()) == ["a"]


@pytest.mark.parametrize("verb", ["complete", "abandon", "release", "defer", "bury"])
def test_nothing_is_settled_twice(queue, verb):
    put(queue, "a")
    token = queue.take().lock.token
    getattr(queue, verb)(token)

    with pytest.raises(LockLost):
        queue.complete(token)


def test_a_renewed_lock_begins_anew(queue, clock):
    put(queue, "a")
    token = queue.take().lock.token
    for _ in range(5):
        clock.advance(LOCK - 1)
        assert queue.renew(token).lock.until == clock.micros() + LOCK * SECOND

    assert queue.complete(token).delivery_count == 0


def test_a_released_delivery_does_not_count(queue):
    put(queue, "a")
    for _ in range(10):
        queue.release(queue.take().lock.token)

    assert queue.take().delivery_count == 0


@pytest.mark.parametrize("fail", ["abandon", "expire"])
def test_the_last_allowed_delivery_makes_a_dead_letter(queue, clock, fail):
    put(queue, "a")
    for count in range(3):
        message = queue.take()
        assert message.delivery_count == count
        queue.abandon(message.lock.token) if fail == "abandon" else clock.advance(LOCK)

    assert queue.take() is None
    (dead,) = queue.dead_letters.peek()
    assert dead.dead_letter.reason == "MaxDeliveryCountExceeded"
    assert dead.delivery_count == 3


def test_dead_letters_are_delivered_as_often_as_it_takes(queue):
    put(queue, "a")
    queue.bury(queue.take().lock.token, "why", "because")
    for _ in range(10):
        queue.dead_letters.abandon(queue.dead_letters.take().lock.token)

    dead = queue.dead_letters.take()
    assert (dead.dead_letter.reason, dead.dead_letter.description) == ("why", "because")
    with pytest.raises(NotSupported):
        queue.dead_letters.bury(dead.lock.token)
    queue.dead_letters.complete(dead.lock.token)


def test_scheduled_messages_wait_for_the_clock(queue, clock):
    due = clock.micros() + 60 * SECOND
    (number,) = put(queue, "later", scheduled_at=due)
    put(queue, "now")
    assert queue.next_change_at() == due
    assert [message.state for message in queue.peek()] == [State.SCHEDULED, State.ACTIVE]
    assert [take(queue), take(queue)] == ["now", None]

    clock.advance(60)

    (message,) = [message for message in queue.peek() if message.content.message_id == "later"]
    assert message.sequence_number > number, "it is appended as if it had been put now"
    assert message.enqueued_at == due
    with pytest.raises(MessageNotFound):
        queue.cancel([number])


def test_what_was_due_before_it_was_put_is_active(queue, clock):
    put(queue, "late", scheduled_at=clock.micros() - 1)

    assert take(queue) == "late"


def test_cancelling_takes_all_or_none(queue, clock):
    numbers = put(queue, "a", "b", scheduled_at=clock.micros() + SECOND)

    with pytest.raises(MessageNotFound):
        queue.cancel([*numbers, 99])
    assert names(queue.peek()) == ["a", "b"]

    queue.cancel(numbers)
    clock.advance(2)
    assert queue.take() is None


def test_deferred_messages_are_taken_by_number(queue, clock):
    (number,) = put(queue, "a")
    queue.defer(queue.take().lock.token)
    assert queue.take() is None

    (message,) = queue.take_deferred([number])
    with pytest.raises(MessageNotFound):
        queue.take_deferred([number])
    clock.advance(LOCK)

    assert [each.state for each in queue.peek()] == [State.DEFERRED], "an expired lock leaves it deferred"
    (message,) = queue.take_deferred([number])
    assert message.delivery_count == 2
    queue.complete(message.lock.token)


def test_deferred_messages_can_be_deleted_as_they_are_taken(queue):
    (number,) = put(queue, "a")
    queue.defer(queue.take().lock.token)

    assert names(queue.take_deferred([number], delete=True)) == ["a"]

    assert queue.peek() == []


def test_peeking_pages_by_number(queue):
    numbers = put(queue, *"abcde")

    assert names(queue.peek(limit=2)) == ["a", "b"]
    assert names(queue.peek(numbers[3])) == ["d", "e"]


def test_a_seen_id_is_dropped_while_it_is_remembered(clock):
    queue = Queue("mail", QueueOptions(duplicate_detection_window=timedelta(minutes=10)), clock)
    put(queue, "a", "b")
    queue.complete(queue.take().lock.token)

    put(queue, "a", None, None)
    assert names(queue.peek()) == ["b", None, None]

    clock.advance(600)
    put(queue, "a")
    assert names(queue.peek()) == ["b", None, None, "a"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_message_that_has_outlived_its_time_is_dropped_or_dead(clock, keep):
    queue = Queue("mail", QueueOptions(default_time_to_live=60, dead_letter_on_expiration=keep), clock)
    put(queue, "short", time_to_live=10 * SECOND)
    put(queue, "default", time_to_live=100 * SECOND)

    clock.advance(10)
    assert names(queue.peek()) == ["default"]
    clock.advance(50)

    assert queue.take() is None
    assert names(queue.dead_letters.peek()) == (["short", "default"] if keep else [])


def test_a_lock_keeps_a_message_alive(clock):
    queue = Queue("mail", QueueOptions(default_time_to_live=10, lock_duration=LOCK), clock)
    put(queue, "held", "given back")
    held, other = queue.take(), queue.take()

    clock.advance(20)

    assert queue.complete(held.lock.token).content.message_id == "held"
    queue.abandon(other.lock.token)
    assert queue.peek() == []


def test_clearing_forgets_everything_but_the_numbers(queue):
    (last,) = put(queue, "a")
    token = queue.take().lock.token

    queue.clear()

    with pytest.raises(LockLost):
        queue.complete(token)
    assert put(queue, "b") == [last + 1]


@pytest.mark.parametrize(
    "wrong",
    [{"lock_duration": 0}, {"max_delivery_count": 0}, {"default_time_to_live": -1}, {"duplicate_detection_window": 0}],
)
def test_options_must_make_sense(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        QueueOptions(**wrong)


class TestNamespace:
    @pytest.fixture
    def namespace(self, clock):
        return Namespace({"mail": QueueOptions(), "a/b": QueueOptions()}, clock)

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("mail", "mail"),
            ("MAIL", "mail"),
            ("a/b/", "a/b"),
            ("amqps://127.0.0.1:5671/mail", "mail"),
            ("mail/$DeadLetterQueue", "mail/$deadletterqueue"),
        ],
    )
    def test_queues_are_found_as_clients_write_them(self, namespace, path, name):
        assert namespace.find(path).name == name

    def test_others_are_not_found(self, namespace):
        with pytest.raises(EntityNotFound, match="Queues: mail, a/b"):
            namespace.find("post")

    @pytest.mark.parametrize("name", ["", "$cbs", "mail/$management", "Mail"])
    def test_names_are_free_and_the_callers(self, namespace, name):
        with pytest.raises(ValueError, match="queue"):
            namespace.add(name, QueueOptions())

    def test_the_next_change_is_that_of_any_queue(self, namespace, clock):
        assert namespace.next_change_at() is None
        put(namespace.find("mail"), "a", scheduled_at=clock.micros() + 9)
        put(namespace.find("a/b"), "a", scheduled_at=clock.micros() + 5)

        assert namespace.next_change_at() == clock.micros() + 5
        clock.advance(1)
        namespace.advance()
        assert namespace.next_change_at() is None


class Machine(RuleBasedStateMachine):
    """Any sequence of commands: no message is lost, none is in two places, and no two holders have the same one."""

    tokens = Bundle("tokens")

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.queue = Queue("mail", QueueOptions(lock_duration=LOCK, max_delivery_count=4), self.clock)
        self.put_in: list[int] = []
        self.taken_out: list[int] = []
        self.held: dict[UUID, tuple[int, int]] = {}

    @rule(delay=st.sampled_from([0, 10, 100]))
    def put(self, delay):
        name = len(self.put_in)
        scheduled_at = self.clock.micros() + delay * SECOND if delay else None
        self.queue.put(Content(message_id=name, scheduled_at=scheduled_at))
        self.put_in.append(name)

    @rule(target=tokens)
    def take(self):
        message = self.queue.take()
        if message is None:
            return uuid4()
        name = message.content.message_id
        assert name not in {holder for holder, until in self.held.values() if until > self.clock.micros()}
        self.held[message.lock.token] = (name, message.lock.until)
        return message.lock.token

    @rule(token=consumes(tokens), verb=st.sampled_from(["complete", "abandon", "release", "defer", "bury"]))
    def settle(self, token, verb):
        name, until = self.held.pop(token, (None, 0))
        if until <= self.clock.micros():
            with pytest.raises(LockLost):
                getattr(self.queue, verb)(token)
            return
        getattr(self.queue, verb)(token)
        if verb == "complete":
            self.taken_out.append(name)

    @rule(token=tokens)
    def renew(self, token):
        name, until = self.held.get(token, (None, 0))
        if until > self.clock.micros():
            self.held[token] = (name, self.queue.renew(token).lock.until)

    @rule(seconds=st.sampled_from([1, LOCK, 100]))
    def wait(self, seconds):
        self.clock.advance(seconds)

    @invariant()
    def every_message_is_somewhere_once(self):
        there = names(self.queue.peek()) + names(self.queue.dead_letters.peek())
        assert Counter(there + self.taken_out) == Counter(self.put_in)


Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_no_sequence_of_commands_loses_a_message = Machine.TestCase
