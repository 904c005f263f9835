"""A message that this process has locked, as a job, and the commands that settle it.

A message is settled by its lock.  Once that is lost, the server refuses every command, whether or not another process has
the message; so a worker that comes too late can change nothing.  When a settlement is refused, it may also have been
applied and its answer lost: then the queue does not have the message any more.
"""

from __future__ import annotations

import msgspec

from onward.backend import Lease, Sealed
from onward.backends.broker.header import cut, lease_of
from onward.backends.servicebus.channel import Arrival, Channel
from onward.backends.servicebus.message import MessageHeader, compose, message_id
from onward.base.failure import Failure, storable

__all__ = ["DeadLetterDescription", "Received"]

_LONGEST = 4000  # characters of a reason, and of a description; the server takes 4096
_TRACE = 1500


class DeadLetterDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """The description of a dead letter: the counters at its end, because a message cannot be changed."""

    attempts: int
    crashes: int
    interruptions: int
    ended_at: int
    failure: Failure | None = None

    def __str__(self) -> str:
        text = _encode(self).decode()
        if len(text) > _LONGEST and self.failure is not None:
            message = cut(self.failure.message, _TRACE // 2) or ""
            short = msgspec.structs.replace(self.failure, message=message, traceback="")
            text = _encode(msgspec.structs.replace(self, failure=short)).decode()
        return text


_encode = msgspec.json.Encoder().encode


class Received:
    """One job that this process holds until its lock expires."""

    __slots__ = ("_copy", "_message", "channel", "claimed_at", "data", "header")

    def __init__(self, channel: Channel, arrival: Arrival, header: MessageHeader, data: bytes) -> None:
        self.channel = channel
        self.header = header  # with what the server has counted
        self.data = data
        self.claimed_at = arrival.at
        self._message = arrival.message
        self._copy: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        return (self.header.id, self.header.delivery)

    @property
    def number(self) -> int:
        return int(self._message.sequence_number)

    def lease(self, owner: str) -> Lease:
        return lease_of(
            self.header,
            Sealed(self.header.id, self.channel.queue, self.data),
            owner,
            expires_at=self.channel.locked(self._message),
            claimed_at=self.claimed_at,
            receipt=self.number,
        )

    def renew(self) -> bool:
        return self.channel.renew(self._message)

    def complete(self) -> bool:
        """Remove the message.  False if the lock was lost."""
        kept = self.channel.receiver.complete(self._message)
        self.channel.unlocked(self._message)
        return kept

    def put_back(self, header: MessageHeader, delay: int, now: int) -> bool:
        """Send a copy with other counters, then remove the original: a process that dies in between leaves the job twice."""
        if not self.renew():
            return False
        if header.attempts == self.header.attempts:
            header = msgspec.structs.replace(header, rounds=header.rounds + 1)
        if self._copy != message_id(header):
            due = now + delay if delay else now - now % 1000  # at once: the server counts milliseconds
            self.channel.sender.schedule(compose(header, self.data, due))
            # If the completion gets no answer, the settlement is repeated, and the copy is not stored again.
            self._copy = message_id(header)
        # The copy stays when this is refused: the original may be gone for good, though the server still shows it.
        return self.complete() or not self.is_there()

    def dead_letter(self, header: MessageHeader, reason: str, failure: Failure | None, now: int) -> bool:
        """Move the message itself to the dead letters, by one command."""
        description = DeadLetterDescription(header.attempts, header.crashes, header.interruptions, now, _short(failure))
        kept = self.channel.receiver.dead_letter(self._message, storable(reason, _LONGEST), str(description))
        self.channel.unlocked(self._message)
        return kept

    def is_there(self) -> bool:
        return self.channel.stores(self.number, self.header.id)


def _short(failure: Failure | None) -> Failure | None:
    if failure is None:
        return None
    # The end of a traceback explains more than its beginning.
    message, traceback = cut(failure.message, _TRACE) or "", failure.traceback[-_TRACE:]
    return msgspec.structs.replace(failure, message=message, traceback=traceback)
