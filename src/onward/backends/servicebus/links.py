"""The links to one queue: one that sends, and those that receive.

The SDK opens them at their first use, and again when they broke.  That takes half a second, so they are kept.  Its objects
are for one thread at a time, so each has a lock.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from onward.backends.servicebus.driver import faults
from onward.backends.servicebus.settings import create_command
from onward.backends.servicebus.url import Address
from onward.errors import BackendError, BackendMisconfigured, BackendRefused, BackendUnavailable, StoreFull

__all__ = ["Receiver", "Sender"]

_NOT_OURS = (faults.MessageLockLostError, faults.MessageAlreadySettled, faults.MessageNotFoundError)
_FRESH = 5.0  # seconds in which a link that was used is taken to be open
_LEAVES_WITHIN = 1.0
_NO_NUMBER = 2**63 - 1  # no message has this number


class Sender:
    """Sends to a queue.

    Where duplicates are detected the SDK sends again what got no answer.  Where they are not, that could store a job twice,
    so it must not; and then it cannot replace a link that the server has closed, as it does after ten idle minutes.  So a
    link that was idle, or whose socket can be read, is first sent a harmless request.
    """

    def __init__(self, address: Address, entity: str, sender: Any, *, repeats: bool) -> None:
        self.lock = threading.RLock()
        self._address = address
        self._entity = entity
        self._sender = sender
        self._repeats = repeats
        self._used_at = 0.0

    def send(self, messages: Sequence[Any]) -> None:
        """Send all of them or none: they travel as one."""
        whole = messages[0] if len(messages) == 1 else list(messages)
        self._say(lambda: self._sender.send_messages(whole, timeout=self._address.timeout))

    def schedule(self, message: Any) -> None:
        """Send a message for the instant that it is due."""
        due = message.scheduled_enqueue_time_utc
        self._say(lambda: self._sender.schedule_messages(message, due, timeout=self._address.timeout))

    def close(self) -> None:
        self._sender.close()

    def _say(self, what: Callable[[], object]) -> None:
        with self.lock, talking(self._address, self._entity):
            if not self._repeats and self._used_at and self._may_be_closed():
                with suppress(Exception):  # an answer, whatever it says; or the link is opened again by what follows
                    self._sender.cancel_scheduled_messages(_NO_NUMBER, timeout=self._address.timeout)
            what()
            self._used_at = time.monotonic()

    def _may_be_closed(self) -> bool:
        if time.monotonic() - self._used_at > _FRESH:
            return True
        try:  # its end can be read; should the SDK change inside, we ask once more than we need to
            look = select.poll()
            look.register(self._sender._handler._connection._transport.sock, select.POLLIN)  # noqa: SLF001
            return bool(look.poll(0))
        except Exception:  # noqa: BLE001  there is no socket, or not there
            return True


class Receiver:
    """Receives from a queue, and settles what was received here or by another link.  A lost lock is an answer: False."""

    def __init__(self, address: Address, entity: str, receiver: Any) -> None:
        self.lock = threading.RLock()
        self._address = address
        self._entity = entity
        self._receiver = receiver

    def peek(self, first: int, count: int) -> list[Any]:
        """Read messages by number, in any state, and locked by any process."""
        with self._talking():
            return list(
                self._receiver.peek_messages(count, sequence_number=max(first, 1), timeout=self._address.timeout)
            )

    def receive(self, count: int, seconds: float) -> list[Any]:
        """Receive those that come within this time, locked for us.  A caller that got fewer must call `withdraw`."""
        with self._talking():
            return list(self._receiver.receive_messages(count, max_wait_time=seconds))

    def withdraw(self) -> None:
        """Ask for no more.  A receive that got too little has left its credit with the server, and a message that is sent to
        us now would run nowhere until its lock expires.

        The SDK has no verb for it.  Should it change inside, a message may be late, and nothing else.
        """
        with self._talking():
            with suppress(Exception):
                self._receiver._amqp_transport.reset_link_credit(self._receiver._handler, 0)  # noqa: SLF001
            # What was on its way comes before the answer, and the SDK gives back what it did not ask for.
            self._receiver.peek_messages(1, sequence_number=_NO_NUMBER, timeout=self._address.timeout)

    def renew(self, message: Any) -> bool:
        return self._found(lambda: self._receiver.renew_message_lock(message, timeout=self._address.timeout))

    def complete(self, message: Any) -> bool:
        return self._found(lambda: self._receiver.complete_message(message))

    def abandon(self, message: Any) -> bool:
        return self._found(lambda: self._receiver.abandon_message(message))

    def dead_letter(self, message: Any, reason: str, description: str) -> bool:
        return self._found(
            lambda: self._receiver.dead_letter_message(message, reason=reason, error_description=description)
        )

    def close(self) -> None:
        mine = self.lock.acquire(timeout=_LEAVES_WITHIN)  # a thread that waits in it returns soon
        try:
            self._receiver.close()
        finally:
            if mine:
                self.lock.release()

    def _found(self, command: Callable[[], object]) -> bool:
        with self._talking():
            try:
                command()
            except _NOT_OURS:
                return False
            return True

    @contextmanager
    def _talking(self) -> Iterator[None]:
        with self.lock, talking(self._address, self._entity):
            self._receiver.__enter__()  # opens it, if it is not: not every command of the SDK does
            yield


@contextmanager
def talking(address: Address, entity: str) -> Iterator[None]:
    """Raise what the SDK raises as errors of Onward."""
    try:
        yield
    except BackendError:
        raise
    except faults.MessagingEntityNotFoundError as error:
        raise BackendMisconfigured(
            f"{address.place} has no queue {entity}: create it with `{create_command(address, entity)}`"
        ) from error
    except (faults.ServiceBusAuthenticationError, faults.ServiceBusAuthorizationError) as error:
        raise BackendMisconfigured(
            f"{address.place} refuses the key or the role: it must allow to send and to listen ({error})"
        ) from error
    except faults.MessageSizeExceededError as error:
        raise BackendRefused(f"{address.place} refuses a message of this size: {error}") from error
    except faults.ServiceBusQuotaExceededError as error:
        raise StoreFull(f"queue {entity} is full: {error}") from error
    except Exception as error:  # the SDK's own, a socket's, or what a connection raises that ends meanwhile
        raise BackendUnavailable(f"{address.place} did not answer: {error}") from error
