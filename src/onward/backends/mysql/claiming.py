"""Claiming: cancel what expired, promote what is due, lease jobs in their order, take their keys."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import itemgetter
from typing import NamedTuple

import msgspec

from onward.backend import Claim
from onward.backends.mysql import enqueueing, holds, lanes
from onward.backends.mysql.lane_view import BETWEEN, Head
from onward.backends.mysql.transaction import Reply, Row, Transaction
from onward.base.clock import SECOND
from onward.flow.walk import MOST_BOOKED, Cursors, Pick, Walked
from onward.job.envelope import Sealed
from onward.job.lease import Hold, Lease
from onward.job.states import State

__all__ = ["Claimed", "PendingClaim", "Walks", "adopt", "adopted", "ask", "hand_out", "take"]

_TIME_ID = itemgetter(0, 1)  # in a row of `due`
_NOTHING: Walked[Head] = Walked([], more=False, opens_at=None, booked=[], charges={}, awaits_slots=False)
_FREE: tuple[Hold, str | None] = (Hold.FREE, None)
_decode = msgspec.json.Decoder(
    tuple[int, int, int, int, int | None, str | None, str | None, int, str | None, str | None, bool | int]
).decode


class PendingClaim(NamedTuple):
    """The statements of a claim that were sent, before their answers are read."""

    claim: Claim
    looks: dict[str, Reply]  # by queue
    released: list[str]
    first: Reply | None  # of the first queue, where usually nothing has to be promoted


class Claimed(NamedTuple):
    """What a claim has done: the new leases are in claim order."""

    promoted: int
    leases: list[Lease]
    more: bool = False
    awaits_slots: bool = False


class _QueueLook(NamedTuple):
    queue: str
    paused: bool
    expired: bool
    due: bool
    last: int | None  # the place of the job that comes last
    limited: bool

    @property
    def is_walked(self) -> bool:
        return bool(self.limited) or (self.last is not None and self.last > BETWEEN)


class _Promoted(NamedTuple):
    number: int = 0
    laned: bool = False  # one of them has a lane


_NONE = _Promoted()


class Walks:
    """What one process remembers of its walks."""

    def __init__(self) -> None:
        self.cursors = Cursors()
        self.queues: set[str] = set()  # that had lanes or a limit when they were claimed from last


def ask(tx: Transaction, claim: Claim, walks: Walks, *, released: Sequence[str]) -> PendingClaim:
    """Ask for the next jobs of the claim's queues; what this turn released is not among them."""
    looks = {queue: tx.ask("anything_to_do", queue=queue) for queue in claim.queues}
    first = next((queue for queue in claim.queues[:1] if queue not in walks.queues), None)
    at_most = 0 if first is None else _at_most(claim, first, claim.limit)
    candidates = None if first is None else _candidates(tx, first, at_most, released, unless_due=True)
    return PendingClaim(claim, looks, list(released), candidates)


def hand_out(tx: Transaction, asked: PendingClaim, walks: Walks, *, owner: str, expires_at: int, now: int) -> Claimed:
    """Lease the next jobs: by one walk over all queues if one of them has lanes or a limit."""
    looked = [_QueueLook(queue, *reply.rows()[0]) for queue, reply in asked.looks.items()]
    served = [look for look in looked if not look.paused]
    for look in served:
        if look.expired:
            _cancel_expired(tx, look.queue, asked.claim.limit)
    promoted = {look.queue: _promote(tx, look.queue, asked.claim.limit) for look in served if look.due}
    found = _NOTHING
    walked = {look.queue for look in served if look.is_walked or promoted.get(look.queue, _NONE).laned}
    walks.queues = walks.queues.difference(asked.looks) | walked
    if walked:
        queues = [look.queue for look in served]
        found = lanes.walk_lanes(tx, walks.cursors, asked.claim, queues=queues, released=asked.released, now=now)
        claimed = [pick.job.row for pick in found.picks]
    else:
        first = looked[0].queue if looked and not looked[0].due else None
        claimed = _plain(tx, asked, [look for look in served if look.last is not None or look.queue in promoted], first)
    leases: list[Lease] = []
    if claimed:
        tx.ask("claim", ids=[row[0] for row in claimed], owner=owner, at=now)
        rows = [(*row, now) for row in claimed]
        leases = _leases(tx, rows, owner=owner, expires_at=expires_at, now=now)
    number = sum(each.number for each in promoted.values())
    return Claimed(number, _probing(leases, found.picks), found.more, found.awaits_slots)


def _plain(tx: Transaction, asked: PendingClaim, served: Sequence[_QueueLook], first: str | None) -> list[Row]:
    """Lock the next jobs of queues without lanes.  ``first``: the queue whose jobs were asked for before."""
    claimed: list[Row] = []
    for look in served:
        at_most = _at_most(asked.claim, look.queue, asked.claim.limit - len(claimed))
        if at_most <= 0:
            continue
        if look.queue == first and asked.first is not None:
            found = asked.first.rows()
        else:
            found = _candidates(tx, look.queue, at_most, asked.released).rows()
        if not _add(claimed, found):
            break
    return claimed


def _probing(leases: list[Lease], picks: Sequence[Pick[Head]]) -> list[Lease]:
    """Return the leases, and for those that show whether their job may open, how long it was shut."""
    probes = [pick.probe for pick in picks]
    if not any(probes):
        return leases
    return [msgspec.structs.replace(lease, probe=each / SECOND) for lease, each in zip(leases, probes, strict=True)]


