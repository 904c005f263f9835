"""Settlements as commands of beanstalkd.

    ack, skip, cancelled           delete
    release                        release
    nack, snooze, park, crashed    touch, put, delete
    abandon, crashed too often     [put the dead letter,] touch, put, reserve it, bury it, delete

A touch that finds no job: the lease was lost, and nothing is put.  The copy is stored before the original is removed: a
process that is killed between two commands leaves the job twice, and never loses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onward.backends.beanstalk.session import BrokerSession, Reserved
from onward.backends.beanstalk.tubes import urgency
from onward.backends.broker.evidence import key_of
from onward.backends.broker.header import settled
from onward.job.envelope import Envelope
from onward.job.settlement import LEASE_LOST, UNEXPLAINED, Settled, Settlement, applied
from onward.job.states import FINISHED, TARGETS, State

__all__ = ["ENDINGS", "end", "settle"]

ENDINGS = ("ack", "skip", "cancelled")


def settle(session: BrokerSession, settlement: Settlement, store: Callable[[Envelope], object], now: int) -> Settled:
    """Apply a settlement.  ``store`` stores a dead letter."""
    reserved = session.held[key_of(settlement)]
    state = _apply(session, settlement, reserved, store, now)
    del session.held[key_of(settlement)]  # only now: without an answer the lease stays, or was lost with the connection
    return LEASE_LOST if state is None else applied(state)


def end(session: BrokerSession, settlements: Sequence[Settlement], answers: list[Settled]) -> None:
    """Apply settlements that only remove jobs.  Fills in ``answers`` as far as the server has answered."""
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
    session: BrokerSession, settlement: Settlement, reserved: Reserved, store: Callable[[Envelope], object], now: int
) -> State | None:
    what, header = settled(settlement, reserved.header, now)
    if what.to is State.DISCARDED:
        if settlement.dead_letter is not None:
            store(settlement.dead_letter)
        kept = session.bury(reserved, header, what.reason or UNEXPLAINED.message, what.failure)
    elif what.to in FINISHED:
        kept = session.connection.delete(reserved.number)
    elif what.due is None:
        kept = session.connection.release(reserved.number, urgency(header.priority))
    else:
        kept = session.put_back(reserved, header, what.due - now)
    return what.to if kept else None
