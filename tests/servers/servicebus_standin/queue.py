"""One queue: messages, their locks and the clock.  Pure: no socket, no thread, no AMQP.

                       (due)
    scheduled ───────────────────▶ active ──take──▶ locked ──complete──▶ gone
        │                            ▲ ▲              │ │ │
        └──cancel──▶ gone            │ └──abandon,────┘ │ └──dead_letter, too many deliveries──▶ dead letter
                                     │    release, (expired)
                                     │                  └──defer──▶ deferred ──take_deferred──▶ locked

Every method looks at the clock first, so that nothing that is overdue can still be seen.  A message goes back to the place
that its sequence number has.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count
from uuid import UUID, uuid4

from onward.base.clock import Clock
from tests.servers.servicebus_standin.errors import LockLost, MessageNotFound, NotSupported
from tests.servers.servicebus_standin.message import Content
from tests.servers.servicebus_standin.options import QueueOptions, micros

__all__ = ["DEAD_LETTER_SUFFIX", "DeadLetter", "Lock", "Queue", "State", "Stored"]

DEAD_LETTER_SUFFIX = "/$deadletterqueue"


class State(IntEnum):
    """The numbers are those of the annotation ``x-opt-message-state``."""

    ACTIVE = 0
    DEFERRED = 1
    SCHEDULED = 2


@dataclass(frozen=True, slots=True)
class Lock:
    token: UUID
    until: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    reason: str | None
    description: str | None


@dataclass(slots=True, eq=False)
class Stored:
    """A message in a queue."""

    content: Content
    sequence_number: int
    enqueued_at: int
    state: State = State.ACTIVE
    delivery_count: int = 0  # deliveries that ended without success: the first delivery says 0
    expires_at: int | None = None
    lock: Lock | None = None
    dead_letter: DeadLetter | None = None

    @property
    def is_ready(self) -> bool:
        return self.state is State.ACTIVE and self.lock is None


class Queue:
    def __init__(
        self, name: str, options: QueueOptions, clock: Clock, *, token: Callable[[], UUID] = uuid4, dead: bool = False
    ) -> None:
        self.name = name
        self.options = options
        self.dead_letters = None if dead else Queue(name + DEAD_LETTER_SUFFIX, options, clock, token=token, dead=True)
        self._clock = clock
        self._new_token = token
        self._numbers: Iterator[int] = count(1)
        self.clear()

    def clear(self) -> None:
        """Forget all messages, their locks and their ids.  Numbers go on."""
        self._messages: dict[int, Stored] = {}
        self._locked: dict[UUID, Stored] = {}
        self._seen: dict[object, int] = {}  # message id: until when it is remembered
        # Heaps may hold what has moved on since; the code that takes an entry checks it against the message.
        self._ready: list[int] = []
        self._due: list[tuple[int, int]] = []  # (instant, sequence number): scheduled messages
        self._lapsing: list[tuple[int, UUID]] = []  # locks, the first to expire first
        self._ageing: list[tuple[int, int]] = []  # times to live

    def put(self, content: Content) -> int:
        """Store a message, and say its number.  One that repeats a remembered id is accepted and dropped."""
        self.advance()
        number = next(self._numbers)
        if self._repeats(content):
            return number
        now = self._clock.micros()
        if content.scheduled_at is not None and content.scheduled_at > now:
            self._messages[number] = Stored(content, number, now, State.SCHEDULED)
            heapq.heappush(self._due, (content.scheduled_at, number))
        else:
            self._activate(content, number)
        return number

    def take(self, *, delete: bool = False) -> Stored | None:
        """Hand out the first message: locked, or gone at once."""
        self.advance()
        while self._ready:
            message = self._messages.get(heapq.heappop(self._ready))
            if message is not None and message.is_ready:
                return self._hand_out(message, delete=delete)
        return None

    def take_deferred(self, numbers: Iterable[int], *, delete: bool = False) -> list[Stored]:
        """Hand out deferred messages: all of them, or none."""
        self.advance()
        found = [self._find(number, State.DEFERRED) for number in numbers]
        return [self._hand_out(message, delete=delete) for message in found]

    def complete(self, token: UUID) -> Stored:
        return self._forget(self._unlock(token))

    def abandon(self, token: UUID) -> Stored:
        return self._give_back(self._unlock(token))

    def release(self, token: UUID) -> Stored:
        """Give a message back that was never looked at: the delivery does not count."""
        return self._make_ready(self._unlock(token))

    def defer(self, token: UUID) -> Stored:
        message = self._unlock(token)
        message.delivery_count += 1
        message.state = State.DEFERRED
        return message

    def bury(self, token: UUID, reason: str | None = None, description: str | None = None) -> Stored:
        """Make it a dead letter."""
        self._dead_letter_queue()
        return self._bury(self._unlock(token), reason, description)

    def renew(self, token: UUID) -> Stored:
        """Lock it anew, from now on."""
        message = self._held(token)
        self._lock(message, token)
        return message

    def cancel(self, numbers: Iterable[int]) -> list[Stored]:
        """Remove scheduled messages: all of them, or none."""
        self.advance()
        return [self._forget(message) for message in [self._find(number, State.SCHEDULED) for number in numbers]]

    def peek(self, first: int = 0, limit: int | None = None) -> list[Stored]:
        """Messages in any state, by number.  Nothing is locked."""
        self.advance()
        return [self._messages[number] for number in sorted(self._messages) if number >= first][:limit]

    @property
    def is_waiting(self) -> bool:
        """Whether there may be something to take."""
        return bool(self._ready)

    def advance(self) -> None:
        """Do what the clock says is due: promote, unlock, expire."""
        now = self._clock.micros()
        while self._due and self._due[0][0] <= now:
            _, number = heapq.heappop(self._due)
            if (message := self._messages.get(number)) and message.state is State.SCHEDULED:
                self._forget(message)
                self._activate(message.content, next(self._numbers))  # Azure gives it a new number, too
        while self._lapsing and self._lapsing[0][0] <= now:
            _, token = heapq.heappop(self._lapsing)
            message = self._locked.get(token)
            if message and message.lock and message.lock.until <= now:
                self._give_back(self._drop_lock(message))
        while self._ageing and self._ageing[0][0] <= now:
            _, number = heapq.heappop(self._ageing)
            self._expire(number, now)

    def next_change_at(self) -> int | None:
        """When the clock alone will next change something, or None."""
        heaps: tuple[list[tuple[int, int]] | list[tuple[int, UUID]], ...] = (self._due, self._lapsing, self._ageing)
        return min((heap[0][0] for heap in heaps if heap), default=None)

    def _repeats(self, content: Content) -> bool:
        window = self.options.duplicate_detection_window
        if window is None or content.message_id is None:
            return False
        now = self._clock.micros()
        if self._seen.get(content.message_id, now) > now:
            return True
        self._seen[content.message_id] = now + micros(window)
        return False

    def _activate(self, content: Content, number: int) -> None:
        now = self._clock.micros()
        default = self.options.default_time_to_live
        lives = [micros(default)] if default is not None else []
        if content.time_to_live is not None:
            lives.append(content.time_to_live)
        expires_at = now + min(lives) if lives else None
        message = Stored(content, number, now, expires_at=expires_at)
        self._messages[number] = message
        if expires_at is not None:
            heapq.heappush(self._ageing, (expires_at, number))
        heapq.heappush(self._ready, number)

    def _hand_out(self, message: Stored, *, delete: bool) -> Stored:
        if delete:
            self._forget(message)
        else:
            self._lock(message, self._new_token())
        return message

    def _lock(self, message: Stored, token: UUID) -> None:
        until = self._clock.micros() + micros(self.options.lock_duration)
        message.lock = Lock(token, until)
        self._locked[token] = message
        heapq.heappush(self._lapsing, (until, token))

    def _held(self, token: UUID) -> Stored:
        self.advance()
        if (message := self._locked.get(token)) is None:
            raise LockLost(
                "The lock supplied is invalid. Either the lock expired, or the message has already been settled."
            )
        return message

    def _unlock(self, token: UUID) -> Stored:
        return self._drop_lock(self._held(token))

    def _drop_lock(self, message: Stored) -> Stored:
        assert message.lock is not None
        del self._locked[message.lock.token]
        message.lock = None
        return message

    def _give_back(self, message: Stored) -> Stored:
        """A delivery has failed.  One too many ends in the dead-letter queue, which itself has no such limit."""
        message.delivery_count += 1
        most = self.options.max_delivery_count
        if self.dead_letters is not None and message.delivery_count >= most:
            return self._bury(
                message,
                "MaxDeliveryCountExceeded",
                f"Message could not be consumed after {most} delivery attempts.",
            )
        return self._make_ready(message)

    def _make_ready(self, message: Stored) -> Stored:
        if message.state is State.ACTIVE:
            heapq.heappush(self._ready, message.sequence_number)
            if message.expires_at is not None:  # it may have outlived its time while it was locked
                heapq.heappush(self._ageing, (message.expires_at, message.sequence_number))
        return message

    def _bury(self, message: Stored, reason: str | None, description: str | None) -> Stored:
        self._dead_letter_queue().adopt(self._forget(message), DeadLetter(reason, description))
        return message

    def adopt(self, message: Stored, dead_letter: DeadLetter) -> None:
        """Take over a message that died in the queue this belongs to.  Dead letters do not expire."""
        message.state = State.ACTIVE
        message.dead_letter = dead_letter
        message.expires_at = None
        self._messages[message.sequence_number] = message
        heapq.heappush(self._ready, message.sequence_number)

    def _dead_letter_queue(self) -> Queue:
        if self.dead_letters is None:
            raise NotSupported(f"{self.name} has no dead-letter queue of its own", condition="amqp:not-allowed")
        return self.dead_letters

    def _expire(self, number: int, now: int) -> None:
        message = self._messages.get(number)
        if message is None or message.lock is not None or message.expires_at is None or message.expires_at > now:
            return
        if self.dead_letters is not None and self.options.dead_letter_on_expiration:
            self._bury(message, "TTLExpiredException", "The message expired and was dead lettered.")
        else:
            self._forget(message)

    def _find(self, number: int, state: State) -> Stored:
        message = self._messages.get(number)
        if message is None or message.state is not state or message.lock is not None:
            raise MessageNotFound(f"{self.name} has no {state.name.lower()} message {number}")
        return message

    def _forget(self, message: Stored) -> Stored:
        return self._messages.pop(message.sequence_number)
