"""The values that go to a store and come back: plain data, the same for all stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import msgspec

from onward.base.failure import Failure
from onward.contract.description import ran_by
from onward.contract.limits import LimitRow
from onward.job.lease import Lease
from onward.job.ran_by import RanBy
from onward.job.settlement import Settled, Settlement
from onward.job.states import FINISHED, State

__all__ = [
    "CONTINUATION",
    "LEASE",
    "TOMBSTONE",
    "Claim",
    "Enqueued",
    "Held",
    "Reaped",
    "Renewal",
    "Run",
    "Session",
    "StoredJob",
    "Turn",
    "TurnResult",
]

LEASE = timedelta(seconds=30)
TOMBSTONE = timedelta(minutes=10)

Held = tuple[str, int]  # a lease by id and token


class Enqueued(msgspec.Struct, frozen=True):
    """The answer for one envelope: the job was created, or another live job stands for it."""

    id: str
    created: bool = True
    existing_id: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One running worker process, as the store knows it.  Once reaped it never comes back."""

    owner: str
    lease_for: timedelta = LEASE
    host: str = ""
    pid: int = 0
    version: str = ""
    limits: tuple[LimitRow, ...] = ()  # that its code declares, where the store keeps limits
    description: bytes = b""  # what the worker says of itself (`WorkerDescription`), at most 16 KiB

    def ran_by(self) -> RanBy | None:
        """Return who ran the jobs of this session, for the records of those that crashed."""
        return ran_by(self.host, self.pid, self.description)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Says what to claim.  ``owner`` and ``lease_for`` count only where the claim opens its own session."""

    queues: tuple[str, ...]
    limit: int = 1
    at_most: Mapping[str, int] = {}  # lower limits for single queues
    begins: int | None = None  # how many of them can begin at once; None: all
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
    more: bool = False  # the walk over lanes stopped at a bound: claim again
    awaits_slots: bool = False  # jobs with limits wait until more than `begins` can begin: do not wait for others
    # From a store that can stand beside a broker: the waiters that it made due, and the jobs whose node it opened.
    woken: Sequence[str] = ()


class Renewal(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a renewal of a session."""

    alive: bool
    cancel_requested: tuple[Held, ...] = ()
    lost: tuple[Held, ...] = ()  # where a store renews leases one by one: those that had expired
    now: int | None = None  # the store's clock, where a sample was taken
    sampler: bool = False  # for the one caller of a minute who looks at the store for all
    refused: str | None = None  # why the sample was not stored


class Reaped(msgspec.Struct, frozen=True, kw_only=True):
    """One lease that was given back for a dead session."""

    id: str
    queue: str
    job: str
    token: int
    to: State
    cause: str
    crashed: bool  # whether it counted as a crash; else as an interruption
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
    owner: str | None = None  # the session that held it
    by: RanBy | None = None  # the worker that ran it; of a crash, the one whose session was reaped

    @property
    def fingerprint(self) -> str:
        return self.failure.fingerprint


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the store knows it, its envelope still sealed.  The fields stand in the order of the columns of `pick`."""

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
    cancel_reason: str | None = None  # it runs and was asked to cancel: why
    result: bytes | None = None
    reason: str | None = None
    progress: bytes | None = None
    waits: int = 0
    parked_since: int | None = None
    awaits: str | None = None  # the signal that it waits for, while it is scheduled
    # What decides how it goes on; a tombstone has none of it.
    max_crashes: int = 0
    expires_at: int | None = None
    spent: str | None = None
    unique_key: str | None = None
    key_held: bool = False  # whether it holds its unique key
    idempotency_key: str | None = None
    idempotency_ttl: int = 0
    single_instance: str | None = None
    lane: str | None = None  # None: the plain line of its queue
    cost: int | None = None  # tokens that a start takes, if not 1
    tombstone: bool = False
    runs: tuple[Run, ...] = ()
    flow: str | None = None  # the flow that it is a member of, by id
    node: str | None = None

    @property
    def cancel_requested(self) -> bool:
        return self.cancel_reason is not None

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED


_fields = StoredJob.__struct_fields__
CONTINUATION = frozenset(_fields[_fields.index("max_crashes") : _fields.index("tombstone")])
