"""The contract's verbs in the commands of Service Bus.

A session is a list in this process: a lock belongs to the process that received it, lasts until it expires, and is renewed
by itself.  So no process can reap another, or renew for it; and the jobs of a dead one come back when its locks expire.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from onward.backend import (
    Audit,
    Check,
    Enqueued,
    Envelope,
    Held,
    Lease,
    Query,
    QueueState,
    Replayed,
    Session,
    StoredJob,
    Turn,
    TurnResult,
)
from onward.backends.broker.backend import BROKER, BrokerBackend, in_order
from onward.backends.servicebus import health, settling
from onward.backends.servicebus.bus import Bus
from onward.backends.servicebus.channel import Channel
from onward.backends.servicebus.dead_letters import DeadLetterQueue, page_of
from onward.backends.servicebus.message import ROOM, MessageHeader, compose, size_of
from onward.backends.servicebus.names import Names
from onward.backends.servicebus.session import BrokerSession, give_back_unharmed
from onward.backends.servicebus.url import parse_url
from onward.base.clock import Clock
from onward.base.interruption import uninterrupted
from onward.base.logs import get_logger
from onward.errors import BackendError, BackendMisconfigured, BackendRefused, BackendUnavailable, PayloadTooLarge
from onward.job.settlement import Settled, Settlement
from onward.job.states import State

__all__ = ["ServiceBusBackend"]

logger = get_logger("onward.servicebus")

_LISTEN = 0.2  # seconds in one queue, before another is listened to
_BATCH = 256 * 1024 - ROOM  # bytes that travel as one


class _Outgoing(NamedTuple):
    channel: Channel
    header: MessageHeader
    data: bytes
    due: int | None
    size: int


class ServiceBusBackend(BrokerBackend[BrokerSession]):
    """Jobs in the queues of one namespace."""

    capabilities = msgspec.structs.replace(BROKER, priorities=False, keeps_place=False)

    def __init__(self, bus: Bus, *, namespace: str = "default", clock: Clock | None = None) -> None:
        self._bus = bus
        self._names = Names(namespace)
        super().__init__(clock)

    @classmethod
    def from_url(
        cls, url: str, *, clock: Clock | None = None, namespace: str = "default", credential: Any = None
    ) -> ServiceBusBackend:
        """Make a backend.  ``credential``: the login, if the URL has no key; None asks azure-identity."""
        return cls(Bus(parse_url(url), credential), namespace=namespace, clock=clock)

    def connect(self) -> None:
        """Check the settings of all queues of this namespace; else each is checked at its first use."""
        self._refuse_if_closed()
        self._bus.look_at_all(self._names.queue)

    # Enqueueing

    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        """Send batches as large as the server takes.  Each is stored whole or not at all."""
        now = self.clock.micros()
        outgoing = [self._outgoing(envelope, now) for envelope in envelopes]  # all checked before the first is sent
        with uninterrupted():
            sent = 0
            for channel, batch in _batches(outgoing):
                try:
                    channel.sender.send([compose(each.header, each.data, each.due) for each in batch])
                except BackendError as error:
                    if not sent:
                        raise
                    raise BackendUnavailable(f"{error}; {sent} of {len(outgoing)} jobs were stored") from error
                sent += len(batch)
        return [Enqueued(envelope.id) for envelope in envelopes]

    def refuse_unfit(self, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            self._outgoing(envelope, self.clock.micros())

    def _outgoing(self, envelope: Envelope, now: int) -> _Outgoing:
        self._refuse_if_closed()
        channel, header = self._channel(envelope.queue), MessageHeader.of(envelope)
        size, limit = size_of(header, envelope.data), channel.max_size - ROOM
        if size > limit:
            raise PayloadTooLarge(size, limit, "job, as Service Bus would keep it,")
        due = max(now + envelope.delay, envelope.not_before or 0)
        return _Outgoing(channel, header, envelope.data, due if due > now else None, size)

    # Working

    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        with uninterrupted(), self._guard:
            self._refuse_if_closed()
            own, old = self._sessions.get(session.owner), self._sessions.get(adopts or "")
            if adopts is not None and own is None and old is None:
                return None
            kept = own or old or BrokerSession(session.lease_for, self.clock)
            kept.lease_for = session.lease_for
            self._sessions.pop(adopts or "", None)
            self._sessions[session.owner] = kept
        with kept.lock:  # never under the guard: the thread that holds it may need the guard
            if old is not None and old is not kept:
                with old.lock:
                    kept.held |= old.held
                    old.held.clear()
            return [] if adopts is None else [received.lease(session.owner) for received in kept.held.values()]

    def _take_turn(self, session: BrokerSession, turn: Turn) -> TurnResult:
        return in_order(
            turn,
            lambda settlement: self._settle(session, settlement, turn.owner),
            lambda claim: session.claim(claim, turn.owner, self._channel),
        )

    def _apply(self, session: BrokerSession, settlement: Settlement) -> Settled:
        return settling.settle(session, settlement, self._store_dead_letter, self.clock.micros())

    def _store_dead_letter(self, envelope: Envelope) -> None:
        try:
            self.enqueue([envelope])
        except (PayloadTooLarge, BackendMisconfigured) as error:  # too large, or no such queue: never accepted
            raise BackendRefused(str(error)) from error

    def _renew(self, session: BrokerSession) -> list[Held]:
        self._put_back_unclaimed()
        with session.lock:
            if not session.held:
                self._make_contact()
            return session.renew()

    def _after_reaping(self) -> None:
        if not self._sessions:
            self._put_back_unclaimed(everything=True)  # no session is left that could claim them

    # Waiting and looking

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Receive, on a connection of its own.  Keeps a message that comes for the next claim."""
        deadline = time.monotonic() + timeout
        channels = [self._channel(queue) for queue in dict.fromkeys(queues)]
        unanswered: list[Channel] = []
        try:
            while not any(channel.has_arrived() for channel in channels):
                for channel in channels:
                    left = deadline - time.monotonic()
                    if left <= 0 or self._closed.is_set():
                        return
                    if channel not in unanswered:
                        unanswered.append(channel)
                    if channel.listen(min(left, _LISTEN)):
                        unanswered.remove(channel)
                        return
        finally:
            for channel in unanswered:
                channel.stop_listening()

    def counts(self, queue: str | None = None) -> dict[State, int]:
        """Return the server's counts.  It counts a message that another process has as one that waits."""
        counts = dict.fromkeys(State, 0)
        for name, each in self._counted():
            if queue is not None and name != queue:
                continue
            running = self._running(name)
            counts[State.EXECUTING] += running
            counts[State.AVAILABLE] += max(0, (each.active_message_count or 0) - running)
            counts[State.SCHEDULED] += each.scheduled_message_count or 0
            counts[State.DISCARDED] += each.dead_letter_message_count or 0
        return counts

    def queues(self) -> Sequence[QueueState]:
        found = [
            QueueState(name=name, paused=False, live=live)
            for name, each in self._counted()
            if (live := (each.active_message_count or 0) + (each.scheduled_message_count or 0))
        ]
        return sorted(found, key=lambda state: state.name)

    def health(self) -> list[Check]:
        return health.checks(self._bus, self._names)

    def _counted(self) -> Iterator[tuple[str, Any]]:
        for each in self._bus.counts(self._names.queue):
            name = self._names.queue(each.name.lower())
            if name is not None:
                yield name, each

    def _running(self, queue: str) -> int:
        with self._guard:
            sessions = list(self._sessions.values())
        return sum(received.channel.queue == queue for each in sessions for received in list(each.held.values()))

    # Dead letters

    def dead_jobs(self, query: Query) -> Sequence[StoredJob]:
        with uninterrupted():
            return page_of(
                [letter.job for each in self._dead_letter_queues(query) for letter in each.letters(query)], query
            )

    def replay_dead(self, query: Query) -> Replayed:
        with uninterrupted():
            return Replayed(
                ids=[job_id for each in self._dead_letter_queues(query) for job_id in each.replay(query)], skipped={}
            )

    def purge_dead(self, query: Query) -> int:
        with uninterrupted():
            return sum(each.purge(query) for each in self._dead_letter_queues(query))

    def _dead_letter_queues(self, query: Query) -> list[DeadLetterQueue]:
        if query.queue is None:
            queues = [name for name, each in self._counted() if each.dead_letter_message_count]
        else:
            queues = [query.queue]
        return [self._dead_letter_queue(queue) for queue in queues]

    def _dead_letter_queue(self, queue: str) -> DeadLetterQueue:
        entity = self._names.of(queue)
        return DeadLetterQueue(
            queue, self._bus.dead_letter_receiver(entity), self._bus.sender(entity), self._bus.address.patience
        )

    # Connections

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            for channel in list(self._channels.values()):
                channel.stop_receiving()
            self._put_back_unclaimed(everything=True)
        except BackendError as error:
            logger.warning("messages that were received and not claimed come back when their locks expire: %s", error)
        self._bus.close()

    def _forget_connections(self) -> None:
        self._bus.forget()

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self._channels: dict[str, Channel] = {}

    def _living(self, owner: str | None) -> BrokerSession | None:
        self._refuse_if_closed()
        return super()._living(owner)

    def _channel(self, queue: str) -> Channel:
        with self._guard:
            channel = self._channels.get(queue)
            if channel is None:
                channel = self._channels[queue] = Channel(self._bus, queue, self._names.of(queue), self.clock)
            return channel

    def _put_back_unclaimed(self, *, everything: bool = False) -> None:
        with self._guard:
            channels = list(self._channels.values())
        for channel in channels:
            while (arrival := channel.unclaimed(everything=everything)) is not None:
                give_back_unharmed(channel, arrival, self.clock.micros())

    def _make_contact(self) -> None:
        with self._guard:
            channel = next(iter(self._channels.values()), None)
        if channel is not None:
            channel.ask()

    def _stored(self, lease: Lease) -> bool:
        number, sealed = lease.receipt, lease.envelope
        return isinstance(number, int) and self._channel(sealed.queue).stores(number, sealed.id)


def _batches(outgoing: Sequence[_Outgoing]) -> Iterator[tuple[Channel, list[_Outgoing]]]:
    """Yield batches: messages to one queue, due at one instant, within the server's size limit."""
    kinds: Callable[[_Outgoing], tuple[str, int]] = lambda each: (each.channel.entity, each.due or 0)  # noqa: E731
    for _, alike in groupby(sorted(outgoing, key=kinds), key=kinds):
        batch: list[_Outgoing] = []
        size = 0
        for each in alike:
            if batch and size + each.size > _BATCH:
                yield batch[0].channel, batch
                batch, size = [], 0
            batch.append(each)
            size += each.size
        yield batch[0].channel, batch
