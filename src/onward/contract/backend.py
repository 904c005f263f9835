"""The backend contract: what every store does for Onward, word for word.

Blocking, batch first, one colour.  Times are integer microseconds UTC by the *store's* clock; ``<=`` is due.

    connect        Reach the store and check it, and bring its tables up to date.  Making a backend reaches nothing; every
                   verb connects by itself where it must, again if that failed before.  Its capabilities are known
                   without a connection; only ``durable`` may turn out otherwise, once the server was asked.
    enqueue        Store envelopes, durably, before returning.  A client-made id makes repeating harmless: an id that is
                   live already answers created=False, existing_id=id.  ``retried`` also looks among the finished: insert
                   first, look second, take back what was there.  A unique key has at most one live holder.  All or
                   nothing: one refused envelope stores none of the batch.
    open_session   A session is one row: owner, expiry, lease_for.  Opening an owner again renews it.  With ``adopts``,
                   in one transaction: the old session's row is deleted, its leases change owner with their tokens kept,
                   and all that the new owner now holds is returned.  Where neither the old nor the new session is there,
                   none is opened and the answer is None: a copy of an adoption that comes late opens no session.
    turn           One exchange, atomic: lock the own session row (no row: apply and claim nothing, only classify the
                   settlements); settle; expire and promote what is due in the claimed queues, up to the limit in each;
                   claim.  It never claims what it just released.  A fixed number of statements, whatever the batch.
                   Where a settlement may end a hold, settling and claiming may be two transactions, one after the other.
    extend         Renew the one session row.  An expired session that was not reaped is alive.
    reap           Delete a dead session and give its leases back in the same transaction: all expired sessions and every
                   orphan (executing, owner without a session), or one owner's.  ``started`` names the leases that had begun:
                   they get a crash; the others come back unharmed, as interruptions.  None: it is not known, so all had.
                   With ``queue`` only the leases of that queue come back, and only the sessions end that held one: what
                   else these held is orphaned, for the next reap.
    wait           Sleep until there may be work in these queues, at most ``timeout`` seconds.  May return early.

Settling.  Every write after a claim is conditional on (id, token, owner, executing) in the same statement.

    move       goes to      attempts        also
    ack        completed    +1              result; confirms the idempotency key; keep=False leaves a tombstone
    skip       completed    -               reason
    nack       retryable    +1 if ran       due after delay; waits and parking forgotten; spent set, if given
    abandon    discarded    +1 if ran       reason; stores its dead_letter envelope in the same transaction
    snooze     scheduled    -               due after delay; waits set; parking forgotten; awaits and notes written
    park       scheduled    -               due after delay; waits set; parked_since set if it was not
    cancelled  cancelled    +1 if ran       reason
    release    available    -               interruptions + 1; due time, waits and parking kept: it keeps its place
    crashed    retryable    -               the fate of a started lease that is reaped (below), its cause being the reason:
                                            for a job that ran in a process of its own, which died

    A job asked to cancel goes to `cancelled` by any move but ack, with the reason given when it was asked (its own, if the
    move is `cancelled`); counters move all the same, and no dead letter is stored.
    A job once marked as spent stays so, however it is put back or given back, until it is replayed: it never runs again.
    A settlement with a failure, and every nack, writes the record of that run under (id, token): attempt number (attempts
    before the run, plus one), move, state gone to, failure, duration.

Classifying.  A settlement whose fence matches nothing is answered by evidence, in this order:
    1. the record under (id, token): same move -> already_applied with the state it went to; another move -> lease_lost
    2. the finished job or tombstone with this token, in the move's state, or cancelled where the move may be turned
       -> already_applied
    3. no trace of the id at all -> gone;  anything else -> lease_lost

Claiming.  Queues in the order given, each by (priority descending, due time, id), up to the limit in all and to `at_most`
in a queue that it names.  Paused queues give nothing; what has expired is cancelled (reason "expired"), not handed out.
Every claim takes the next delivery number as its token and stamps owner and started_at.  A job with crashes > 0 is a
suspect: a claim stops before it, or, when it is the very first, returns it alone.

Holds.  `idempotency_key` and `single_instance` are pointers (kind, key) -> (job id, token), valid exactly while that job is
executing with that token, or, once an ack confirmed an idempotency key, until its ttl is over.  They are taken inside the
claim, lease by lease in claim order, all of a job's or none (a job that must wait for one key does not keep others from the
other), and the lease says: done beats busy beats held.  The write that ends a hold makes a waiter due: another job
`scheduled` with waits > 0, not parked, that carries the key (the first in claim order; all of them when the key was
confirmed) becomes available, due now.  The holds of a turn end when all its settlements are applied: a job snoozed by
the same turn is woken too.
People may have a confirmed key forgotten (`forget_key`): its pointer is removed, and the next claim finds the key free.  One
that a lease holds is never taken away from it: its job would run beside the next.

Reaping.  A started lease: crashes + 1, a record with move "crashed" and the cause; then cancelled if that was asked,
discarded (reason "crashed …") at max_crashes, else retryable: due at once after the first crash, then after
10 s x 2^(k-2), at most 600 s.  An unstarted one: interruptions + 1, then available with its due time kept, or cancelled if
that was asked.

Enqueueing.  Due (delay and not_before over): available, else scheduled; available_at is now + delay, or not_before if that
is later.  A taken unique key: `ignore_new` stores nothing and names the holder; `cancel_existing` cancels a waiting holder
(reason "replaced by <id>") or asks a running one to cancel and takes its key away, in the same transaction.

Small print.  A plain enqueue does not look among the finished: an id is the client's to keep unique, `retried` is for
repeats.  A turn does not renew its session.  A claim with limit 0 promotes and claims nothing.  The same lease twice in one
turn: the second answer comes from the evidence of the first.  Asked to cancel twice: the first reason stands.

Errors.  BackendUnavailable: the outcome is unknown or the store is away; try again.  BackendRefused: this very data is
refused; nothing of the call was applied.  A lost lease is an answer, never an error.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from onward.contract.capabilities import Capabilities
from onward.contract.values import Claim, Enqueued, Held, Reaped, Renewal, Session, Turn, TurnResult
from onward.job.envelope import Envelope
from onward.job.lease import Lease
from onward.job.settlement import Settled, Settlement

__all__ = ["Backend"]


class Backend(Protocol):
    """A store of jobs.  The abstract methods are the contract; the others are one-line conveniences over it."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    def connect(self) -> None:
        """Reach the store; raise what is wrong with it."""
        return  # a store in this process is there

    @abstractmethod
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]: ...

    @abstractmethod
    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None: ...

    @abstractmethod
    def turn(self, turn: Turn) -> TurnResult: ...

    @abstractmethod
    def extend(self, owner: str) -> Renewal: ...

    @abstractmethod
    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]: ...

    @abstractmethod
    def wait(self, queues: Sequence[str], timeout: float) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def claim(self, claim: Claim) -> list[Lease]:
        """Open or renew the claim's own session, and claim: for one-by-one processing and for tests."""
        self.open_session(Session(owner=claim.owner, lease_for=claim.lease_for))
        return self.turn(Turn(owner=claim.owner, claim=claim)).leases

    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Settle leases of one owner."""
        if not settlements:
            return []
        return self.turn(Turn(owner=settlements[0].lease.owner, settlements=settlements)).settled

    def ack(self, lease: Lease, result: bytes | None = None) -> Settled:
        return self.settle([Settlement.ack(lease, result)])[0]

    def skip(self, lease: Lease, reason: str) -> Settled:
        return self.settle([Settlement.skip(lease, reason)])[0]

    def nack(self, lease: Lease, delay: float = 0) -> Settled:
        return self.settle([Settlement.nack(lease, delay)])[0]

    def abandon(self, lease: Lease, reason: str) -> Settled:
        return self.settle([Settlement.abandon(lease, reason)])[0]

    def snooze(self, lease: Lease, delay: float) -> Settled:
        return self.settle([Settlement.snooze(lease, delay)])[0]

    def park(self, lease: Lease, delay: float, reason: str) -> Settled:
        return self.settle([Settlement.park(lease, delay, reason)])[0]

    def cancelled(self, lease: Lease, reason: str) -> Settled:
        return self.settle([Settlement.cancelled(lease, reason)])[0]

    def release(self, lease: Lease) -> Settled:
        return self.settle([Settlement.release(lease)])[0]
