"""The backend contract: what every store does for Onward, word for word.

Blocking, batch first, one colour.  Times are integer microseconds UTC by the *store's* clock; ``<=`` is due.

    connect        Reach the store and check it, and bring its tables up to date.  To make a backend reaches nothing; every
                   verb connects by itself where it must, again if that failed before.  What a store can do is known
                   without a connection; only ``durable`` may turn out otherwise, once the server was asked.
    enqueue        Store envelopes, durably, before returning.  A client-made id makes repeating harmless: an id that is
                   live already answers created=False, existing_id=id.  ``retried`` also looks among the finished: insert
                   first, look second, take back what was there.  A unique key has at most one live holder.  All or
                   nothing: one refused envelope stores none of the batch.
    open_session   A session is one row: owner, expiry, lease_for.  Opening an owner again renews it.  With ``adopts``,
                   in one transaction: the old session's row is deleted, its leases change owner with their tokens kept,
                   and all that the new owner now holds is returned.  Where neither the old nor the new session is there,
                   none is opened and the answer is None: a copy of an adoption that comes late revives nobody.
    turn           One exchange, atomic: lock the own session row (no row: apply and claim nothing, only classify the
                   settlements); settle; expire and promote what is due in the claimed queues, up to the limit in each;
                   claim.  It never claims what it just released.  A fixed number of statements, whatever the batch.
                   Where a settlement may end a hold, settling and claiming may be two transactions, one after the other.
    extend         Renew the one session row.  An expired session that nobody reaped is alive.
    reap           Delete a dead session and give its leases back in the same transaction: all expired sessions and every
                   orphan (executing, owner without a session), or one owner's.  ``started`` names the leases that had begun:
                   they get a crash; the others come back unharmed, as interruptions.  None: nobody can know, so all had.
                   With ``queue`` only the leases of that queue come back, and only the sessions end that held one: what
                   else these held is orphaned, for the next reap.
    wait           Sleep until there may be work in these queues, at most ``timeout`` seconds.  May return early.

Settling.  Every write after a claim is conditional on (id, token, owner, executing) in the same statement.

    move       goes to      attempts        also
    ack        completed    +1              result; confirms the idempotency key; keep=False leaves a tombstone
    skip       completed    -               reason
    nack       retryable    +1 if ran       due after delay; waits and parking forgotten; spent set, if given
    abandon    discarded    +1 if ran       reason; stores its dead_letter envelope in the same transaction
    snooze     scheduled    -               due after delay; waits set; parking forgotten
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
confirmed) becomes available, due now.  The holds of a turn end when all its settlements are applied: who is snoozed by
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
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from onward.base.failure import Failure
from onward.job.envelope import Envelope, Sealed
from onward.job.lease import Answer, Hold, Lease, Settled, Settlement
from onward.job.states import State

__all__ = [
    "DURABLE",
    "LEASE",
    "LOSSY",
    "QUEUES_AT_A_GLANCE",
    "TOMBSTONE",
    "Advising",
    "Answer",
    "Backend",
    "Capabilities",
    "Check",
    "Claim",
    "Counting",
    "DeadLettering",
    "Emptying",
    "Enqueued",
    "Envelope",
    "Failure",
    "Health",
    "Held",
    "Hold",
    "Inline",
    "Inspection",
    "Lease",
    "Migration",
    "Overview",
    "Pruned",
    "Query",
    "QueueCounts",
    "QueuePage",
    "QueueState",
    "Reaped",
    "Renewal",
    "Replayed",
    "Run",
    "Sealed",
    "Session",
    "SessionState",
    "Settled",
    "Settlement",
    "StoredJob",
    "Tables",
    "Turn",
    "TurnResult",
]

LEASE = timedelta(seconds=30)
TOMBSTONE = timedelta(minutes=10)
QUEUES_AT_A_GLANCE = 100

Held = tuple[str, int]  # a lease by id and token


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do.  Code asks for these, never for a backend's name."""

    delays: bool = True
    priorities: bool = True
    deduplicates: bool = True
    wakes: bool = True  # `wait` returns when another process enqueues, long before its timeout
    remote_extend: bool = True  # a session can be renewed by another process than the one that claimed
    fences_expired: bool = True  # a lease that was given back can change nothing, even before the next claim
    durable: bool = True  # an enqueue that returned survives the death of the process and of the machine
    shared: bool = True  # other processes see the same jobs
    # What a broker lacks.
    sessions: bool = True  # the store knows sessions: any client can adopt or reap another's, and they expire
    holds: bool = True  # idempotency keys and single instances
    prefetches: bool = True  # a lease that has not begun can be lost unharmed; else only what begins at once is claimed
    knows_ids: bool = (
        True  # an id is not stored twice, `retried` looks among the finished, and a batch is all or nothing
    )
    promotes: bool = True  # a turn makes due what is due, so a queue is served strictly by priority, due time and id
    remembers: bool = True  # what was settled is known to every client, for as long as the contract says
    lists_queues: bool = True  # it names the queues that have work, so a worker can serve a pattern of names
    keeps_place: bool = True  # what is given back unharmed stands where it stood; else it is as new as its copy


