"""The backend contract: what every store does for Onward.

Each verb has its text below its name; what holds for all of them is here.  `python -m tools.backend_contract write` makes
`docs/backend-contract.md` of these texts and of those in the modules beside this one.

## Conventions

- Every verb blocks until it is done.  Async callers use a thread.
- Verbs take batches.  A batch of one is not a special case.
- An instant is a whole number of microseconds since 1970 in UTC.  A job is due when its time is `<=` now.
- The store's clock decides.  A delay travels as a length, and the store adds it to its own now.
- A backend stores and returns the sealed bytes as they came.  It never decodes them.
- The client makes a job's id, so sending an enqueue twice is harmless.
- A verb is one transaction.  What it did is durable when it returns, on a backend that declares `durable`.
- A lost lease is an answer, never an error.

## Settling

| move | goes to | `attempts` | also |
|---|---|---|---|
| `ack` | `completed` | +1 | keeps the result; confirms the idempotency key; `keep=False` leaves a tombstone |
| `skip` | `completed` | | keeps the reason |
| `nack` | `retryable` | +1 if it ran | due after `delay`; clears `waits` and `parked_since`; sets `spent`, if given |
| `abandon` | `discarded` | +1 if it ran | keeps the reason; stores its `dead_letter` envelope in the same transaction |
| `snooze` | `scheduled` | | due after `delay`; sets `waits`; clears `parked_since`; writes `awaits` and `notes` |
| `park` | `scheduled` | | due after `delay`; sets `waits`, and `parked_since` if it was not set |
| `cancelled` | `cancelled` | +1 if it ran | keeps the reason |
| `release` | `available` | | `interruptions + 1`; keeps due time, `waits` and `parked_since`, so the job keeps its place |
| `crashed` | `retryable` | | what `reap` does to a lease that had started: for a job whose own process died |

A job that was asked to cancel goes to `cancelled` by every move but `ack`.  The reason is the one given when it was asked;
for the move `cancelled`, the move's own.  Counters move as they would have.  No dead letter is stored.

`spent` says why a job is dead though its dead letter could not be stored yet.  It stays, however the job is put back or
given back, until the job is replayed: a spent job never runs again.

A settlement with a failure, and every `nack`, writes the record of its run under (id, token): the attempt's number
(`attempts` before the run, plus one), the move, the state it went to, the failure, the duration.

The same lease twice in one turn: the second answer comes from the evidence of the first.

## Claiming

- A claim takes queues in the order given; within a queue by priority (higher first), then due time, then id.  It takes no
  more than its limit in all, and no more than `at_most` says from a queue that it names.
- A paused queue gives nothing.  An expired job is cancelled with the reason `expired`, not handed out.
- Each claim adds one to `delivery`, and sets owner and `started_at`.  The new number is the lease's token: greater than any
  that the job had before, however it was put back.
- A job with a crash behind it is a suspect.  A claim stops before it; or, if it comes first, returns it alone.
- A claim with limit 0 promotes and claims nothing.
- A worker asks for no more than `claims_at_once` of the backend, 500 unless it says otherwise: in a longer turn a job costs
  less, and other callers wait longer for the store.

## Fencing

Every write after a claim is conditional on four things, compared in the statement that writes: the job's **id**, the lease's
**token**, the session's **owner**, and that the job is still **executing**.  If they do not match, nothing is written.  This
holds for settling, for reaping and for noting progress.

The token alone is not enough: a store restored from an older copy hands out the same number again.  Owners are random and
never come back.

| answer | meaning |
|---|---|
| `applied` | the move was made now; `state` says where to |
| `already_applied` | this very settlement was applied before; its answer got lost |
| `lease_lost` | another session, or a person, decided about this job |
| `gone` | no trace of the job is left |

## Evidence

A settlement whose fence matches nothing is answered by evidence, in this order.

1. There is a record of a run under (id, token).  Its move is the same: `already_applied`, with the state it went to.
   Another move: `lease_lost`.
2. There is a finished job, or a tombstone, with this token.  It is in the state that the move leads to, or it is `cancelled`
   and the move is any but `ack`: `already_applied`.  Otherwise: `lease_lost`.
3. There is no trace of the id, live or finished: `gone`.  Otherwise: `lease_lost`.

`gone` means applied, if the settlement is a repetition; it means lost, if it is the first try.  A store keeps a tombstone
for ten minutes.  It keeps no evidence of `snooze`, `park` and `release`: repeated, they may be answered `lease_lost`.

A store looks at evidence also when the session is dead.  An ack that was applied just before its session was reaped is still
known as applied.

## Holds

`idempotency_key` and `single_instance` are pointers, (kind, key) → (job id, token).  A pointer is valid while that job is
executing with that token.  There is nothing to release, so nothing can be forgotten.

- A claim takes them, lease by lease in claim order.  A job takes all of its keys or none: while it waits for one, others
  can have the other.
- The lease says what came of it.  `free`: the job carries no key.  `held`: this lease has them.  `busy`: another lease has
  one.  `done`: a job with this idempotency key has succeeded.  Done beats busy, busy beats held.
- An `ack` confirms an idempotency key.  It then is `done` until its time to live is over.
- The write that ends a hold wakes a waiter: another job that is `scheduled` with `waits > 0`, is not parked, and carries the
  key.  The first in claim order becomes `available`, due now.  If the key was confirmed, all of them do, since all will be
  skipped.  The holds of a turn end when all its settlements are applied: a job snoozed by the same turn is woken too.
- People may have a confirmed key forgotten (`forget_key`): the next claim finds it free.  A key that a lease holds is never
  taken away from it, or its job would run beside the next one.

## Errors

| error | meaning |
|---|---|
| `BackendRefused` | this very data is refused; nothing of the call was applied |
| `BackendUnavailable` | the outcome is unknown, or the store does not answer: try again; the answers say what happened |
| `BackendUnreachable` | the same, and nothing was sent |
| `StoreFull` | the store has no space; nothing was stored |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from onward.contract.audit import Audit
from onward.contract.capabilities import Capabilities
from onward.contract.samples import Sample
from onward.contract.values import Claim, Enqueued, Held, Reaped, Renewal, Session, Turn, TurnResult
from onward.job.envelope import Envelope
from onward.job.lease import Lease
from onward.job.settlement import Settled, Settlement

__all__ = ["Backend"]


class Backend(Protocol):
    """A store of jobs.  The abstract methods are the contract; the others are one-line conveniences over it."""

    claims_at_once: int = 500
    """How many jobs a worker claims in one turn at the most."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do.  Known without a connection; only ``durable`` may change, once the server was asked."""

    def connect(self) -> None:
        """Reach the store, check it, and bring its tables up to date; raise if it cannot keep the contract.

        Making a backend reaches no server.  Every verb connects by itself where it must, again if that failed before.
        """
        return  # a store in this process needs no connection

    @abstractmethod
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        """Store the envelopes, all or none, and answer for each in their order.

        - A job is due at the store's now plus its `delay`, or at `not_before` if that is later.  Due already: `available`.
          Otherwise: `scheduled`.
        - The id is live already: `created=False, existing_id=id`.  Nothing is stored.
        - `retried=True` means: the answer to an earlier try was lost.  An id that is among the finished counts too:
          `created=False`, and the job does not run again.  Without it the finished are not searched: a new job has a new id.
        - The unique key has a live holder.  With `ignore_new`: `created=False`, `existing_id` names the holder, nothing is
          stored.  With `cancel_existing`: a waiting holder is cancelled with the reason `replaced by <id>`; a running one
          is asked to cancel and loses its key; the new job is stored.  All of it in the same transaction.
        - Two envelopes of one batch with the same unique key are treated in their order.
        - `BackendUnavailable`: send the batch again with `retried=True`.
        - `audit`: entries about the act, stored with it; a backend that does not declare `audit` is given none.
        """

    @abstractmethod
    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        """Make the session's row, with an expiry of now plus `lease_for`.  Opening an owner again renews it.

        With `adopts` the new session takes over an older one, in one transaction: the old row is deleted, its leases change
        owner and keep their tokens, and all leases that the new owner now holds are returned.  A process whose turn got no
        answer uses this.  A late copy of the lost turn either came first, and what it claimed is among the leases returned,
        or it finds its session gone and does nothing.

        An adoption may be sent again: the successor is renewed, and the answer is what it holds.  Where neither the old nor
        the new session is there, no session is opened and the answer is None.  So a copy of an adoption that is executed
        late, when both sessions have been reaped and their jobs run elsewhere, opens no session; and a worker that gets
        None goes on as with any dead session.

        Without `adopts` the answer is an empty list.
        """

    @abstractmethod
    def turn(self, turn: Turn) -> TurnResult:
        """Settle and claim in one exchange, atomic, in this order.

        1. Lock the owner's session row.  There is none: nothing is applied or claimed, each settlement is only answered by
           evidence, and `alive` is False.
        2. Apply the settlements.  One answer each, in their order.
        3. In every claimed queue that is not paused: cancel what has expired, then make available what is due, up to the
           claim's limit in each.
        4. Claim, up to the limit.  A turn does not claim what it released itself.

        Where a settlement may end a hold, a store may make two transactions of it, steps 1 and 2 and then all but step 2, so
        that it locks keys in one order (decision 0029).  If the second fails the settlements are applied: the outcome is
        unknown to the caller, as after any lost answer.

        `promoted` counts what step 3 made available.  `cancel_requested` names every lease of this owner, by id and token,
        that was asked to cancel.  `woken` names the waiters that step 2 made due, and the jobs whose node the look at their
        flow has opened, whatever their delay; only a store that can stand beside a broker must name them.  The number of
        statements does not depend on the size of the batch.  A turn does not renew its session.

        `BackendRefused`: some settlement's data is refused; the caller halves the batch until the bad one is alone.
        """

    @abstractmethod
    def extend(self, owner: str, *, sample: Sample | None = None) -> Renewal:
        """Set the session's expiry to now plus its length of lease.

        One row, however many leases it has.  A session that has expired but was not reaped is alive and is renewed.
        `alive=False`: there is no such session, and there will not be one again.

        With a `sample` a store that can be inspected makes a second transaction, whether the session is alive or not.  It
        may take two seconds and may fail: `refused` says why, and nothing else changes.  (`onward.contract.samples` has
        the rules.)

        - The sample replaces what its reporter has sent of that minute before.  One that is repeated changes nothing; one
          of a minute that is closed is ignored.
        - `sampler=True` goes to one caller of a minute: the first whose sample was stored.  A sample of the reporter `*` is
          that of the sampler itself; with it rows older than seven days are removed.
        - Each of `merged` replaces all rows of its stretch by one row of the reporter `*`; if it may not be merged, or not
          any more, it is ignored.
        - `now` is the store's clock.

        Without a `sample` none of this costs anything.  Stores that cannot be inspected ignore it.
        """

    @abstractmethod
    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        """Give back the jobs of dead sessions.  Deleting a session and giving back its jobs is one transaction.

        - Without `owner`: every session that has expired, and every orphan, which is an executing job whose owner has no
          session.
        - With `owner`: that session, expired or not.  The caller knows that its process has ended.
        - With `queue`: only jobs of that queue come back, and only the sessions end that held one.  What else these held is
          orphaned: a living session never loses a lease but by a settlement.
        - `started` names, by id and token, the leases whose code had begun.  Those get a crash.  The others come back
          without one.  `started=()` is how a worker that stops ends its session.  `None` means that it is unknown, so all
          count as started.

        | the lease | counter | goes to |
        |---|---|---|
        | had started | `crashes + 1`, a record | `cancelled` if asked; `discarded` at `max_crashes`; else `retryable` |
        | had not | `interruptions + 1` | `cancelled` if asked; else `available`, its due time kept |

        A retryable job is due at once after its first crash, then after 10 s x 2^(k-2), at most 600 s.  The record has the
        move `crashed` and the cause; the reason of such a discard begins with `crashed`.
        """

    @abstractmethod
    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Sleep until there may be work in these queues, at most `timeout` seconds.

        It may return early.  It claims nothing: a worker that returns from it claims like every other.
        """

    @abstractmethod
    def close(self) -> None:
        """Close connections.  This settles nothing and ends no session."""

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
