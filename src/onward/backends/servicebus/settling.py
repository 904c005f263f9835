"""Settlements as commands of Service Bus.

    ack, skip, cancelled                    complete
    nack, snooze, park, release, crashed    renew, schedule the copy, complete
    abandon, crashed too often              [renew, send the dead letter,] dead-letter

A renewal that is refused: the lease was lost, and nothing is scheduled.  The copy is stored before the original is removed:
a process that is killed between two commands leaves the job twice, and never loses it.
"""

from __future__ import annotations

from collections.abc import Callable

from onward.backends.broker.evidence import key_of
from onward.backends.broker.header import settled
from onward.backends.servicebus.received import Received
from onward.backends.servicebus.session import BrokerSession
from onward.job.envelope import Envelope
from onward.job.settlement import GONE, LEASE_LOST, UNEXPLAINED, Settled, Settlement, applied
from onward.job.states import FINISHED, State

__all__ = ["settle"]


def settle(session: BrokerSession, settlement: Settlement, store: Callable[[Envelope], object], now: int) -> Settled:
    """Apply a settlement.  ``store`` stores a dead letter."""
    received = session.held[key_of(settlement)]
    state = _apply(settlement, received, store, now)
    del session.held[key_of(settlement)]  # only now: without an answer the lease stays until its lock expires
    if state is not None:
        return applied(state)
    return LEASE_LOST if received.is_there() else GONE


def _apply(settlement: Settlement, received: Received, store: Callable[[Envelope], object], now: int) -> State | None:
    what, header = settled(settlement, received.header, now)
    if what.to is State.DISCARDED:
        if settlement.dead_letter is not None:
            if not received.renew():
                return None
            store(settlement.dead_letter)
        kept = received.dead_letter(header, what.reason or UNEXPLAINED.message, what.failure, now)
    elif what.to in FINISHED:
        kept = received.complete()
    else:
        kept = received.put_back(header, 0 if what.due is None else what.due - now, now)
    return what.to if kept else None
