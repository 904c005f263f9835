"""Claiming: cancel what expired, promote what is due, lease jobs in their order, take their keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple

import msgspec

from onward.backend import Claim
from onward.backends.postgres import holds
from onward.backends.postgres.queue_marks import PINNED, QueueMarks
from onward.backends.postgres.transaction import Reply, Row, Transaction
from onward.job.envelope import Sealed
from onward.job.lease import Hold, Lease

__all__ = ["PendingClaim", "adopt", "adopted", "ask", "leases", "taken"]

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


_special = msgspec.json.Decoder(_Special).decode


class PendingClaim(NamedTuple):
    """The statements of a claim that were sent."""

    claim: Claim
    queues: list[str]
    promoted: Reply
    claimed: Reply
    pinned: Reply | None


def ask(tx: Transaction, claim: Claim, marks: QueueMarks, *, owner: str, released: Iterable[str]) -> PendingClaim:
    """Ask for the next jobs of the claim's queues; what this turn released is not among them."""
    queues = list(dict.fromkeys(claim.queues))
    pinned = tx.ask("pinned", transactions=PINNED) if marks.wants_to_know() else None
    begin = marks.for_claim(queues)
    promoted = tx.ask("promote", queues=queues, due_since=begin.pop("due_since"), limit=claim.limit)
    claimed = tx.ask(
        "claim",
        **begin,
        queues=queues,
        at_most=[max(0, min(claim.at_most.get(queue, claim.limit), claim.limit)) for queue in queues],
        limit=claim.limit,
        released=list(released),
        owner=owner,
    )
    return PendingClaim(claim, queues, promoted, claimed, pinned)


def leases(
    tx: Transaction, asked: PendingClaim, marks: QueueMarks, *, owner: str, expires_at: int, now: int
) -> list[Lease]:
    """Return the new leases, in claim order."""
    rows = sorted(asked.claimed.rows(), key=_RANK_TIME_ID)
    if len(asked.queues) > 1:
        place = {queue: at for at, queue in enumerate(asked.queues)}
        rows.sort(key=lambda row: place[row[_QUEUE]])
    if asked.pinned is not None:
        marks.tell(pinned=bool(asked.pinned.value()))
    limit = asked.claim.limit
    marks.promoted(asked.queues, exhausted=asked.promoted.value() < limit, now=now)
    seen = [queue for queue in asked.queues if asked.claim.at_most.get(queue, limit) > 0]
    marks.claimed(seen, rows, exhausted=not rows, now=now)
    return _leases(tx, rows, owner=owner, expires_at=expires_at, now=now)


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
    special = {row[_ID]: _special(row[_SPECIAL]) for row in rows if row[_SPECIAL] is not None}
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
        )
        if more is not None:
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
        hold=hold,
        holder=holder,
    )
