"""Claiming: cancel what expired, promote what is due, lease jobs in their order, take their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from onward.backend import Claim
from onward.backends.postgres import holds, single_line
from onward.backends.postgres.flows import touch_expired
from onward.backends.postgres.lanes import LaneClaims, LaneWalk
from onward.backends.postgres.queue_marks import PINNED, QueueMarks
from onward.backends.postgres.transaction import Reply, Row, Transaction
from onward.base.clock import SECOND
from onward.job.envelope import Sealed
from onward.job.lease import Hold, Lease
from onward.job.settlement import Settlement

__all__ = ["Claimed", "Holder", "PendingClaim", "adopt", "adopted", "ask", "claimed", "taken"]

_FREE: tuple[Hold, str | None] = (Hold.FREE, None)
# Its column in a row of `claim`.
_RANK_TIME_ID = itemgetter(0, 1, 2)
_ID, _QUEUE, _TOKEN, _SPECIAL = 2, 3, 5, 8


class _Special(msgspec.Struct, array_like=True, frozen=True):
    """The columns that only few jobs have, in the order of `claim`."""

    crashes: int
    interruptions: int
    waits: int
    parked_since: int | None
    spent: str | None
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None
    member: bool
    lane: str | None


_special = msgspec.json.Decoder(_Special).decode


class Holder(NamedTuple):
    """The session that claims, and the store's time."""

    owner: str
    expires_at: int
    now: int


class PendingLine(NamedTuple):
    """A claim of a single line that was sent."""

    most: int  # that it could take
    begins: bool  # whether more could begin
    taking: Reply


class PendingClaim(NamedTuple):
    """The statements of a claim that were sent."""

    claim: Claim
    queues: list[str]
    released: list[str]
    ended: Sequence[Settlement]  # by the same turn, for certain
    promoted: Reply
    claimed: Reply | None  # of `claim`; None if it walks or takes a single line
    pinned: Reply | None
    walk: LaneWalk | None = None
    line: PendingLine | None = None


class Claimed(NamedTuple):
    """What a claim has got."""

    leases: list[Lease]
    more: bool = False
    awaits_slots: bool = False
    contended: bool = False


def ask(
    tx: Transaction,
    claim: Claim,
    marks: QueueMarks,
    lanes: LaneClaims,
    *,
    owner: str,
    released: Iterable[str],
    ended: Sequence[Settlement] = (),
) -> PendingClaim:
    """Ask for the next jobs of the claim's queues; what this turn released is not among them.

    ``ended``: settlements of this turn, if it is rolled back should one of them not end its lease.
    """
    queues, given_back = list(dict.fromkeys(claim.queues)), list(released)
    pinned = tx.ask("pinned", transactions=PINNED) if marks.wants_to_know() else None
    begin = marks.for_claim(queues)
    is_walked = lanes.expects(queues)
    promoted = tx.ask("promote", queues=queues, due_since=begin.pop("due_since"), limit=claim.limit)
    if is_walked and (expected := lanes.expected_line(claim, ended)) is not None:
        line, most = expected
        taking = single_line.ask(tx, line, most, owner=owner, released=given_back)
        pending = PendingLine(most, most < line.most(claim), taking)
        return PendingClaim(claim, queues, given_back, ended, promoted, None, pinned, line=pending)
    if is_walked:
        walk = lanes.begin(tx, claim, ended, marks.lanes)
        return PendingClaim(claim, queues, given_back, ended, promoted, None, pinned, walk)
    claimed = tx.ask(
        "claim",
        **begin,
        queues=queues,
        at_most=[max(0, min(claim.at_most.get(queue, claim.limit), claim.limit)) for queue in queues],
        limit=claim.limit,
        released=given_back,
        owner=owner,
    )
    return PendingClaim(claim, queues, given_back, ended, promoted, claimed, pinned)


def claimed(tx: Transaction, asked: PendingClaim, marks: QueueMarks, lanes: LaneClaims, held: Holder) -> Claimed:
    """Return the new leases, in claim order."""
    if asked.pinned is not None:
        ((is_pinned, ends_ranges),) = asked.pinned.rows()
        marks.tell(pinned=bool(is_pinned), of_lanes=ends_ranges)
    ((promoted, expired),) = asked.promoted.rows()
    touch_expired(tx, expired)
    marks.promoted(asked.queues, exhausted=promoted < asked.claim.limit, now=held.now)
    if asked.line is not None:
        got = _by_line(tx, asked.line, asked.claim, lanes, held)
        return _by_lanes(tx, asked, marks, lanes, held) if got is None else got
    rows = [] if asked.claimed is None else asked.claimed.rows()
    if asked.claimed is None or (rows and rows[0][_ID] is None):
        return _by_lanes(tx, asked, marks, lanes, held)
    rows = sorted(rows, key=_RANK_TIME_ID)
    if len(asked.queues) > 1:
        place = {queue: at for at, queue in enumerate(asked.queues)}
        rows.sort(key=lambda row: place[row[_QUEUE]])
    limit = asked.claim.limit
    seen = [queue for queue in asked.queues if asked.claim.at_most.get(queue, limit) > 0]
    marks.claimed(seen, rows, exhausted=not rows, now=held.now)
    return Claimed(_leases(tx, rows, owner=held.owner, expires_at=held.expires_at, now=held.now))


