"""Claiming: cancel what expired, promote what is due, lease jobs in their order, take their keys.

Where no queue of a claim has lanes or a limit, one statement for each queue finds its jobs, and tells that it is so.  Else a
walk chooses among them (`onward.backends.sqlite.lanes`).
"""

from __future__ import annotations

from collections.abc import Sequence

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

__all__ = ["adopted", "claim", "nothing_to_do", "open_queues", "take", "work_from"]

_FREE: tuple[Hold, str | None] = (Hold.FREE, None)
_LONG = 64 * 1024  # bytes: sealed jobs longer than this are read one by one, so that a claim's bytes fit into one value


class _Job(msgspec.Struct, array_like=True, gc=False):
    """A job to be leased: a row of `candidates` or `leases_of`."""

    rowid: int
    id: str
    token: int
    length: int  # of the sealed bytes
    member: int = 0
    attempts: int | None = None  # None: it is claimed for the first time, and has no keys
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
    lane: str | None = None
    probe: float = 0


_decode = msgspec.json.Decoder(list[_Job]).decode
_places = msgspec.json.Decoder(list[int]).decode


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


def claim(
    tx: Transaction,
    claim: Claim,
    queues: Sequence[str],
    released: frozenset[str],
    seen: LanesSeen,
    *,
    owner: str,
    expires_at: int,
) -> tuple[list[Lease], bool, bool]:
    """Promote what is due and claim the next jobs, without those that this turn released.

    Return the leases, whether another claim would find more at once, and whether jobs wait for slots of this process.
    """
    promoted: set[str] = set()
    jobs = _candidates(tx, claim, queues, released, seen, promoted=promoted)
    if jobs is not None:
        if jobs:
            tx.run("claim", (owner, tx.now, as_json([job.rowid for job in jobs])))
        return _leases(tx, jobs, owner, expires_at), False, False
    for queue in queues:
        if queue not in promoted:
            _promote_late(tx, queue, claim.limit)
    found, limited = walk_lanes(tx, seen, claim, queues, released)
    jobs = _picked(tx, found.picks) if found.picks else []
    for name, among in (("claim_counted", True), ("claim", False)):
        # The runs of plain jobs are counted by the lane that the first of these gives them.
        if rowids := [job.rowid for job in jobs if (job.queue in limited) is among]:
            tx.run(name, (owner, tx.now, as_json(rowids)))
    tx.wakes = tx.wakes or found.more or found.awaits_slots or len(jobs) >= claim.limit
    return _leases(tx, jobs, owner, expires_at), found.more, found.awaits_slots


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
    tx: Transaction,
    claim: Claim,
    queues: Sequence[str],
    released: frozenset[str],
    seen: LanesSeen,
    *,
    promoted: set[str],
) -> list[_Job] | None:
    """Return the jobs to claim; a suspect only if it comes first, and then alone.

    None if lanes or a limit decide in one of these queues; then ``promoted`` names those in which this has promoted jobs.
    """
    if not seen.queues.isdisjoint(queues):
        return None
    if len(queues) > 1 and not claim.at_most:
        together = _all_at_once(tx, claim, queues, released, promoted)
        if together is not None:
            return together
    return _queue_by_queue(tx, claim, queues, released, seen, promoted=promoted)


def _queue_by_queue(
    tx: Transaction,
    claim: Claim,
    queues: Sequence[str],
    released: frozenset[str],
    seen: LanesSeen,
    *,
    promoted: set[str],
) -> list[_Job] | None:
    """Return what `_candidates` does."""
    chosen: list[_Job] = []
    for number, queue in enumerate(queues, start=1):
        wanted = max(0, min(claim.at_most.get(queue, claim.limit), claim.limit - len(chosen)))
        if wanted == 0 and tx.wakes:
            _promote_late(tx, queue, claim.limit)
            promoted.add(queue)
            continue
        # One more than needed says whether to wake another worker: one that is woken for nothing delays the next wake.
        jobs = _first(tx, queue, wanted + len(released) + 1, claim.limit)
        promoted.add(queue)
        if jobs is None:
            seen.queues.add(queue)
            return None
        if released:
            jobs = [job for job in jobs if job.id not in released]
        suspect = next((place for place, job in enumerate(jobs[:wanted]) if job.crashes), None)
        if suspect is not None:
            tx.wakes = True
            for behind in queues[number:]:
                _promote_late(tx, behind, claim.limit)
            return (chosen + jobs[:suspect]) or jobs[:1]
        chosen += jobs[:wanted]
        if len(jobs) > wanted:
            tx.wakes = True
    return chosen


