"""Handing out work: cancel what expired, promote what is due, claim in order, take the keys."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Claim
from onward.backends.sqlite import holds
from onward.backends.sqlite.enqueueing import cancel_waiting
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.envelope import Sealed
from onward.lease import Hold, Lease

__all__ = ["adopted", "anything_to_do", "claim", "open_queues", "promote"]

_FREE: tuple[Hold, str | None] = (Hold.FREE, None)

# Columns of `candidates` and `leases_of`.
_ROWID, _ID, _TOKEN, _CRASHES, _ONCE, _TTL, _SINGLE = 0, 1, 4, 7, 12, 13, 14


def open_queues(tx: Transaction, queues: Sequence[str]) -> list[str]:
    """These queues in their order, without the paused ones."""
    paused = {name for (name,) in tx.rows("paused_queues")}
    return [queue for queue in dict.fromkeys(queues) if queue not in paused]


def anything_to_do(tx: Transaction, claim: Claim) -> bool:
    return any(
        tx.value("anything_to_do", (queue, tx.now, int(claim.at_most.get(queue, claim.limit) > 0)))
        for queue in open_queues(tx, claim.queues)
    )


def promote(tx: Transaction, queues: Sequence[str], limit: int) -> int:
    """Cancel what has expired and make available what is due, up to the limit in each queue."""
    promoted = 0
    for queue in queues:
        expired = [rowid for (rowid,) in tx.rows("expired", (queue, tx.now, limit))]
        if expired:
            cancel_waiting(tx, expired, "expired")
        promoted += tx.run("promote", (queue, tx.now, limit))
    return promoted


def claim(
    tx: Transaction, claim: Claim, queues: Sequence[str], *, owner: str, expires_at: int, released: frozenset[str]
) -> list[Lease]:
    """The next jobs of these queues, now executing under this owner; what this turn released is not among them."""
    rows, more = _candidates(tx, claim, queues, released)
    if more:
        tx.wakes = True
    if rows:
        tx.run("claim", (owner, tx.now, as_json([row[_ROWID] for row in rows])))
    return _leases(tx, rows, owner, expires_at)


def adopted(tx: Transaction, owner: str, expires_at: int) -> list[Lease]:
    """All that this owner holds."""
    return _leases(tx, tx.rows("leases_of", (owner,)), owner, expires_at)


def _candidates(
    tx: Transaction, claim: Claim, queues: Sequence[str], released: frozenset[str]
) -> tuple[list[Row], bool]:
    """What to claim, and whether more is left.  A suspect only if it stands first, and then alone."""
    chosen: list[Row] = []
    more = False
    for queue in queues:
        wanted = max(0, min(claim.at_most.get(queue, claim.limit), claim.limit - len(chosen)))
        if wanted == 0 and more:
            continue
        # One more than wanted tells whether to wake somebody else: a bell for nothing makes sleepers deaf for a moment.
        for row in tx.rows("candidates", (queue, tx.now, wanted + len(released) + 1)):
            if row[_ID] in released:
                continue
            if wanted == 0:
                more = True
                break
            if row[_CRASHES]:
                return chosen or [row], True
            chosen.append(row)
            wanted -= 1
    return chosen, more


def _leases(tx: Transaction, rows: Sequence[Row], owner: str, expires_at: int) -> list[Lease]:
    keyed = [
        holds.Keyed(row[_ID], row[_TOKEN], row[_ONCE], row[_TTL], row[_SINGLE])
        for row in rows
        if row[_ONCE] is not None or row[_SINGLE] is not None
    ]
    held = holds.take(tx, keyed) if keyed else {}
    leases = []
    for row in rows:
        _, job_id, queue, sealed, token, started_at, attempts, crashes, interruptions, waits, parked, spent, _, _, _ = (
            row
        )
        hold, holder = held.get(job_id, _FREE)
        leases.append(
            Lease(
                envelope=Sealed(job_id, queue, sealed),
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
                parked_since=parked,
                spent=spent,
            )
        )
    return leases
