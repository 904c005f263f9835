"""The links to one queue: one that sends, and those that receive.

The SDK opens them at their first use, and again when they broke.  That takes half a second, so `Bus` keeps them.  Its
objects are for one thread at a time, so each has a lock.
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

    Where duplicates are detected the SDK sends a message without an answer again.  Where they are not, that could store a
    job twice, so it must not; but then the SDK does not replace a link that the server has closed, as it does after ten
    idle minutes.  So `Sender` first makes a harmless request on a link that was idle, or whose socket can be read.
    """

    def __init__(self, address: Address, entity: str, sender: Any, *, repeats: bool) -> None:
        self.lock = threading.RLock()
        self._address = address
        self._entity = entity
        self._sender = sender
        self._repeats = repeats
        self._used_at = 0.0

    def send(self, messages: Sequence[Any]) -> None:
        """Send all of them or none, in one batch."""
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
                with suppress(Exception):  # any answer will do; without one the next call opens the link again
                    self._sender.cancel_scheduled_messages(_NO_NUMBER, timeout=self._address.timeout)
            what()
            self._used_at = time.monotonic()

    def _may_be_closed(self) -> bool:
        if time.monotonic() - self._used_at > _FRESH:
            return True
        try:  # a closed socket can be read; if the SDK's internals change, this makes one request too many
            look = select.poll()
            look.register(self._sender._handler._connection._transport.sock, select.POLLIN)  # noqa: SLF001
            return bool(look.poll(0))
        except Exception:  # noqa: BLE001  there is no socket, or not there
            return True


class Receiver:
    """Receives from a queue, and settles messages of this or another link.  A lost lock is an answer: False."""

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
        """Receive messages that come within this time, and lock them.  A caller that got fewer must call `withdraw`."""
        with self._talking():
            return list(self._receiver.receive_messages(count, max_wait_time=seconds))

    def withdraw(self) -> None:
        """Withdraw the credit that a receive left with the server: a message sent on it would wait until its lock expires.

        The SDK has no method for it.  If its internals change, a message may be late, and nothing else.
        """
        with self._talking():
            with suppress(Exception):
                self._receiver._amqp_transport.reset_link_credit(self._receiver._handler, 0)  # noqa: SLF001
            # Messages that were already sent come before the answer, and the SDK gives back those that it did not ask for.
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
            self._receiver.__enter__()  # opens the link if need be: not every command of the SDK does
            yield


@contextmanager
def talking(address: Address, entity: str) -> Iterator[None]:
    """Turn errors of the SDK into errors of Onward."""
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
        raise BackendUnavailable(
            f"{address.place} did not answer: {error}: look whether this host may reach it, or correct the url"
        ) from error
