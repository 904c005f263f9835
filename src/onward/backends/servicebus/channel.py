"""One queue: its links, the messages that were received from it, and those that were seen there.

A claim looks first: it receives as many messages as it has seen, and an empty queue costs a look and no waiting.  A thread
that waits, waits in a receive, and the message that comes is kept until the next claim.  It is locked meanwhile; so a
message that is not claimed soon is given back, as a copy with the same counters.

    look ──▶ nothing: no receive                 wait ──▶ received: kept, for the next claim
         ──▶ n messages: receive n                          not claimed soon: put back
         ──▶ seen, but not received: another process has it; it is left out for a second
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from onward.backends.broker.header import NotOurs
from onward.backends.servicebus.bus import Bus
from onward.backends.servicebus.driver import sdk
from onward.backends.servicebus.links import Receiver, Sender
from onward.backends.servicebus.message import read
from onward.base.clock import SECOND, Clock, to_micros
from onward.errors import BackendError

__all__ = ["KEPT_FOR", "Arrival", "Channel"]

KEPT_FOR = 5 * SECOND  # how long a received message waits for a claim
_PAGE = 100  # messages in a look, or in a receive
_MORE = 16  # scheduled messages that a look passes
_LESS = 5
_PASSED_OVER = SECOND
_ACTIVE = sdk.ServiceBusMessageState.ACTIVE


class Arrival(NamedTuple):
    """A message that is locked for this process."""

    message: Any
    at: int  # when it came

    @property
    def number(self) -> int:
        return int(self.message.sequence_number)


class Channel:
    """What this process does with one queue."""

    def __init__(self, bus: Bus, queue: str, entity: str, clock: Clock) -> None:
        self.queue = queue
        self.entity = entity
        self._bus = bus
        self._clock = clock
        self._claiming = threading.RLock()
        self._arrived: deque[Arrival] = deque()
        self._ours: dict[int, int] = {}  # number: until when it is locked for this process
        self._elsewhere: dict[int, int] = {}  # number: until when a look leaves it out
        self._furthest = 0
        self._listener: Receiver | None = None
        self._stopped = False

    @property
    def receiver(self) -> Receiver:
        return self._bus.receiver(self.entity)

    @property
    def sender(self) -> Sender:
        return self._bus.sender(self.entity)

    @property
    def lock(self) -> float | None:
        """The seconds for which a message is locked; None if the key may not read that."""
        return self._bus.settings(self.entity).lock

    @property
    def max_size(self) -> int:
        return self._bus.settings(self.entity).max_size

    # Taking

    def take(self, limit: int) -> list[Arrival]:
        """Receive up to ``limit`` messages that are there now.  Fewer: there are no more."""
        with self._claiming:
            if kept := self._kept(limit):
                return kept
            taken: list[Arrival] = []
            try:
                self._take_into(taken, limit)
            except BackendError:
                self.untake(taken)  # they are locked for this process, whether or not the rest came
                raise
            return taken

    def _take_into(self, taken: list[Arrival], limit: int) -> None:
        unanswered, patience = False, self._bus.address.patience
        while (left := min(limit - len(taken), _PAGE)) and (seen := self._look(left)) is not None:
            asked = len(seen) or left
            came = self._receive(asked, patience)
            taken += came
            unanswered = len(came) < asked
            if not came:
                until = self._clock.micros() + _PASSED_OVER
                self._elsewhere.update((number, until) for number in seen)
                break
            patience = self._bus.address.patience / _LESS  # messages that came must not wait for others
        if unanswered:
            self.receiver.withdraw()

    def _kept(self, limit: int) -> list[Arrival]:
        """Take the messages that a wait has received and whose locks have not expired."""
        kept: list[Arrival] = []
        while self._arrived and len(kept) < limit:
            arrival = self._arrived[0]
            if self._clock.micros() - arrival.at <= KEPT_FOR or self.renew(arrival.message):
                kept.append(arrival)
            self._arrived.popleft()
        return kept

    def untake(self, arrivals: list[Arrival]) -> None:
        """Keep messages for the next claim."""
        with self._claiming:
            self._arrived.extendleft(reversed(arrivals))

    def _receive(self, count: int, patience: float) -> list[Arrival]:
        came = [self._arrival(each) for each in self.receiver.receive(count, patience)]
        self._furthest = max([self._furthest, *(each.number for each in came)])
        return came

    def _arrival(self, message: Any) -> Arrival:
        arrival = Arrival(message, self._clock.micros())
        self.locked(message)
        self._elsewhere.pop(arrival.number, None)
        return arrival

    def _look(self, count: int) -> list[int] | None:
        """Return the numbers of messages that can be received; an empty list if they are unknown; None if there are none."""
        now = self._clock.micros()
        self._elsewhere = {number: until for number, until in self._elsewhere.items() if until > now}
        # Before the messages of the last look there are only new ones.  Those that came back are behind it.
        ahead = self.receiver.peek(self._furthest + 1, count)
        if seen := self._to_be_had(ahead, now):
            return seen
        if not self._furthest and len(ahead) < count:
            return None
        most = min(count + len(self._ours) + len(self._elsewhere) + _MORE, _PAGE)
        everything = self.receiver.peek(1, most)
        if seen := self._to_be_had(everything, now):
            return seen[:count]
        # All seen messages are scheduled, or another process has them.  Those behind them are unknown.
        return [] if len(everything) == most else None

    def _to_be_had(self, messages: list[Any], now: int) -> list[int]:
        return [
            number
            for message in messages
            if message.state == _ACTIVE
            and (number := int(message.sequence_number)) not in self._elsewhere
            and self._ours.get(number, 0) <= now
        ]

    # Waiting

    def has_arrived(self) -> bool:
        return bool(self._arrived)

    def listen(self, seconds: float) -> bool:
        """Wait for a message, and keep it for the next claim.  A caller that got False must call `stop_listening`."""
        listener = self._listener = self._bus.listener(self.entity)
        with listener.lock:
            came = [] if self._stopped else listener.receive(1, seconds)
            with self._claiming:
                self._arrived.extend(self._arrival(each) for each in came)
        return bool(came)

    def stop_receiving(self) -> None:
        """Receive no more in `listen`.  When this returns, a message that was being received has arrived."""
        self._stopped = True
        if self._listener is not None:
            with self._listener.lock:
                pass

    def stop_listening(self) -> None:
        self._bus.listener(self.entity).withdraw()

    def unclaimed(self, *, everything: bool = False) -> Arrival | None:
        """Take out a message that was not claimed for too long."""
        with self._claiming:
            if self._arrived and (everything or self._clock.micros() - self._arrived[0].at > KEPT_FOR):
                return self._arrived.popleft()
            return None

    # Locks

    def locked(self, message: Any) -> int:
        """Note until when a message is locked, and return it."""
        until = to_micros(message.locked_until_utc)
        self._ours[int(message.sequence_number)] = until
        return until

    def renew(self, message: Any) -> bool:
        kept = self.receiver.renew(message)
        if kept:
            self.locked(message)
        else:
            self.unlocked(message)
        return kept

    def unlocked(self, message: Any) -> None:
        self._ours.pop(int(message.sequence_number), None)

    def stores(self, number: int, job_id: str) -> bool:
        """Return whether the queue still has this message."""
        for each in self.receiver.peek(number, 1):
            with suppress(NotOurs):
                return int(each.sequence_number) == number and read(each)[0].id == job_id
        return False

    def ask(self) -> None:
        """Call the server: raises `BackendError` if it does not answer."""
        self.receiver.peek(1, 1)