DURABLE, LOSSY = Capabilities(), Capabilities(durable=False)  # of stores that do all else


class Enqueued(msgspec.Struct, frozen=True):
    """Whether a job was created, or which live job stands for it."""

    id: str
    created: bool = True
    existing_id: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One running worker process in the store's eyes.  Once reaped it never comes back."""

    owner: str
    lease_for: timedelta = LEASE
    host: str = ""
    pid: int = 0
    version: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What to claim.  ``owner`` and ``lease_for`` count only where the claim opens its own session."""

    queues: tuple[str, ...]
    limit: int = 1
    at_most: Mapping[str, int] = {}  # fewer than the limit from single queues
    owner: str = ""
    lease_for: timedelta = LEASE


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange with the store: settle what is done, claim what is free."""

    owner: str
    settlements: Sequence[Settlement] = ()
    claim: Claim | None = None


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answers, in the order of the settlements, and the new leases, in claim order."""

    settled: list[Settled]
    leases: list[Lease]
    alive: bool = True
    promoted: int = 0
    cancel_requested: tuple[Held, ...] = ()  # of all leases this owner holds
    woken: Sequence[str] = ()  # the waiters that its settlements made due, for who has to tell a broker


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    alive: bool
    cancel_requested: tuple[Held, ...] = ()
    lost: tuple[Held, ...] = ()  # where leases are renewed one by one: those that came too late


class Reaped(msgspec.Struct, frozen=True, kw_only=True):
    """One lease that was taken back."""

    id: str
    queue: str
    job: str
    token: int
    to: State
    cause: str
    crashed: bool  # whether it counted as a crash; else it came back unharmed
    crashes: int = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a run that did not succeed."""

    token: int
    attempt: int
    move: str  # the settlement's, or "crashed"
    to: State  # where the job went
    failure: Failure
    at: int
    duration_ms: int


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the store knows it, its envelope still sealed."""

    id: str
    queue: str
    job: str
    data: bytes
    state: State
    priority: int
    attempts: int
    delivery: int
    crashes: int
    interruptions: int
    available_at: int
    enqueued_at: int
    started_at: int | None = None
    finished_at: int | None = None
    owner: str | None = None
    cancel_requested: bool = False
    result: bytes | None = None
    reason: str | None = None
    progress: bytes | None = None
    waits: int = 0
    parked_since: int | None = None
    tombstone: bool = False
    runs: tuple[Run, ...] = ()


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs.  Pages walk the ids, which rise with the time of enqueueing; tombstones are never listed."""

    ids: tuple[str, ...] | None = None
    states: frozenset[State] | None = None
    queue: str | None = None
    job: str | None = None
    after: str | None = None  # the last id of the page before
    limit: int = 100
    newest_first: bool = False


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Which finished jobs live again, and why others do not: "expired", "tombstone", "key held by <id>"."""

    ids: list[str]
    skipped: dict[str, str]


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """How many finished jobs one batch removed, by queue and state, and where the next batch starts."""

    removed: dict[tuple[str, State], int]
    next: str | None


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that holds live jobs or is paused."""

    name: str
    paused: bool
    live: int


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """Names of queues in their order, and where the next page of them starts."""

    names: list[str]
    next: str | None


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The live jobs of a queue, by state."""

    name: str
    paused: bool
    counts: dict[State, int]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A store at a glance.  Nothing was counted beyond a limit: a number that reaches it means "or more"."""

    counts: dict[State, int]
    queues: list[QueueCounts]
    ended: int  # grows by one with every job that ends: the difference between two looks is what ended in between


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the store knows it.  It was renewed last ``lease_for`` before it expires."""

    owner: str
    lease_for: timedelta
    host: str
    pid: int
    version: str
    expires_at: int
    leases: int  # how many it holds


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a health report."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str


class Backend(Protocol):
    """Where envelopes live.  The abstract methods are the contract; the others are one-line conveniences over it."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    def connect(self) -> None:
        """Reach the store, and say what is wrong with it."""
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


@runtime_checkable
class Counting(Protocol):
    """A store that can count its jobs, if nothing else.  The words are those of `Inspection`."""

    def counts(self, queue: str | None = None) -> dict[State, int]: ...

    def queues(self) -> Sequence[QueueState]: ...


@runtime_checkable
class DeadLettering(Protocol):
    """A store that can be asked about its dead jobs, and no others.  Queries as in `Inspection`."""

    def dead_jobs(self, query: Query) -> Sequence[StoredJob]: ...

    def replay_dead(self, query: Query) -> Replayed: ...

    def purge_dead(self, query: Query) -> int: ...


