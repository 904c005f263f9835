"""The jobs that one owner holds, and how it claims them.

    received ──▶ not Onward's: dead-lettered where it is  crashed before, and again: put back with a pause
             ──▶ expired: removed                         crashed too often: handed out as spent, to be dead-lettered
             ──▶ otherwise: a lease

A lock is not bound to a connection: it lasts until it expires, even if its process dies.  The server counts the deliveries
that ended in neither a removal nor a dead letter.  The backend never abandons a message, but sends copies; so each of these
deliveries was a crash, or a lock that was not renewed in time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import msgspec

from onward.backend import Claim, Lease
from onward.backends.broker.header import NotOurs
from onward.backends.servicebus.channel import Arrival, Channel
from onward.backends.servicebus.message import read
from onward.backends.servicebus.received import Received
from onward.base.clock import Clock
from onward.base.logs import get_logger
from onward.errors import BackendMisconfigured
from onward.job.settlement import crash_pause

__all__ = ["BrokerSession", "admit", "give_back_unharmed"]

logger = get_logger("onward.servicebus")

_NOT_OURS = "Onward did not write it"


class BrokerSession:
    """The jobs that one owner holds.  Every method is called under its lock."""

    def __init__(self, lease_for: timedelta, clock: Clock) -> None:
        self.lock = threading.RLock()
        self.held: dict[tuple[str, int], Received] = {}
        self.lease_for = lease_for
        self._clock = clock

    def claim(self, claim: Claim, owner: str, channel_of: Callable[[str], Channel]) -> list[Lease]:
        """Claim queue by queue.  A suspect ends the claim: it comes alone, or waits for the next."""
        leases: list[Lease] = []
        for queue in dict.fromkeys(claim.queues):
            most = min(claim.limit, len(leases) + claim.at_most.get(queue, claim.limit))
            if len(leases) >= most:
                continue
            channel = channel_of(queue)
            self._refuse_a_short_lock(channel)
            while (asked := most - len(leases)) > 0:
                arrivals = channel.take(asked)
                if self._admit_all(channel, arrivals, leases, owner):
                    return leases
                if len(arrivals) < asked:
                    break
        return leases

    def _admit_all(self, channel: Channel, arrivals: list[Arrival], leases: list[Lease], owner: str) -> bool:
        """Make leases of messages.  True if a suspect ends the claim."""
        rest = list(arrivals)
        try:
            while rest:
                received = admit(channel, rest[0], self._clock.micros())
                if received is not None and received.header.crashes and leases:
                    return True
                rest.pop(0)
                if received is None:
                    continue
                if received.key in self.held:
                    # Two messages have one id and one token, so one is forged.  A settlement of one must not reach the
                    # other: put back, it comes with another token.
                    received.put_back(received.header, 0, self._clock.micros())
                    continue
                self.held[received.key] = received
                leases.append(received.lease(owner))
                if received.header.crashes:
                    return True
        finally:
            channel.untake(rest)
        return False

    def _refuse_a_short_lock(self, channel: Channel) -> None:
        lock, needed = channel.lock, self.lease_for.total_seconds()
        if lock is not None and lock < needed:
            raise BackendMisconfigured(
                f"queue {channel.entity} locks a message for {lock:g} seconds, and this worker renews what it has every "
                f"{needed / 3:g}: set lease_for to {lock:g} or less, or the queue's lock duration to {needed:g} or more"
            )

    def renew(self) -> list[tuple[str, int]]:
        """Renew every lock.  Returns the leases that are lost."""
        lost = [key for key, received in list(self.held.items()) if not received.renew()]
        for key in lost:
            del self.held[key]
        return lost

    def has_ended(self) -> bool:
        return False  # no connection ends it

    def close(self) -> None:
        """Do nothing: a message that is still held comes back when its lock expires."""


def admit(channel: Channel, arrival: Arrival, now: int) -> Received | None:
    """Return a message as a job, with its current counters; None if it may not run."""
    try:
        header, data = read(arrival.message)
    except NotOurs as error:
        logger.error("message %d of %s is dead-lettered: %s (%s)", arrival.number, channel.entity, _NOT_OURS, error)  # noqa: TRY400
        channel.receiver.dead_letter(arrival.message, _NOT_OURS, str(error))
        channel.unlocked(arrival.message)
        return None
    crashes = arrival.message.delivery_count or 0
    header = msgspec.structs.replace(header, crashes=header.crashes + crashes, delivery=header.delivery + crashes + 1)
    if crashes and header.crashes >= header.max_crashes:
        header = msgspec.structs.replace(header, spent=header.crashed_too_often)
    received = Received(channel, arrival, header, data)
    if header.expires_at is not None and header.expires_at <= now:
        received.complete()
        return None
    pause = crash_pause(header.crashes) if crashes and header.spent is None else 0
    if pause:
        received.put_back(header, pause, now)
        return None
    return received


def give_back_unharmed(channel: Channel, arrival: Arrival, now: int) -> None:
    """Put back a message that was not claimed, with the counters that it had."""
    received = admit(channel, arrival, now)
    if received is not None:
        received.put_back(received.header, 0, now)