def take(tx: Transaction, found: Reply, *, owner: str, expires_at: int, now: int) -> list[Lease]:
    """Claim those jobs that were found by their ids and may run."""
    claimed: list[Row] = []
    _add(claimed, found.rows())
    if not claimed:
        return []
    ids = [row[0] for row in claimed]
    tx.ask("promote", ids=ids)
    tx.ask("claim", ids=ids, owner=owner, at=now)
    return _leases(tx, [(*row, now) for row in claimed], owner=owner, expires_at=expires_at, now=now)


def until_due(tx: Transaction, queue: str, looked: Reply) -> float:
    """Return the seconds until a claim of this queue finds something: 0 if it would now."""
    ((paused, last, limited, *due, now),) = looked.rows()
    if paused:
        return inf
    known = [at for at in due if at is not None]
    if last is not None:
        opens = lanes.opens_at(tx, queue, now) if limited or last > BETWEEN else 0
        known += [] if opens is None else [opens]
    return max(0, min(known) - now) / SECOND if known else inf


def adopt(tx: Transaction, adopted: str, *, owner: str) -> None:
    """Give the leases of one owner to another."""
    held = [row[0] for row in tx.ask("leases_of", owner=adopted).rows()]
    tx.ask("adopt", ids=held, adopted=adopted, owner=owner)


def adopted(tx: Transaction, *, owner: str, expires_at: int, now: int) -> list[Lease]:
    """Return all leases of this owner."""
    return _leases(tx, tx.ask("leases_of", owner=owner).rows(), owner=owner, expires_at=expires_at, now=now)


def _candidates(tx: Transaction, queue: str, limit: int, released: Sequence[str], *, unless_due: bool = False) -> Reply:
    return tx.ask("candidates", queue=queue, limit=max(0, limit), released=list(released), unless_due=unless_due)


def _at_most(claim: Claim, queue: str, left: int) -> int:
    return max(0, min(claim.at_most.get(queue, left), left))


def _cancel_expired(tx: Transaction, queue: str, limit: int) -> None:
    found = sorted(job_id for (job_id,) in tx.ask("expired", queue=queue, limit=limit).rows())
    expired = tx.ask("lock_expired", ids=found, queue=queue).rows() if found else []
    if expired:
        members = [job_id for job_id, is_member in expired if is_member]
        enqueueing.end_waiting(tx, [(job_id, "expired") for job_id, _ in expired], members)


def _promote(tx: Transaction, queue: str, limit: int) -> _Promoted:
    """Make available what is due; what was booked apart, so that it does not hold up the others."""
    replies = [
        tx.ask("due", state=str(state), queue=queue, limit=limit) for state in (State.SCHEDULED, State.RETRYABLE)
    ]
    scheduled, retryable = (reply.rows() for reply in replies)
    booked: Sequence[Row] = ()
    if any(row[3] for row in scheduled):
        asked = [
            tx.ask("due_apart", queue=queue, is_booked=each, limit=most)
            for each, most in ((None, limit), (True, MOST_BOOKED))
        ]
        scheduled, booked = (reply.rows() for reply in asked)
    due = [*sorted([*scheduled, *retryable], key=_TIME_ID)[:limit], *booked]
    if due:
        tx.ask("promote", ids=[row[1] for row in due])
    return _Promoted(len(due), any(row[2] for row in due))


def _add(claimed: list[Row], found: Sequence[Row]) -> bool:
    """Add what may be claimed.  False if a suspect ends it: one is claimed only if it comes first, and then alone."""
    for row in found:
        suspect = row[4] is not None and _decode(row[4])[1] > 0
        if not suspect or not claimed:
            claimed.append(row)
        if suspect:
            return False
    return True


def _leases(tx: Transaction, rows: Sequence[Row], *, owner: str, expires_at: int, now: int) -> list[Lease]:
    pasts = [None if row[4] is None else _decode(row[4]) for row in rows]
    keyed = [
        holds.Keyed(row[0], row[2], past[6], past[7], past[8])
        for row, past in zip(rows, pasts, strict=True)
        if past is not None and (past[6] is not None or past[8] is not None)
    ]
    held = holds.take(tx, keyed, now) if keyed else {}
    found = []
    for (job_id, queue, token, sealed, _, started_at), past in zip(rows, pasts, strict=True):
        envelope = Sealed(job_id, queue, sealed)
        # Most are claimed for the first time, and a value that is given costs more than one that is not.
        if past is None:
            found.append(
                Lease(envelope=envelope, token=token, owner=owner, expires_at=expires_at, claimed_at=started_at)
            )
            continue
        attempts, crashes, interruptions, waits, parked_since, spent, *_, lane, member = past
        hold, holder = held.get(job_id, _FREE)
        found.append(
            Lease(
                envelope=envelope,
                token=token,
                owner=owner,
                expires_at=expires_at,
                claimed_at=started_at,
                attempts=attempts,
                crashes=crashes,
                interruptions=interruptions,
                hold=hold,
                holder=holder,
                waits=waits,
                parked_since=parked_since,
                spent=spent,
                lane=lane,
                member=bool(member),
            )
        )
    return found