@runtime_checkable
class Inspection(Protocol):
    """Looking at jobs, and asking for what only people ask.

    ``get``, ``get_many``, ``list`` and ``counts`` see live and finished jobs in one snapshot: a job that moves is seen once.
    """

    def get(self, job_id: str) -> StoredJob | None:
        """One job with the records of its runs; tombstones included."""
        ...

    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        """Those of these jobs that there are, each once and as `get` shows it, in no order."""
        ...

    def list(self, query: Query) -> Sequence[StoredJob]:
        """A page of jobs, with the records of their runs."""
        ...

    def counts(self, queue: str | None = None) -> dict[State, int]:
        """How many jobs are in each state, every state named; tombstones are not counted."""
        ...

    def queues(self) -> Sequence[QueueState]:
        """Every queue that holds live jobs or is paused, by name."""
        ...

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        """The queues that a claim would find work in now, whose names begin with ``prefix``: something is available or due,
        and the queue is not paused.

        One page of a walk by name over the queues in which jobs wait, of which it passes at most ``limit``, or fewer where
        every name costs a look of its own; how many wait does not matter.  The walk is over when ``next`` is None, else
        the next page comes ``after`` it.
        """
        ...

    def overview(self, *, at_most: int = 10_000) -> Overview:
        """For those who look every second: it costs the same however much waits and however long the history is.

        No state is counted beyond ``at_most``, scheduled and retryable jobs not even together; and no queue beyond the
        first hundred, by name.  ``ended`` may go back when jobs are removed or replayed.
        """
        ...

    def sessions(self) -> Sequence[SessionState]:
        """Every session that was not ended or reaped, expired ones among them, by owner."""
        ...

    def cancel(self, ids: Sequence[str], reason: str) -> Sequence[State | None]:
        """CANCELLED: it was waiting and is cancelled.  EXECUTING: it was asked to stop.  None: nothing to cancel."""
        ...

    def retry(self, ids: Sequence[str]) -> Sequence[bool]:
        """Make scheduled and retryable jobs due now."""
        ...

    def replay(self, query: Query) -> Replayed:
        """Give discarded or cancelled jobs a new life.

        Counters, reason, marks and progress to nothing, the records of old runs kept, ``delivery`` going on, the sealed
        unique key taken again.  Other states are passed over; a tombstone is reported if it was named by its id.
        """
        ...

    def purge(self, query: Query) -> int:
        """Remove finished jobs for good."""
        ...

    def prune(
        self,
        cutoffs: Mapping[State, int],
        *,
        queue: str | None = None,
        dry_run: bool = False,
        after: str = "",
        limit: int = 500,
    ) -> Pruned:
        """One batch of a walk over the finished jobs by id: remove those that finished before their state's cutoff, and
        tombstones past their ten minutes; with ``queue``, only of that queue.  The walk is over when ``next`` is None.

        With ``dry_run`` nothing is written, and the answer says what the same call would remove now.
        """
        ...

    def forget_key(self, key: str) -> tuple[Hold, str | None]:
        """Free an idempotency key that a success confirmed, and say what it was before, with the job it pointed to.

        DONE: that job had succeeded, and the key is free now.  BUSY: that job runs and holds it, nothing changed.  FREE:
        nobody held it, and no success is remembered.  One write, conditional on what it finds.
        """
        ...

    def pause(self, queue: str, *, paused: bool = True) -> bool:
        """Stop or allow claims from a queue, for everybody and across restarts.  True if that changed anything."""
        ...

    def progress(self, lease: Lease, progress: bytes) -> bool:
        """Note how far a run has come.  Fenced like a settlement: False if the lease was lost."""
        ...


@runtime_checkable
class Emptying(Protocol):
    """A store that can be made as new, for tests."""

    def empty(self) -> None:
        """Remove every job, record, key, session and pause of this namespace."""
        ...


@runtime_checkable
class Inline(Protocol):
    """A backend whose jobs are run by whoever enqueues them."""

    def jump(self) -> bool:
        """Move the clock to the next due job.  False if nothing waits."""
        ...


@runtime_checkable
class Health(Protocol):
    """A backend that can say how it is."""

    def health(self) -> list[Check]: ...


@runtime_checkable
class Advising(Protocol):
    """A backend that has something to tell a person who starts workers on it."""

    def advice(self) -> Sequence[str]: ...


class Migration(NamedTuple):
    """A numbered step in the life of a store's tables."""

    version: int
    name: str
    sql: str


class Tables(Protocol):
    """The tables of a store, for backends that have any: to look at them changes nothing, while to open the store does."""

    def pending(self) -> Sequence[Migration]:
        """What this Onward ships and the store lacks.  Changes nothing; a store that is newer raises `SchemaTooNew`."""
        ...

    def script(self) -> str:
        """The same as one script, for somebody who has the rights to run it."""
        ...

    def migrate(self) -> Sequence[Migration]:
        """Apply what is pending, one process at a time; gives what was applied."""
        ...

    def close(self) -> None: ...
