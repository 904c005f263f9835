"""The messages between a worker and a process of a single job: `onward.worker.isolated` and `onward.entry.isolated`."""

from __future__ import annotations

from onward.base.failure import Failure
from onward.base.ipc import IpcMessage
from onward.job.lease import Lease
from onward.job.outcome import Outcome

__all__ = [
    "AskOwner",
    "AttemptEnded",
    "FromProcess",
    "FromWorker",
    "HandlerBegins",
    "HandlerCounted",
    "HandlerProgress",
    "Imported",
    "LeaseIsLost",
    "NoteAnswered",
    "OwnerIs",
    "RunLease",
    "WriteNote",
]


class RunLease(IpcMessage, frozen=True):
    """Asks the process to run one attempt of this lease."""

    lease: Lease


class LeaseIsLost(IpcMessage, frozen=True):
    """Tells the process that the lease is lost."""


class NoteAnswered(IpcMessage, frozen=True):
    """What became of a note: stored, or the lease is lost; or the problem why that is not known."""

    number: int
    noted: bool
    problem: str | None = None


class OwnerIs(IpcMessage, frozen=True):
    """The owner of the lease as the worker knows it; ``certain`` is False while a successor is being opened."""

    number: int
    owner: str
    certain: bool


class Imported(IpcMessage, frozen=True):
    """Reports that the application was imported; or the problem why not."""

    problem: str | None = None


class HandlerBegins(IpcMessage, frozen=True):
    """Reports that the handler is about to be called."""


class HandlerProgress(IpcMessage, frozen=True):
    """Reports how far the handler has come, in its own words."""

    fraction: float
    note: str | None


class WriteNote(IpcMessage, frozen=True):
    """A note of the handler's, to be stored under the lease as the worker knows it."""

    number: int
    name: str
    sealed: bytes


class AskOwner(IpcMessage, frozen=True):
    """Asks for the owner of the lease as it is now: its session may have been adopted."""

    number: int


class HandlerCounted(IpcMessage, frozen=True):
    """Reports what the handler has counted: names of counters, queues and jobs, and how many."""

    counts: tuple[tuple[str, str, str, int], ...]


class AttemptEnded(IpcMessage, frozen=True, kw_only=True):
    """Reports how the attempt ended."""

    outcome: Outcome
    failure: Failure | None
    result: bytes | None
    note: str | None
    swallowed: Failure | None
    duration_ms: int
    blamed: bool | None


FromWorker = RunLease | LeaseIsLost | NoteAnswered | OwnerIs
FromProcess = Imported | HandlerBegins | HandlerProgress | HandlerCounted | WriteNote | AskOwner | AttemptEnded