def _all_at_once(
    tx: Transaction, claim: Claim, queues: Sequence[str], released: frozenset[str], promoted: set[str]
) -> list[_Job] | None:
    """Return the jobs to claim from several queues, by few statements; None if lanes or a limit decide in any of them."""
    names = as_json(queues)
    out_of_line = tx.rows("queues_out_of_line", (names, tx.now))
    if any(lanes_decide for _, _, lanes_decide in out_of_line):
        return None
    for queue, late, _ in out_of_line:
        _promote(tx, queue, late, claim.limit)
    promoted.update(queues)
    if out_of_line and any(lanes_decide for _, _, lanes_decide in tx.rows("queues_out_of_line", (names, tx.now))):
        return None
    # As many more as were released, and one that says whether to wake another worker.
    found = tx.row("candidates_of_queues", (names, tx.now, claim.limit + len(released) + 1, _LONG))
    jobs = _read(tx, found, "")
    assert found is not None
    for job, place in zip(jobs, _places(found[2]), strict=True):
        job.queue = queues[place]
    if released:
        jobs = [job for job in jobs if job.id not in released]
    suspect = next((place for place, job in enumerate(jobs[: claim.limit]) if job.crashes), None)
    tx.wakes = tx.wakes or suspect is not None or len(jobs) > claim.limit
    return jobs[: claim.limit] if suspect is None else jobs[:suspect] or jobs[:1]


def _first(tx: Transaction, queue: str, count: int, most_promoted: int) -> list[_Job] | None:
    """Return the first plain jobs of a queue; None if lanes or a limit decide there."""
    jobs = _read(tx, tx.row("candidates", (queue, tx.now, count, _LONG, 0)), queue)
    if jobs:
        return jobs
    late, lanes_decide = _late(tx, queue)
    if late:
        _promote(tx, queue, late, most_promoted)
        jobs = _read(tx, tx.row("candidates", (queue, tx.now, count, _LONG, 1)), queue)
        lanes_decide = not jobs and _late(tx, queue)[1]
    return None if lanes_decide else jobs


def _late(tx: Transaction, queue: str) -> Row:
    """Return a row of `past_its_time`."""
    found = tx.row("past_its_time", (queue, tx.now))
    assert found is not None
    return found


def _promote_late(tx: Transaction, queue: str, limit: int) -> None:
    late, _ = _late(tx, queue)
    if late:
        _promote(tx, queue, late, limit)


def _promote(tx: Transaction, queue: str, late: int, limit: int) -> None:
    """Cancel what has expired in a queue and make available what is due, up to the limit."""
    expired = [rowid for (rowid,) in tx.rows("expired", (queue, tx.now, limit))]
    if expired:
        cancel_waiting(tx, expired, "expired")
    tx.promoted += tx.run("promote", (queue, tx.now, limit))
    if late == 2:
        tx.promoted += promote_booked(tx, queue)


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
        if job.attempts is not None and (job.idempotency_key is not None or job.single_instance is not None)
    ]
    held = holds.take(tx, keyed) if keyed else {}
    leases = []
    for job in jobs:
        envelope = Sealed(job.id, job.queue, job.sealed)
        if job.attempts is None and job.lane is None and not job.member:  # most, and a value that is given costs more
            lease = Lease(
                envelope=envelope, token=job.token, owner=owner, expires_at=expires_at, claimed_at=job.started_at
            )
            leases.append(lease)
            continue
        if job.attempts is None and not job.probe:
            lease = Lease(
                envelope=envelope,
                token=job.token,
                owner=owner,
                expires_at=expires_at,
                claimed_at=job.started_at,
                lane=job.lane,
                member=bool(job.member),
            )
            leases.append(lease)
            continue
        hold, holder = held.get(job.id, _FREE)
        leases.append(
            Lease(
                envelope=envelope,
                token=job.token,
                owner=owner,
                expires_at=expires_at,
                claimed_at=job.started_at,
                attempts=job.attempts or 0,
                crashes=job.crashes,
                interruptions=job.interruptions,
                hold=hold,
                holder=holder,
                waits=job.waits,
                parked_since=job.parked_since,
                spent=job.spent,
                lane=job.lane or None,
                probe=job.probe,
                member=bool(job.member),
            )
        )
    return leases
