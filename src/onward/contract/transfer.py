"""Transfer between stores: the part of the contract for stores whose jobs can go to another one.

    source, target  reserve   no worker claims from the queue, and no operator can resume it
    source          list      read a batch of jobs that wait or are dead
    target          restore   insert them as they are
    source          remove    delete those that still are what was read

Each verb is one transaction and may be repeated.  While a job is in both stores its queue is reserved in both, so it can run
in neither; a transfer that was killed is continued by running it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from onward.contract.audit import AuditEntry
from onward.contract.notes import Note
from onward.contract.values import StoredJob
from onward.errors import BackendUnavailable
from onward.job.states import State

__all__ = ["TRANSFERABLE", "Attached", "Confirmed", "Restored", "Transferable", "check_reserved", "version_of"]

TRANSFERABLE = frozenset({State.SCHEDULED, State.AVAILABLE, State.RETRYABLE, State.DISCARDED})


class Confirmed(msgspec.Struct, frozen=True):
    """An idempotency key that a success has confirmed: by which lease, and until when it counts."""

    job_id: str
    token: int
    until: int


class Attached(msgspec.Struct, frozen=True):
    """What belongs to jobs and is no part of their rows: confirmed idempotency keys; notes, and entries of the audit trail,
    by the id of their job.
    """

    confirmed: Mapping[str, Confirmed] = {}
    notes: Mapping[str, Sequence[Note]] = {}
    audit: Mapping[str, Sequence[AuditEntry]] = {}


class Restored(msgspec.Struct, frozen=True):
    """Whether a job was stored, or why not: its id is known here, or a live job holds its unique key."""

    id: str
    stored: bool = True
    holder: str | None = None


def version_of(job: StoredJob) -> tuple[object, ...]:
    """Return what changes whenever a job does.  `remove` compares it."""
    due = job.finished_at if job.is_finished else job.available_at
    return job.state, job.delivery, job.attempts, job.crashes, job.interruptions, due


def check_reserved(queue: str, transfer: str, found: str | None) -> None:
    """Raise if a queue is reserved for another transfer than this, or for none."""
    if found != transfer:
        raise BackendUnavailable(
            f"queue {queue!r} is no longer reserved for this transfer: another process has continued it, or an operator has "
            f"ended it; run the command again"
        )


@runtime_checkable
class Transferable(Protocol):
    """A store whose jobs can go to another one, and that takes in theirs."""

    def reserve(self, queue: str, transfer: str | None, *, was: str | None = None) -> bool:
        """Pause a queue and reserve it for a transfer; None ends the reservation, and the queue stays paused.

        False if it is not reserved as ``was`` says: nothing changed.  When it returns, no claim is under way that does
        not know of it.
        """
        ...

    def attached(self, jobs: Sequence[StoredJob]) -> Attached:
        """Return what else belongs to these jobs."""
        ...

    def restore(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[Restored]:
        """Insert jobs of one queue as they are, with the records of their runs: one answer for each, in their order.

        A job whose id is known here, live or finished, if only as a tombstone, is left alone; so is a unique key that
        another live job holds.  A confirmed key that is held here, or confirmed for longer, stays as it is.  Raises
        `BackendRefused` for a job that this store cannot keep as it is, and `BackendUnavailable` if the queue is not
        reserved for this transfer.
        """
        ...

    def remove(self, transfer: str, jobs: Sequence[StoredJob], attached: Attached) -> Sequence[str]:
        """Delete those of these jobs of one queue that wait or are dead, and whose `version_of` and notes are the same.

        Returns their ids.  Raises `BackendUnavailable` if the queue is not reserved for this transfer.
        """
        ...
