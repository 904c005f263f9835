"""The part of the contract for notes: what a job writes down for its later runs, and the signals that come for it.

A note is a small value under (job id, name).  The first character of its name says what it is: ``=`` a step's result,
``~`` the instant at which a sleep or a wait ends, ``!`` a signal's value.

    note       Insert it under the lease's fence: (id, token, owner, executing), compared in the statement that writes, with
               the job's row locked against a reap until the note is committed.  The lease is lost: no note, False.  The
               name is there already: it stays as it is, True (a repeat after a lost answer; names are unique in a run).
    notes      Return all of a job, by name.
    signal     Lock the job's row, insert the note ``!name``; the first value stays, unless ``again``, which replaces the
               value and not its time.  A job that is `scheduled` and ``awaits`` that name becomes available, due now, in the
               same transaction.  A job that has not begun, runs or waits to be retried keeps the note for its next look.  A
               finished job: nothing is written.
    snooze     A settlement may carry ``awaits`` and ``notes``: they are written with the move.  After its own row is
               written, in a later statement of the same transaction, the store looks for the signal that the job awaits: one
               that came in between makes it due at once.

Notes go when the finished job goes: by `purge`, by `prune`, with its tombstone.  A replay keeps them, or drops them if it
is asked for a fresh start.  They are never read by the store: it keeps bytes that the client sealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from onward.contract.audit import Audit
from onward.job.lease import Lease
from onward.job.states import State

__all__ = ["Note", "Notes", "Signalled"]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has written down, or was told."""

    name: str
    value: bytes
    at: int


class Signalled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a signal."""

    state: State | None  # of the job when the signal came; None: there is no such job
    stored: bool = False  # False: the job is finished, or the name has a value already
    woken: bool = False  # the job waited for it and is due now
    full: bool = False  # the job has as many notes, or bytes of notes, as it may have; nothing was written


@runtime_checkable
class Notes(Protocol):
    """A store that keeps notes."""

    def note(self, lease: Lease, name: str, value: bytes) -> bool: ...

    def notes(self, job_id: str) -> Sequence[Note]: ...

    def signal(
        self,
        job_id: str,
        name: str,
        value: bytes,
        *,
        again: bool = False,
        at_most: tuple[int, int] = (1000, 4 << 20),
        audit: Audit = (),
    ) -> Signalled:
        """Store a signal.  ``at_most``: notes and bytes of notes that the job may have, counted under its row's lock."""
        ...
