"""The clients and links to one Service Bus namespace, and the settings of its queues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from onward.backends.servicebus.driver import default_credential, http, management, sdk
from onward.backends.servicebus.links import Receiver, Sender
from onward.backends.servicebus.settings import QueueSettings, admitted, create_command
from onward.backends.servicebus.url import Address
from onward.errors import BackendError, BackendMisconfigured, BackendUnavailable, Unsupported

__all__ = ["Bus"]

Link = TypeVar("Link", Sender, Receiver)

_PAUSE = 0.1  # seconds before the SDK repeats something, then twice as many
_REPEATS = 2
_CLOSED_WITHIN = 0.5  # seconds; after the closing frame the SDK waits for threads of its own that sleep
_READ_EVERY = 0.1  # seconds that the SDK waits in a socket before it looks at the clock
_FORBIDDEN = (401, 403)


class Bus:
    """One Service Bus namespace.  Links and clients are made when they are needed."""

    def __init__(self, address: Address, credential: Any = None) -> None:
        self.address = address
        self._credential = credential
        self._admin: Any = None
        self.forget()

    def forget(self) -> None:
        """Leave all connections to the parent, in a fork.  Nothing is sent on them; the sockets close with their objects."""
        self._guard = threading.RLock()
        self._clients: dict[int, Any] = {}
        self._links: dict[tuple[str, str], Any] = {}
        self._settings: dict[str, QueueSettings] = {}
        self._admin = None

    def close(self) -> None:
        with self._guard:
            links, self._links = list(self._links.values()), {}
            admin, self._admin = self._admin, None
        closers = [threading.Thread(target=_close, args=(link,), daemon=True) for link in links]
        for closer in closers:
            closer.start()
        for closer in closers:
            closer.join(_CLOSED_WITHIN)
        if admin is not None:
            _close(admin)

    # Links

    def sender(self, entity: str) -> Sender:
        repeats = self.settings(entity).deduplicates
        return self._link(
            "sender",
            entity,
            lambda: Sender(
                self.address,
                entity,
                self._client(_REPEATS if repeats else 0).get_queue_sender(entity),
                repeats=repeats,
            ),
        )

    def receiver(self, entity: str) -> Receiver:
        """Return the link on which jobs are claimed, renewed and settled."""
        return self._receiver("receiver", entity)

    def listener(self, entity: str) -> Receiver:
        """Return the link on which a thread waits: one of its own, so that others can settle meanwhile."""
        return self._receiver("listener", entity)

    def dead_letter_receiver(self, entity: str) -> Receiver:
        """Return the link to the dead-letter sub-queue."""
        return self._receiver("dead letters", entity, sub_queue=sdk.ServiceBusSubQueue.DEAD_LETTER)

    def _receiver(self, role: str, entity: str, **options: Any) -> Receiver:
        self.settings(entity)
        return self._link(
            role,
            entity,
            lambda: Receiver(
                self.address,
                entity,
                self._client(_REPEATS).get_queue_receiver(entity, socket_timeout=_READ_EVERY, **options),
            ),
        )

    def _link(self, role: str, entity: str, make: Callable[[], Link]) -> Link:
        with self._guard:
            if (role, entity) not in self._links:
                self._links[role, entity] = make()
            link: Link = self._links[role, entity]
            return link

    def _client(self, repeats: int) -> Any:
        if repeats not in self._clients:
            options: dict[str, Any] = {
                "retry_total": repeats,
                "retry_backoff_factor": _PAUSE,
                "try_timeout": self.address.timeout,
                "connection_verify": self.address.ca,
            }
            client = sdk.ServiceBusClient
            if self.address.connection_string is not None:
                made = client.from_connection_string(self.address.connection_string, **options)
            else:
                made = client(self.address.host, self._identity(), **options)
            self._clients[repeats] = made
        return self._clients[repeats]

    def _identity(self) -> Any:
        if self._credential is None:
            self._credential = default_credential()
        return self._credential

    # Settings of the queues

    def settings(self, entity: str) -> QueueSettings:
        """Return the settings of a queue, looked up once.  Raises `BackendMisconfigured` if they would lose jobs."""
        known = self._settings.get(entity)
        if known is None:
            known = self._settings[entity] = self._looked_up(entity)
        return known

    def _looked_up(self, entity: str) -> QueueSettings:
        if self.address.unchecked:
            return QueueSettings()
        with self._administering() as admin:
            try:
                properties = admin.get_queue(entity)
            except http.ResourceNotFoundError as error:
                raise BackendMisconfigured(
                    f"{self.address.place} has no queue {entity}: create it with "
                    f"`{create_command(self.address, entity)}`"
                ) from error
        return admitted(self.address, properties)

    def look_at_all(self, ours: Callable[[str], object]) -> None:
        """Read the settings of all queues of this namespace, and raise for a wrong one now rather than at its first job."""
        if self.address.unchecked:
            return
        for properties in self.properties(ours):
            self._settings[properties.name.lower()] = admitted(self.address, properties)

    def properties(self, ours: Callable[[str], object]) -> list[Any]:
        with self._administering() as admin:
            return [each for each in admin.list_queues() if ours(each.name.lower())]

    def counts(self, ours: Callable[[str], object]) -> list[Any]:
        self._refuse_if_unchecked("count jobs")
        with self._administering() as admin:
            return [each for each in admin.list_queues_runtime_properties() if ours(each.name.lower())]

    def _refuse_if_unchecked(self, what: str) -> None:
        if self.address.unchecked:
            raise Unsupported(
                f"a key that may not read a queue's properties cannot {what}: use one that may, without ?unchecked=true"
            )

    @contextmanager
    def _administering(self) -> Iterator[Any]:
        place = self.address.place
        try:
            with self._guard:
                self._admin = self._admin or self._administrator()
                yield self._admin
        except BackendError:
            raise
        except http.HttpResponseError as error:
            if error.status_code in _FORBIDDEN:
                raise BackendMisconfigured(
                    f"{place} does not let this key read the settings of its queues: give it the right to manage (or the "
                    f"role Azure Service Bus Data Owner), or check them yourself and write ?unchecked=true ({error.message})"
                ) from error
            raise BackendUnavailable(f"{place} answered {error.status_code}: {error.message}") from error
        except Exception as error:  # an unknown host, a socket, a certificate
            raise BackendUnavailable(
                f"{place} did not answer: {error}: look whether this host may reach it, or correct the url"
            ) from error

    def _administrator(self) -> Any:
        options: dict[str, Any] = {
            "retry_total": 1,
            "retry_backoff_factor": _PAUSE,
            "connection_timeout": self.address.timeout,
            "read_timeout": self.address.timeout,
        }
        if self.address.ca is not None:
            options["connection_verify"] = self.address.ca
        client = management.ServiceBusAdministrationClient
        if self.address.connection_string is not None:
            return client.from_connection_string(self.address.connection_string, **options)
        return client(self.address.host, self._identity(), **options)


def _close(closing: Any) -> None:
    with suppress(Exception):  # the process needs it no more, and can do nothing about an error
        closing.close()
