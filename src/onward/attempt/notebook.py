"""The notes of one job, as a run reads and writes them.

They are sealed, and written under the lease as it is now.  While the store is away they are tried again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from onward.attempt.attempt import Runtime
from onward.backend import Backend, Lease, Note, Notes, Signalled
from onward.base.backoff import jittered
from onward.errors import BackendUnavailable, LeaseLost, Unsupported
from onward.job.context import JobContext
from onward.job.steps import Noted, Steps

__all__ = ["UnsupportedNotes", "notes_of", "steps_of", "with_retries"]

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


def steps_of(context: JobContext, lease: Lease, runtime: Runtime, *, prepared_at: int) -> Steps:
    """Return the steps of one run; raise if this store keeps no notes."""
    notebook = _RunNotebook(context, lease, runtime)
    ahead = lease.claimed_at - prepared_at  # how far the store's clock is ahead of this process's

    def now() -> int:  # a clock that is set back does not lengthen a sleep: it is no earlier than the claim
        return max(lease.claimed_at, runtime.clock.micros() + ahead)

    return Steps(notebook, first=lease.token <= 1, now=now)


class _RunNotebook:
    """The notes of the job that a lease is for."""

    def __init__(self, context: JobContext, lease: Lease, runtime: Runtime) -> None:
        if isinstance(runtime.notes, UnsupportedNotes):
            runtime.notes.refuse()  # before a step has any effect
        self._context = context
        self._lease = lease
        self._runtime = runtime

    def read(self) -> dict[str, Noted]:
        notes = with_retries(self._context, self._runtime, lambda: self._runtime.notes.notes(self._lease.envelope.id))
        return {note.name: Noted(note.value, note.at) for note in notes}

    def open(self, name: str, sealed: bytes) -> bytes:
        envelope = self._lease.envelope
        return self._runtime.note_seals.open(envelope.id, envelope.queue, name, sealed)

    def seal(self, name: str, value: bytes) -> bytes:
        envelope = self._lease.envelope
        return self._runtime.note_seals.seal(envelope.id, envelope.queue, name, value, private=self._lease.private)

    def write(self, name: str, sealed: bytes) -> None:
        if not with_retries(self._context, self._runtime, lambda: self._noted(name, sealed)):
            self._context.lose()
            raise LeaseLost(
                f"job {self._context.id} is no longer this worker's: {name[1:]!r} was not noted, and the worker that has "
                f"the job now does it again"
            )

    def _noted(self, name: str, sealed: bytes) -> bool:
        noted = self._runtime.fenced(self._lease, lambda now: self._runtime.notes.note(now, name, sealed))
        if noted is None:
            raise BackendUnavailable("the session of this worker is being adopted by its successor")
        return noted


def with_retries(context: JobContext, runtime: Runtime, act: Callable[[], T]) -> T:
    """Call the store again while it is unavailable: without an answer, a step that had its effect runs again."""
    deadline, pause = time.monotonic() + runtime.notes_tried_for, _FIRST_PAUSE
    while True:
        try:
            return act()
        except BackendUnavailable:
            if context.lost or time.monotonic() + pause > deadline:
                raise
        time.sleep(jittered(pause))
        pause = min(2 * pause, _LONGEST_PAUSE)


class UnsupportedNotes:
    """Stands for the notes of a store that keeps none."""

    def note(self, lease: Lease, name: str, value: bytes) -> bool:
        self.refuse()

    def notes(self, job_id: str) -> Sequence[Note]:
        self.refuse()

    def signal(self, job_id: str, name: str, value: bytes, **_: Any) -> Signalled:
        self.refuse()

    def refuse(self) -> NoReturn:
        raise Unsupported(
            "this store keeps no notes, and without them there are no steps, sleeps and signals: give the broker a store, "
            'Onward(url, store="sqlite:///onward.db") or ONWARD_STORE, or use a database as the url; to come back later, '
            "raise Snooze(...)"
        )


def notes_of(backend: Backend) -> Notes:
    """Return the notes of a store, or what refuses if it keeps none."""
    return backend if backend.capabilities.notes and isinstance(backend, Notes) else UnsupportedNotes()
