"""Looking at the jobs of a store, and the requests of people: cancel, retry, replay, remove, pause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

import msgspec

from onward.contract.audit import Audit
from onward.contract.snapshot import Look, Snapshot
from onward.contract.values import StoredJob
from onward.errors import OptionError
from onward.job.lease import Hold, Lease
from onward.job.states import State

__all__ = [
    "Counting",
    "DeadLettering",
    "Inspection",
    "Pruned",
    "Query",
    "QueuePage",
    "QueueState",
    "Replayed",
    "SessionState",
]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Selects jobs.  Pages go by id, and ids rise with the time of enqueueing; tombstones are never listed.

    A fingerprint selects dead jobs of the job that is named besides: one group.
    """

    ids: tuple[str, ...] | None = None
    states: frozenset[State] | None = None
    queue: str | None = None
    job: str | None = None
    flow: str | None = None  # of stores that keep flows
    node: str | None = None  # of that flow
    fingerprint: str | None = None  # of stores that group dead jobs
    after: str | None = None  # the last id of the page before
    until: str | None = None  # the highest id: what is enqueued later is left out
    limit: int = 100
    newest_first: bool = False
    within: float | None = None  # seconds: `list` raises `BackendUnavailable` then, where the store can end a reading

    def __post_init__(self) -> None:
        if self.fingerprint is not None and self.job is None:
            raise OptionError(
                f"fingerprint={self.fingerprint!r:.60}: a group is a job and a fingerprint: name the job, too"
            )


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """Which finished jobs were replayed, and why others were not: `expired`, `tombstone`, `key held by <id>`."""

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
    reserved_for: str | None = None  # a transfer that has not ended: only that ends the pause


