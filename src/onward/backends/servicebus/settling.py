"""What becomes of a lease, in commands.

    ack, skip, cancelled                    complete
    nack, snooze, park, release, crashed    renew, schedule the copy, complete
    abandon, crashed too often              [renew, send the dead letter,] dead-letter

A renewal that is refused: the lease was lost, and nothing is scheduled.  The copy is stored before the original is removed:
who is killed between two commands leaves the job twice, and never not at all.
"""

from __future__ import annotations

from collections.abc import Callable

from onward.backends.broker.evidence import key_of
from onward.backends.broker.header import moved
from onward.backends.servicebus.received import Received
from onward.backends.servicebus.session import Session
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.base.wording import counted
from onward.job.envelope import Envelope
from onward.job.lease import GONE, LEASE_LOST, UNEXPLAINED, UNKNOWN_CAUSE, Settled, Settlement, applied, crash_pause
from onward.job.states import TARGETS, State

__all__ = ["settle"]


def settle(session: Session, settlement: Settlement, store: Callable[[Envelope], object], now: int) -> Settled:
    """Apply it.  ``store`` keeps a dead letter."""
    received = session.held[key_of(settlement)]
    state = _apply(settlement, received, store, now)
    del session.held[key_of(settlement)]  # only now: without an answer it stays ours, until its lock expires
    if state is not None:
        return applied(state)
    return LEASE_LOST if received.is_there() else GONE


def _apply(settlement: Settlement, received: Received, store: Callable[[Envelope], object], now: int) -> State | None:
    kept, target, header = False, TARGETS[settlement.move], moved(settlement, received.header, now)
    match settlement.move:
        case "ack" | "skip" | "cancelled":
            kept = received.complete()
        case "nack" | "snooze" | "park" | "release":
            kept = received.put_back(header, round(settlement.delay * SECOND), now)
        case "crashed" if header.crashes < header.max_crashes:
            kept = received.put_back(header, crash_pause(header.crashes), now)
        case "crashed":
            cause = settlement.reason or UNKNOWN_CAUSE
            target = State.DISCARDED
            kept = received.bury(
                header, f"crashed {counted(header.crashes, 'time')}: {cause}", Failure("Crash", cause), now
            )
        case "abandon":
            if settlement.dead_letter is not None:
                if not received.renew():
                    return None
                store(settlement.dead_letter)
            reason = settlement.reason or UNEXPLAINED.message
            kept = received.bury(header, reason, settlement.failure, now)
    return target if kept else None
