"""What becomes of a lease, in commands.

    ack, skip, cancelled           delete
    release                        release
    nack, snooze, park, crashed    touch, put, delete
    abandon, crashed too often     [put the dead letter,] touch, put, reserve it, bury it, delete

A touch that finds nothing: the lease was lost, and nothing is put.  The copy is stored before the original is removed: who
is killed between two commands leaves the job twice, and never not at all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import msgspec

from onward.backend import Reaped
from onward.backends.beanstalk.body import Header
from onward.backends.beanstalk.session import Reserved, Session
from onward.backends.beanstalk.tubes import urgency
from onward.clock import SECOND
from onward.envelope import Envelope
from onward.failure import Failure
from onward.lease import (
    GONE,
    LEASE_LOST,
    UNEXPLAINED,
    UNKNOWN_CAUSE,
    Settled,
    Settlement,
    already_applied,
    applied,
    crash_pause,
)
from onward.states import TARGETS, State

__all__ = ["Evidence", "give_back", "settle"]

_REMEMBERED = 10_000


class Evidence:
    """What this process has settled lately: a settlement that is repeated is told from one that came too late."""

    def __init__(self) -> None:
        self._fates: OrderedDict[tuple[str, int], tuple[str, State] | None] = OrderedDict()

    def note(self, settlement: Settlement, answer: Settled) -> None:
        if answer.state is None:
            return
        # Of a job that was put back without a run no trace is kept: to say it again is to say it of a lease that is over.
        fate = None if settlement.move in ("snooze", "park", "release") else (settlement.move, answer.state)
        self._fates[_key(settlement)] = fate
        while len(self._fates) > _REMEMBERED:
            self._fates.popitem(last=False)

    def classify(self, settlement: Settlement, stored: Callable[[int], str | None]) -> Settled:
        """What is known of a settlement whose lease is not held.  ``stored``: the id of the job under a number."""
        key = _key(settlement)
        if key in self._fates:
            fate = self._fates[key]
            return already_applied(fate[1]) if fate is not None and fate[0] == settlement.move else LEASE_LOST
        number = settlement.lease.receipt
        found = stored(number) if isinstance(number, int) else None
        return LEASE_LOST if found == settlement.lease.envelope.id else GONE


def settle(session: Session, settlement: Settlement, store: Callable[[Envelope], object], now: int) -> Settled:
    """Apply it.  ``store`` keeps a dead letter."""
    reserved = session.held[_key(settlement)]
    state = _apply(session, settlement, reserved, store, now)
    del session.held[_key(settlement)]  # only now: without an answer it stays ours, or went with the connection
    return LEASE_LOST if state is None else applied(state)


def give_back(
    session: Session, evidence: Evidence, cause: str, key: tuple[str, int], *, started: bool
) -> Reaped | None:
    """Take a lease from a session that ends here; None if it was lost before."""
    reserved = session.held[key]
    lease = session.lease(reserved, "")
    move = Settlement.crashed(lease, cause) if started else Settlement.release(lease)
    answer = settle(session, move, lambda _: None, reserved.claimed_at)
    evidence.note(move, answer)
    if answer.state is None:
        return None
    header = reserved.header
    return Reaped(
        id=header.id,
        queue=reserved.queue,
        job=header.job,
        token=lease.token,
        to=answer.state,
        cause=cause,
        crashed=started,
        crashes=header.crashes + started,
    )


def _apply(
    session: Session, settlement: Settlement, reserved: Reserved, store: Callable[[Envelope], object], now: int
) -> State | None:
    kept, target, header = False, TARGETS[settlement.move], _moved(settlement, reserved.header, now)
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
            reason, target = f"crashed {header.crashes} times: {cause}", State.DISCARDED
            kept = session.bury(reserved, header, reason, Failure("Crash", cause))
        case "abandon":
            if settlement.dead_letter is not None:
                store(settlement.dead_letter)
            reason = settlement.reason or UNEXPLAINED.message
            kept = session.bury(reserved, header, reason, settlement.failure)
    return target if kept else None


def _moved(settlement: Settlement, header: Header, now: int) -> Header:
    """The counters of its line in the contract's table."""
    if settlement.move == "crashed":
        return msgspec.structs.replace(header, crashes=header.crashes + 1)
    return msgspec.structs.replace(
        header,
        attempts=header.attempts + settlement.ran,
        waits=settlement.waits,
        spent=settlement.spent or header.spent,
        parked_since=(header.parked_since or now) if settlement.move == "park" else None,
    )


def _key(settlement: Settlement) -> tuple[str, int]:
    return (settlement.lease.envelope.id, settlement.lease.token)
