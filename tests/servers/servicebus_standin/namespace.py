"""All queues by their paths, as a client writes them: ``mail``, ``mail/$DeadLetterQueue``.  Pure, like the queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from onward.base.clock import Clock
from tests.servers.servicebus_standin.errors import EntityNotFound
from tests.servers.servicebus_standin.options import QueueOptions
from tests.servers.servicebus_standin.queue import Queue

__all__ = ["Namespace", "entity_path"]


class Namespace:
    def __init__(self, queues: Mapping[str, QueueOptions], clock: Clock) -> None:
        self.clock = clock
        self._queues: dict[str, Queue] = {}
        for name, options in queues.items():
            self.add(name, options)

    def __iter__(self) -> Iterator[Queue]:
        """Every queue; behind each the queue of its dead letters."""
        return iter(self._queues.values())

    def add(self, name: str, options: QueueOptions) -> Queue:
        if not name or name.startswith("$") or "/$" in name:
            raise ValueError(f"{name!r} cannot be the name of a queue: names with $ are the service's own")
        if name.lower() in self._queues:
            raise ValueError(f"there is a queue {name!r} already: names ignore case")
        queue = Queue(name, options, self.clock)
        assert queue.dead_letters is not None
        for each in (queue, queue.dead_letters):
            self._queues[each.name.lower()] = each
        return queue

    def find(self, path: str) -> Queue:
        queue = self._queues.get(entity_path(path).lower())
        if queue is None:
            known = ", ".join(queue.name for queue in self if queue.dead_letters) or "none"
            raise EntityNotFound(f"The messaging entity '{entity_path(path)}' could not be found. Queues: {known}.")
        return queue

    def clear(self) -> None:
        for queue in self:
            queue.clear()

    def advance(self) -> None:
        for queue in self:
            queue.advance()

    def next_change_at(self) -> int | None:
        instants = (queue.next_change_at() for queue in self)
        return min((instant for instant in instants if instant is not None), default=None)


def entity_path(address: str) -> str:
    """The path of an entity, with or without the address of its namespace.

    >>> entity_path("amqps://127.0.0.1:5671/mail/$DeadLetterQueue"), entity_path("mail/")
    ('mail/$DeadLetterQueue', 'mail')
    """
    return (urlsplit(address).path if "://" in address else address).strip("/")