def _by_lanes(tx: Transaction, asked: PendingClaim, marks: QueueMarks, lanes: LaneClaims, held: Holder) -> Claimed:
    walk = asked.walk or lanes.begin(tx, asked.claim, asked.ended, marks.lanes)
    taken = walk.take(owner=held.owner, released=asked.released)
    lanes.learn(walk)
    marks.claimed(asked.queues, (), exhausted=False, now=held.now)  # of what fell due all was looked at
    leases = _leases(tx, taken.rows, owner=held.owner, expires_at=held.expires_at, now=held.now)
    if taken.probes:
        probes = {job_id: shut_for / SECOND for job_id, shut_for in taken.probes.items()}
        leases = [msgspec.structs.replace(each, probe=probes.get(each.envelope.id, 0)) for each in leases]
    return Claimed(leases, taken.more, taken.awaits_slots, taken.contended)


def _by_line(tx: Transaction, line: PendingLine, claim: Claim, lanes: LaneClaims, held: Holder) -> Claimed | None:
    """Return what a claim of a single line has got; None if it must walk."""
    got = single_line.taken(line.taking)
    lanes.line_taken(got)
    if not got.is_single and not got.rows:
        return None
    leases = _leases(tx, got.rows, owner=held.owner, expires_at=held.expires_at, now=held.now)
    may_be_more = got.free > 0 and len(leases) == line.most
    more, awaits_slots = may_be_more and line.begins, may_be_more and not line.begins
    return Claimed(leases, more or not got.is_single, awaits_slots and line.most < claim.limit)


def taken(tx: Transaction, claimed: Reply, ids: Sequence[str], *, owner: str, expires_at: int, now: int) -> list[Lease]:
    """Return the leases that were claimed by id, in the order of the ids."""
    place = {job_id: at for at, job_id in enumerate(ids)}
    rows = sorted(claimed.rows(), key=lambda row: place[row[_ID]])
    return _leases(tx, rows, owner=owner, expires_at=expires_at, now=now)


def adopt(tx: Transaction, adopted: str, *, owner: str) -> None:
    """Give the leases of one owner to another."""
    tx.ask("adopt", adopted=adopted, owner=owner)


def adopted(tx: Transaction, *, owner: str, expires_at: int, now: int) -> list[Lease]:
    """Return all leases of this owner."""
    rows = tx.ask("leases_of", owner=owner).rows()
    return _leases(tx, rows, owner=owner, expires_at=expires_at, now=now)


def _leases(tx: Transaction, rows: Sequence[Row], *, owner: str, expires_at: int, now: int) -> list[Lease]:
    special = {row[_ID]: _special(row[_SPECIAL]) for row in rows if row[_SPECIAL]}
    keyed = (
        [
            holds.Keyed(row[_ID], row[_TOKEN], each.idempotency_key, each.idempotency_ttl, each.single_instance)
            for row in rows
            if (each := special.get(row[_ID])) is not None
            and (each.idempotency_key is not None or each.single_instance is not None)
        ]
        if special
        else []
    )
    held = holds.take(tx, keyed, now) if keyed else {}
    found = []
    for _, _, job_id, queue, sealed, token, started_at, attempts, more in rows:
        lease = Lease(
            envelope=Sealed(job_id, queue, sealed),
            token=token,
            owner=owner,
            expires_at=expires_at,
            claimed_at=started_at,
            attempts=attempts,
            member=more == "",
        )
        if more:
            lease = _with(lease, special[job_id], *held.get(job_id, _FREE))
        found.append(lease)
    return found


def _with(lease: Lease, special: _Special, hold: Hold, holder: str | None) -> Lease:
    return msgspec.structs.replace(
        lease,
        crashes=special.crashes,
        interruptions=special.interruptions,
        waits=special.waits,
        parked_since=special.parked_since,
        spent=special.spent,
        lane=special.lane,
        member=special.member,
        hold=hold,
        holder=holder,
    )