class QueuePage(msgspec.Struct, frozen=True, kw_only=True):
    """Names of queues in their order, and where the next page of them starts."""

    names: list[str]
    next: str | None


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the store knows it.  It was renewed last ``lease_for`` before it expires."""

    owner: str
    lease_for: timedelta
    host: str
    pid: int
    version: str
    expires_at: int
    leases: int  # how many it holds
    description: bytes = b""  # what the worker says of itself, see `WorkerDescription`


@runtime_checkable
class Counting(Protocol):
    """A store that can count its jobs, and nothing else of `Inspection`."""

    def counts(self, queue: str | None = None) -> dict[State, int]: ...

    def queues(self) -> Sequence[QueueState]: ...


@runtime_checkable
class DeadLettering(Protocol):
    """A store that can list, replay and remove its dead jobs, and no others."""

    def dead_jobs(self, query: Query) -> Sequence[StoredJob]: ...

    def replay_dead(self, query: Query) -> Replayed: ...

    def purge_dead(self, query: Query) -> int: ...


@runtime_checkable
class Inspection(Protocol):
    """A store that can be inspected and steered.

    ``get``, ``get_many``, ``list`` and ``counts`` see live and finished jobs in one snapshot: a job that moves is seen once.
    Verbs that change something take entries of the audit trail (`onward.contract.audit`) and store them with the change.
    """

    def get(self, job_id: str) -> StoredJob | None:
        """Return one job with the records of its runs; tombstones included."""
        ...

    def get_many(self, ids: Sequence[str]) -> Sequence[StoredJob]:
        """Return those of these jobs that exist, each once and as `get` returns it, in no order: one read for many."""
        ...

    def list(self, query: Query) -> Sequence[StoredJob]:
        """Return a page of jobs, with the records of their runs."""
        ...

    def counts(self, queue: str | None = None) -> dict[State, int]:
        """Return how many jobs are in each state, every state named; tombstones are not counted."""
        ...

    def queues(self) -> Sequence[QueueState]:
        """Return every queue that holds live jobs or is paused, by name."""
        ...

    def queues_with_work(self, prefix: str = "", *, after: str = "", limit: int = 500) -> QueuePage:
        """Return the queues named ``prefix…`` in which a claim would find work now: a job is available or due,
        and the queue is not paused.

        One page of a walk by name over the queues in which jobs wait.  It passes at most ``limit`` of them, or fewer where
        every name costs a look of its own; its cost does not depend on how many jobs wait.  The walk is over when ``next``
        is None, else the next page comes ``after`` it.
        """
        ...

    def look(self, look: Look) -> Snapshot:
        """Return what is asked for, in one snapshot with the store's clock.  A part that is not asked for costs nothing.

        - ``counts``: an overview that may be read every second: its cost does not grow with the queues and the history.
          No state is counted beyond ``at_most``, scheduled and retryable jobs not even together; and no queue beyond the
          first hundred, by name.  ``ended`` may decrease when jobs are removed or replayed.  ``oldest_due`` is looked for
          in the first lines of each queue, sixteen priorities and sixteen lanes.
        - ``place_of``: one job, as `get` returns it, with how many available jobs come before it in its line, counted up
          to ``at_most``; which other jobs hold its keys; and how much of its limits is used.
        - ``deaths``: the first hundred groups of discarded jobs, by name and fingerprint, each counted up to ``at_most``.
        - ``audit``: a page of the audit trail, where the store declares `audit`.
        - ``series``: the rows of samples that began from the first instant until before the second, by time and reporter;
          no more than ``at_most``.

        A look that takes longer than two seconds raises `BackendUnavailable`, where the store can end one.
        """
        ...

    def sessions(self) -> Sequence[SessionState]:
        """Return every session that was not ended or reaped, expired ones among them, by owner."""
        ...

    def cancel(self, ids: Sequence[str], reason: str, *, audit: Audit = ()) -> Sequence[State | None]:
        """Cancel jobs.  CANCELLED: it was waiting.  EXECUTING: it was asked to stop.  None: there was nothing to cancel.

        A job that is asked twice keeps the first reason.
        """
        ...

    def retry(self, ids: Sequence[str], *, audit: Audit = ()) -> Sequence[bool]:
        """Make scheduled and retryable jobs due now."""
        ...

    def replay(self, query: Query, *, fresh: bool = False, audit: Audit = ()) -> Replayed:
        """Make discarded or cancelled jobs available again; ``fresh``: without their notes.

        This clears counters, reason, marks and progress, keeps the records of old runs, lets ``delivery`` go on, and takes
        the sealed unique key again.  Jobs in other states are left alone; a tombstone is reported if it was named by its
        id.
        """
        ...

    def purge(self, query: Query, *, audit: Audit = ()) -> int:
        """Remove finished jobs for good.  Returns how many."""
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
        """Remove, in one batch of a walk by id, the finished jobs that ended before their state's cutoff, and tombstones
        past their ten minutes; with ``queue``, only of that queue.  The walk is over when ``next`` is None.  Entries of the
        audit trail that belong to no job go when they are older than `KEPT_FOR`, at most ``limit`` with each batch.

        With ``dry_run`` nothing is written, and the answer says what the same call would remove now.
        """
        ...

    def forget_key(self, key: str, *, audit: Audit = ()) -> tuple[Hold, str | None]:
        """Free an idempotency key that a success confirmed.  Returns what it was before, with the job it pointed to.

        DONE: that job had succeeded, and the key is free now.  BUSY: that job runs and holds it, nothing changed.  FREE:
        no job held it, and no success is remembered.  One write, conditional on what it finds.
        """
        ...

    def pause(self, queue: str, *, paused: bool = True, audit: Audit = ()) -> bool:
        """Stop or allow claims from a queue, for all workers and across restarts.  True if that changed anything.

        A queue that is reserved for a transfer stays paused: `QueueReserved`.
        """
        ...

    def progress(self, lease: Lease, progress: bytes) -> bool:
        """Store how far a run has come.  Fenced like a settlement: False if the lease was lost."""
        ...
