"""What becomes of a lease, in commands.

    ack, skip, cancelled           delete
    release                        release
    nack, snooze, park, crashed    touch, put, delete
    abandon, crashed too often     [put the dead letter,] touch, put, reserve it, bury it, delete

A touch that finds nothing: the lease was lost, and nothing is put.  The copy is stored before the original is removed: who
is killed between two commands leaves the job twice, and never not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onward.backends.beanstalk.session import Reserved, Session
from onward.backends.beanstalk.tubes import urgency
from onward.backends.broker.evidence import key_of
from onward.backends.broker.header import moved
from onward.base.clock import SECOND
from onward.base.failure import Failure
from onward.base.wording import counted
from onward.job.envelope import Envelope
from onward.job.lease import LEASE_LOST, UNEXPLAINED, UNKNOWN_CAUSE, Settled, Settlement, applied, crash_pause
from onward.job.states import TARGETS, State

__all__ = ["ENDINGS", "end", "settle"]

ENDINGS = ("ack", "skip", "cancelled")


def settle(session: Session, settlement: Settlement, store: Callable[[Envelope], object], now: int) -> Settled:
    """Apply it.  ``store`` keeps a dead letter."""
    reserved = session.held[key_of(settlement)]
    state = _apply(session, settlement, reserved, store, now)
    del session.held[key_of(settlement)]  # only now: without an answer it stays ours, or went with the connection
    return LEASE_LOST if state is None else applied(state)


def end(session: Session, settlements: Sequence[Settlement], answers: list[Settled]) -> None:
    """Apply what only removes jobs.  ``answers`` is filled in as far as the server has answered."""
    if not settlements:
        return
    found: list[bool] = []
    keys = [key_of(settlement) for settlement in settlements]
    try:
        session.connection.delete_all([session.held[key].number for key in keys], found)
    finally:
        for settlement, key, was_there in zip(settlements, keys, found, strict=False):
            del session.held[key]
            answers.append(applied(TARGETS[settlement.move]) if was_there else LEASE_LOST)


def _apply(
    session: Session, settlement: Settlement, reserved: Reserved, store: Callable[[Envelope], object], now: int
) -> State | None:
    kept, target, header = False, TARGETS[settlement.move], moved(settlement, reserved.header, now)
    match settlement.move:
        case "ack" | "skip" | "cancelled":
            kept = session.connection.delete(reserved.number)
        case "release":
            kept = session.connection.release(reserved.number, urgency(header.priority))
        case "nack" | "snooze" | "park":
            kept = session.put_back(reserved, header, round(settlement.delay * SECOND))
        case "crashed" if header.crashes < header.max_crashes:
            kept = session.put_back(reserved, header, crash_pause(header.crashes))
        case "crashed":
            cause = settlement.reason or UNKNOWN_CAUSE
            reason, target = f"crashed {counted(header.crashes, 'time')}: {cause}", State.DISCARDED
            kept = session.bury(reserved, header, reason, Failure("Crash", cause))
        case "abandon":
            if settlement.dead_letter is not None:
                store(settlement.dead_letter)
            reason = settlement.reason or UNEXPLAINED.message
            kept = session.bury(reserved, header, reason, settlement.failure)
    return target if kept else None
