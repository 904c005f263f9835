"""The commands of clients on the queues, and the way of messages to those who wait for them.

Everything here runs on the server's one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeVar
from uuid import UUID

from tests.servers.servicebus_standin.errors import MessageTooLarge, Refusal
from tests.servers.servicebus_standin.journal import Command, Journal, Kind
from tests.servers.servicebus_standin.message import Content
from tests.servers.servicebus_standin.namespace import Namespace
from tests.servers.servicebus_standin.queue import Queue, Stored
from tests.servers.servicebus_standin.sas import Keys

__all__ = ["Broker", "Consumer", "Settlement"]

T = TypeVar("T")
Settlement = Literal["complete", "abandon", "release", "defer", "dead-letter"]


class Consumer(Protocol):
    """A link that a client receives from."""

    @property
    def has_room(self) -> bool:
        """Whether the client has given credit for one more message."""
        ...

    @property
    def deletes(self) -> bool:
        """Whether a message is gone when it was sent."""
        ...

    def hand(self, message: Stored) -> None: ...


class Broker:
    def __init__(self, namespace: Namespace, journal: Journal, keys: Keys, *, max_message_size: int) -> None:
        self.namespace = namespace
        self.journal = journal
        self.keys = keys
        self.max_message_size = max_message_size
        self.pumped: Callable[[], None] = lambda: None  # the time-keeper looks when it is next needed
        self._consumers: dict[Queue, list[Consumer]] = {}

    def send(self, queue: Queue, messages: Sequence[bytes], *, kind: Literal["send", "schedule"] = "send") -> list[int]:
        def store() -> list[int]:
            if (size := sum(map(len, messages))) > self.max_message_size:
                raise MessageTooLarge(f"The message has {size} bytes; the limit is {self.max_message_size}.")
            return [queue.put(content) for content in [Content.parse(raw) for raw in messages]]

        return self._command(kind, queue, store, lambda numbers: numbers)

    def cancel(self, queue: Queue, numbers: Iterable[int]) -> None:
        self._command("cancel", queue, lambda: queue.cancel(numbers), _numbers)

    def peek(self, queue: Queue, first: int, limit: int) -> list[Stored]:
        return self._command("peek", queue, lambda: queue.peek(first, limit), _numbers)

    def receive_deferred(self, queue: Queue, numbers: Iterable[int], *, delete: bool) -> list[Stored]:
        return self._command("receive-deferred", queue, lambda: queue.take_deferred(numbers, delete=delete), _numbers)

    def renew(self, queue: Queue, tokens: Iterable[UUID]) -> list[Stored]:
        return self._command("renew", queue, lambda: [queue.renew(token) for token in tokens], _numbers)

    def settle(
        self,
        how: Settlement,
        queue: Queue,
        tokens: Iterable[UUID],
        *,
        reason: str | None = None,
        description: str | None = None,
    ) -> None:
        verbs: dict[Settlement, Callable[[UUID], Stored]] = {
            "complete": queue.complete,
            "abandon": queue.abandon,
            "release": queue.release,
            "defer": queue.defer,
            "dead-letter": lambda token: queue.bury(token, reason, description),
        }
        self._command(how, queue, lambda: [verbs[how](token) for token in tokens], _numbers)

    def subscribe(self, queue: Queue, consumer: Consumer) -> None:
        self._consumers.setdefault(queue, []).append(consumer)

    def unsubscribe(self, queue: Queue, consumer: Consumer) -> None:
        """Nothing is given back: what the consumer has locked stays locked until it expires, as it does at Azure."""
        if consumer in (consumers := self._consumers.get(queue, [])):
            consumers.remove(consumer)

    def pump(self) -> None:
        """Hand out what waits, to the consumers in turn, as far as their credit goes."""
        self.namespace.advance()
        for queue, consumers in self._consumers.items():
            while queue.is_waiting and (consumer := next((each for each in consumers if each.has_room), None)):
                consumers.remove(consumer)
                consumers.append(consumer)
                if message := queue.take(delete=consumer.deletes):
                    consumer.hand(message)
                    self.journal.write(Command("deliver", queue.name, (message.sequence_number,)))
        self.pumped()

    def _command(self, kind: Kind, queue: Queue, act: Callable[[], T], numbers: Callable[[T], Iterable[int]]) -> T:
        """Apply it, or what a test has ordered in its place, and write it down before it is answered."""
        try:
            self.journal.check(kind)
            result = act()
        except Refusal as refusal:
            self.journal.write(Command(kind, queue.name, refused=refusal.condition))
            raise
        self.journal.write(Command(kind, queue.name, tuple(numbers(result))))
        return result


def _numbers(messages: Iterable[Stored]) -> Iterable[int]:
    return (message.sequence_number for message in messages)
