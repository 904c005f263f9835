"""Claiming: cancel what expired, promote what is due, lease jobs in their order, take their keys."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onward.backend import Claim
from onward.backends.sqlite import holds
from onward.backends.sqlite.enqueueing import cancel_waiting
from onward.backends.sqlite.transaction import Transaction, as_json
from onward.job.envelope import Sealed
from onward.job.lease import Hold, Lease

__all__ = ["adopted", "anything_to_do", "claim", "open_queues", "promote", "take"]

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
    queue: str = ""
    started_at: int = 0
    sealed: bytes = b""


_decode = msgspec.json.Decoder(list[_Job]).decode


def open_queues(tx: Transaction, queues: Sequence[str], *, any_paused: bool = True) -> list[str]:
    """Return these queues in their order, without the paused ones."""
    paused = {name for (name,) in tx.rows("paused_queues")} if any_paused else ()
    return [queue for queue in dict.fromkeys(queues) if queue not in paused]


def anything_to_do(tx: Transaction, claim: Claim, queues: Sequence[str]) -> bool:
    return any(
        tx.value("anything_to_do", (queue, tx.now, int(claim.at_most.get(queue, claim.limit) > 0))) for queue in queues
    )


def promote(tx: Transaction, queues: Sequence[str], limit: int) -> int:
    """Cancel what has expired and make available what is due, up to the limit in each queue."""
    promoted = 0
    for queue in queues:
        if not tx.value("past_its_time", (queue, tx.now)):
            continue
        expired = [rowid for (rowid,) in tx.rows("expired", (queue, tx.now, limit))]
        if expired:
            cancel_waiting(tx, expired, "expired")
        promoted += tx.run("promote", (queue, tx.now, limit))
    return promoted


def claim(
    tx: Transaction, claim: Claim, queues: Sequence[str], *, owner: str, expires_at: int, released: frozenset[str]
) -> list[Lease]:
    """Claim the next jobs of these queues for this owner, without those that this turn released."""
    jobs, more = _candidates(tx, claim, queues, released)
    if more:
        tx.wakes = True
    if jobs:
        tx.run("claim", (owner, tx.now, as_json([job.rowid for job in jobs])))
    return _leases(tx, jobs, owner, expires_at)


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
    tx: Transaction, claim: Claim, queues: Sequence[str], released: frozenset[str]
) -> tuple[list[_Job], bool]:
    """Return the jobs to claim, and whether more are left; a suspect only if it comes first, and then alone."""
    chosen: list[_Job] = []
    more = False
    for queue in queues:
        wanted = max(0, min(claim.at_most.get(queue, claim.limit), claim.limit - len(chosen)))
        if wanted == 0 and more:
            continue
        # One more than needed says whether to wake another worker: one that is woken for nothing delays the next wake.
        jobs = _first(tx, queue, wanted + len(released) + 1)
        if released:
            jobs = [job for job in jobs if job.id not in released]
        suspect = next((place for place, job in enumerate(jobs[:wanted]) if job.crashes), None)
        if suspect is not None:
            return (chosen + jobs[:suspect]) or jobs[:1], True
        chosen += jobs[:wanted]
        more = more or len(jobs) > wanted
    return chosen, more


def _first(tx: Transaction, queue: str, limit: int) -> list[_Job]:
    """Return the first available jobs of a queue."""
    found = tx.row("candidates", (queue, tx.now, limit, _LONG))
    assert found is not None
    columns, sealed = found
    jobs = _decode(columns)
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
        leases.append(
            Lease(
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
        )
    return leases
