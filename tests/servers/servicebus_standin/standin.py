"""The stand-in as a test sees it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from onward.base.clock import Clock, SystemClock
from tests.servers.servicebus_standin.broker import Broker
from tests.servers.servicebus_standin.certificate import Certificate
from tests.servers.servicebus_standin.errors import StandinError
from tests.servers.servicebus_standin.journal import Command, Journal, Kind
from tests.servers.servicebus_standin.namespace import Namespace
from tests.servers.servicebus_standin.options import QueueOptions
from tests.servers.servicebus_standin.queue import Stored
from tests.servers.servicebus_standin.sas import Keys
from tests.servers.servicebus_standin.server import Server

__all__ = ["ServiceBusStandin"]

_AMQPS = 5671


class ServiceBusStandin:
    """A Service Bus namespace in this process, for as long as a ``with`` block lasts.

    Args:
        queues: their names, with options or without.
        clock: what locks and schedules obey.  One that a test moves is looked at every 20 ms; ``tick()`` looks at once.
        tls: speak TLS, as Azure does.  The SDK then uses port 5671 and no other, so each stand-in has a loopback address
            of its own.
        host: where to listen.
        port: where to listen; 0 chooses a free one.
        key_name: the name of the shared access key.
        key: the shared access key.
        bearer_tokens: what a credential's ``get_token`` may return to be let in.
        max_message_size: in bytes, for a message and for a batch.

    >>> with ServiceBusStandin({"mail": QueueOptions(lock_duration=30)}, port=0) as bus:
    ...     bus.connection_string.partition(";")[0].startswith("Endpoint=sb://127.0.0.1:")
    True
    """

    def __init__(
        self,
        queues: Mapping[str, QueueOptions] | Iterable[str],
        *,
        clock: Clock | None = None,
        tls: bool = False,
        host: str | None = None,
        port: int | None = None,
        key_name: str = "standin",
        key: str = "bm90LWEtc2VjcmV0",
        bearer_tokens: Iterable[str] = (),
        max_message_size: int = 256 * 1024,
    ) -> None:
        clock = clock or SystemClock()
        named = queues if isinstance(queues, Mapping) else dict.fromkeys(queues, QueueOptions())
        self.host = host or (_loopback_address() if tls else "127.0.0.1")
        self.tls = tls
        self._journal = Journal()
        self._namespace = Namespace(named, clock)
        self._keys = Keys(name=key_name, key=key, bearer_tokens=frozenset(bearer_tokens))
        self._certificate = Certificate(self.host)
        self._server = Server(
            Broker(self._namespace, self._journal, self._keys, max_message_size=max_message_size),
            self._certificate,
            self.host,
            (_AMQPS if tls else 0) if port is None else port,
            clock_runs=isinstance(clock, SystemClock),
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        self._certificate.remove()

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def connection_string(self) -> str:
        """What ``from_connection_string`` of the SDK takes."""
        if not self.port:
            raise StandinError("there is no port yet: use the stand-in in a with block, or start() it")
        # The flag is how the SDK is told to speak plain text, and to keep the port.
        flag = "" if self.tls else "UseDevelopmentEmulator=true;"
        endpoint = f"Endpoint=sb://{self.host}:{self.port}/"
        return f"{endpoint};SharedAccessKeyName={self._keys.name};SharedAccessKey={self._keys.key};{flag}"

    @property
    def certificate(self) -> Path:
        """The file that a client must trust: ``connection_verify=str(bus.certificate)``."""
        return self._certificate.file

    def start(self) -> None:
        """Listen: on the port it had, if it had one."""
        self._server.start()

    def stop(self) -> None:
        """Die, as a server does whose plug is pulled.  Messages and locks are kept for the next ``start``."""
        self._server.stop()

    def drop_connections(self) -> int:
        """Cut all connections, and say how many.  Locks stay, until they expire."""
        return self._server.call(self._server.drop_connections)

    def tick(self) -> None:
        """Do now what the clock says is due.  Who has moved the clock need not wait for the stand-in to notice."""
        self._server.call(self._server.pump)

    def add_queue(self, name: str, options: QueueOptions | None = None) -> None:
        self._server.call(lambda: self._namespace.add(name, options or QueueOptions()))

    def clear(self) -> None:
        """Forget all messages, commands, refusals and triggers: what a stand-in for many tests needs between two."""
        self._server.call(self._namespace.clear)
        self._journal.clear()

    def messages(self, queue: str) -> list[Stored]:
        """Everything in a queue, in any state: ``bus.messages("mail")``, ``bus.messages("mail/$deadletterqueue")``."""
        found = self._namespace.find(queue)
        return self._server.call(lambda: [replace(message) for message in found.peek()])

    @property
    def commands(self) -> list[Command]:
        """What clients have asked for, in order, and the deliveries between."""
        return self._journal.commands()

    def count(self, *kinds: Kind) -> int:
        """How many commands of these kinds have come; of any kind, if none is named.  Deliveries count when named."""
        return self._journal.count(*kinds)

    def wait_for(self, count: int, *kinds: Kind, timeout: float = 10) -> None:
        """Return when so many commands of these kinds have come."""
        if not self._journal.wait_for(count, *kinds, timeout=timeout):
            names = ", ".join(kinds) or "commands"
            raise StandinError(f"{self.count(*kinds)} of {count} {names} came within {timeout:g} seconds")

    def after(self, nth: int, *kinds: Kind, do: Callable[[], object]) -> None:
        """Call ``do`` when the nth command from now was applied, and before it is answered.

        ``do`` runs on the stand-in's thread, so it must not wait for the stand-in: kill a process there, ``stop`` the
        stand-in, or ``drop_connections``.
        """
        self._journal.after(nth, kinds, do)

    def refuse(
        self,
        *kinds: Kind,
        times: int = 1,
        condition: str = "com.microsoft:message-lock-lost",
        description: str = "The test refuses it.",
    ) -> None:
        """Answer the next commands of these kinds with an error, and do nothing else.

        The SDK repeats what was refused for another reason than a lost lock: see ``retry_total``.
        """
        self._journal.refuse(kinds, times, condition, description)


def _loopback_address() -> str:
    """One of the sixteen million that Linux has."""
    return f"127.{random.randint(1, 254)}.{random.randint(0, 254)}.{random.randint(2, 254)}"
