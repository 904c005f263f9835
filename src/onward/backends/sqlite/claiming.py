"""Claiming: cancel what expired, promote what is due, lease jobs in their order, take their keys.

Where no queue of a claim has lanes or a limit, one statement for each queue finds its jobs, and tells that it is so.  Else a
walk chooses among them (`onward.backends.sqlite.lanes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from onward.backend import Claim
from onward.backends.sqlite import holds
from onward.backends.sqlite.enqueueing import cancel_waiting
from onward.backends.sqlite.lanes import LanesSeen, LineJob, opens_at, promote_booked, walk_lanes, would_claim
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.base.clock import SECOND
from onward.flow.walk import PLAIN, Pick
from onward.job.envelope import Sealed
from onward.job.lease import Hold, Lease

__all__ = ["Claimed", "adopted", "claim", "nothing_to_do", "open_queues", "promote", "take", "work_from"]

_FREE: tuple[Hold, str | None] = (Hold.FREE, None)
_LONG = 64 * 1024  # bytes: sealed jobs longer than this are read one by one, so that a claim's bytes fit into one value


class _Job(msgspec.Struct, array_like=True, gc=False):
    """A job to be leased: a row of `candidates` or `leases_of`."""

    rowid: int
    id: str
    token: int
    length: int  # of the sealed bytes
    attempts: int = 0
    crashes: int = 0
    interruptions: int = 0
    waits: int = 0
    parked_since: int | None = None
    spent: str | None = None
    idempotency_key: str | None = None
    idempotency_ttl: int = 0
    single_instance: str | None = None
    member: int = 0
    queue: str = ""
    started_at: int = 0
    sealed: bytes = b""
    lane: str | None = None
    probe: float = 0


class Claimed(NamedTuple):
    """What a claim has found."""

    leases: list[Lease]
    more: bool = False
    awaits_slots: bool = False


_decode = msgspec.json.Decoder(list[_Job]).decode
_rewritten = msgspec.structs.replace


def open_queues(tx: Transaction, queues: Sequence[str], *, any_paused: bool = True) -> list[str]:
    """Return these queues in their order, without the paused ones."""
    paused = {name for (name,) in tx.rows("paused_queues")} if any_paused else ()
    return [queue for queue in dict.fromkeys(queues) if queue not in paused]


def nothing_to_do(tx: Transaction, claim: Claim, queues: Sequence[str], seen: LanesSeen) -> bool | None:
    """Return None if a claim has something to write; else whether what it passes over awaits slots."""
    lanes_decide = False
    for queue in queues:
        found = tx.value("anything_to_do", (queue, tx.now, int(claim.at_most.get(queue, claim.limit) > 0)))
        if found == 1:
            return None
        lanes_decide = lanes_decide or found == 2
    if not lanes_decide:
        return False
    writes, awaits_slots = would_claim(tx, seen, claim, queues)
    return None if writes else awaits_slots


def work_from(tx: Transaction, queue: str) -> int | None:
    """Return when this queue has work: 0 is now, None is never, as far as is known."""
    found = tx.row("next_due", (queue,))
    assert found is not None
    plain, due, booked, lanes_decide = found
    known = (opens_at(tx, queue) if lanes_decide else plain, due, booked)
    return min((at for at in known if at is not None), default=None)


def promote(tx: Transaction, queues: Sequence[str], limit: int) -> int:
    """Cancel what has expired and make available what is due, up to the limit in each queue."""
    promoted = 0
    for queue in queues:
        late = tx.value("past_its_time", (queue, tx.now))
        if not late:
            continue
        expired = [rowid for (rowid,) in tx.rows("expired", (queue, tx.now, limit))]
        if expired:
            cancel_waiting(tx, expired, "expired")
        promoted += tx.run("promote", (queue, tx.now, limit))
        if late == 2:
            promoted += promote_booked(tx, queue)
    return promoted


def claim(
    tx: Transaction,
    claim: Claim,
    queues: Sequence[str],
    *,
    owner: str,
    expires_at: int,
    released: frozenset[str],
    seen: LanesSeen,
) -> Claimed:
    """Claim the next jobs of these queues for this owner, without those that this turn released."""
    plain = _candidates(tx, claim, queues, released, seen) if seen.queues.isdisjoint(queues) else None
    if plain is None:
        return _claim_by_lanes(tx, claim, queues, owner=owner, expires_at=expires_at, released=released, seen=seen)
    jobs, more = plain
    if more:
        tx.wakes = True
    if jobs:
        tx.run("claim", (owner, tx.now, as_json([job.rowid for job in jobs])))
    return Claimed(_leases(tx, jobs, owner, expires_at))


def _claim_by_lanes(
    tx: Transaction,
    claim: Claim,
    queues: Sequence[str],
    *,
    owner: str,
    expires_at: int,
    released: frozenset[str],
    seen: LanesSeen,
) -> Claimed:
    found, limited = walk_lanes(tx, seen, claim, queues, released)
    picks = found.picks
    tx.wakes = tx.wakes or found.more or found.awaits_slots or len(picks) >= claim.limit
    if not picks:
        return Claimed([], found.more, found.awaits_slots)
    jobs = _picked(tx, picks)
    # The runs of plain jobs are counted by the lane that this gives them.
    counted = [pick.job.rowid for pick in picks if pick.job.queue in limited] if limited else []
    others = [pick.job.rowid for pick in picks if pick.job.queue not in limited]
    for name, rowids in (("claim", others), ("claim_counted", counted)):
        if rowids:
            tx.run(name, (owner, tx.now, as_json(rowids)))
    return Claimed(_leases(tx, jobs, owner, expires_at), found.more, found.awaits_slots)


def _picked(tx: Transaction, picks: Sequence[Pick[LineJob]]) -> list[_Job]:
    """Read the jobs that a walk has chosen."""
    jobs = _read(tx, tx.row("picked", (as_json([pick.job.rowid for pick in picks]), _LONG)), "")
    for job, pick in zip(jobs, picks, strict=True):
        job.queue, job.probe = pick.job.queue, pick.probe / SECOND
        job.lane = None if pick.lane == PLAIN else pick.lane
    return jobs


def take(tx: Transaction, ids: Sequence[str], *, owner: str, expires_at: int) -> list[Lease]:
    """Claim those of these jobs that may run, for this owner; a suspect only if it comes first, and then alone."""
    place = {job_id: at for at, job_id in enumerate(dict.fromkeys(ids))}
    jobs = [_Job(*row) for row in tx.rows("candidates_among", (as_json(list(place)), tx.now))]
    jobs.sort(key=lambda job: place[job.id])
    suspect = next((place for place, job in enumerate(jobs) if job.crashes), None)
    if suspect is not None:
        jobs = jobs[:suspect] or jobs[:1]
    if jobs:
        tx.run("claim", (owner, tx.now, as_json([job.rowid for job in jobs])))
    return _leases(tx, jobs, owner, expires_at)


def adopted(tx: Transaction, owner: str, expires_at: int) -> list[Lease]:
    """Return all leases of this owner."""
    return _leases(tx, [_Job(*row) for row in tx.rows("leases_of", (owner,))], owner, expires_at)


def _candidates(
    tx: Transaction, claim: Claim, queues: Sequence[str], released: frozenset[str], seen: LanesSeen
) -> tuple[list[_Job], bool] | None:
    """Return the jobs to claim, and whether more are left; a suspect only if it comes first, and then alone.

    None if lanes or a limit decide in one of these queues.
    """
    chosen: list[_Job] = []
    more = False
    for queue in queues:
        wanted = max(0, min(claim.at_most.get(queue, claim.limit), claim.limit - len(chosen)))
        if wanted == 0 and more:
            continue
        # One more than needed says whether to wake another worker: one that is woken for nothing delays the next wake.
        jobs, lanes_decide = _first(tx, queue, wanted + len(released) + 1)
        if lanes_decide:
            seen.queues.add(queue)
            return None
        if released:
            jobs = [job for job in jobs if job.id not in released]
        suspect = next((place for place, job in enumerate(jobs[:wanted]) if job.crashes), None)
        if suspect is not None:
            return (chosen + jobs[:suspect]) or jobs[:1], True
        chosen += jobs[:wanted]
        more = more or len(jobs) > wanted
    return chosen, more


def _first(tx: Transaction, queue: str, limit: int) -> tuple[list[_Job], bool]:
    """Return the first available plain jobs of a queue, and whether lanes or a limit decide there."""
    found = tx.row("candidates", (queue, tx.now, limit, _LONG))
    assert found is not None
    return _read(tx, found, queue), found[2]


def _read(tx: Transaction, found: Row | None, queue: str) -> list[_Job]:
    """Return the jobs of a row of `candidates` or `picked`."""
    assert found is not None
    jobs, sealed = _decode(found[0]), found[1]
    start = 0
    for job in jobs:
        job.queue, job.started_at = queue, tx.now
        if job.length > _LONG:
            job.sealed = tx.value("sealed", (job.rowid,))
        else:
            end = start + job.length
            job.sealed = sealed[start:end]
            start = end
    return jobs


def _leases(tx: Transaction, jobs: Sequence[_Job], owner: str, expires_at: int) -> list[Lease]:
    keyed = [
        holds.Keyed(job.id, job.token, job.idempotency_key, job.idempotency_ttl, job.single_instance)
        for job in jobs
        if job.idempotency_key is not None or job.single_instance is not None
    ]
    held = holds.take(tx, keyed) if keyed else {}
    leases = []
    for job in jobs:
        hold, holder = held.get(job.id, _FREE)
        lease = Lease(
            envelope=Sealed(job.id, job.queue, job.sealed),
            token=job.token,
            owner=owner,
            expires_at=expires_at,
            claimed_at=job.started_at,
            attempts=job.attempts,
            crashes=job.crashes,
            interruptions=job.interruptions,
            hold=hold,
            holder=holder,
            waits=job.waits,
            parked_since=job.parked_since,
            spent=job.spent,
        )
        # Most have neither, and a value that is given costs more than one that is not.
        if job.lane or job.member:
            lease = _rewritten(lease, lane=job.lane or None, probe=job.probe, member=bool(job.member))
        leases.append(lease)
    return leases
