"""Every error Onward raises, drawn as the tree it is.

    OnwardError
    ├── ArgumentError (TypeError)        the call does not fit the job's signature
    ├── OptionError (TypeError)          an option that does not exist, or two that disagree
    ├── InvalidName (ValueError)         a queue, job or namespace name that no backend could carry
    ├── InvalidTime (ValueError)         a naive datetime, a negative delay, an unreadable duration
    ├── InvalidSchedule (ValueError)     a cron text, a time zone or a policy that cannot be read
    ├── InvalidLimit (ValueError)        a rate that cannot be read, or a limit that could never be kept
    │   └── LimitNotFound (LookupError)  no limit of this job, of its keys, or of this queue
    ├── ScheduleTaken (ValueError)       a name that another schedule has, or a change that only the code may make
    ├── ScheduleNotFound (LookupError)   no schedule of this name
    ├── FlowError (ValueError)           a flow that cannot be, or a node or result that is not there
    ├── FlowNotFound (LookupError)       no flow of this id: never enqueued here, pruned or not committed yet
    ├── PayloadTooLarge (ValueError)     refused before anything was stored
    ├── DefinitionError (TypeError)      a handler that cannot become a job
    ├── HookError (RuntimeError)         a hook around attempts that does not yield exactly once
    ├── StepError (RuntimeError)         a step that cannot be told from another, or whose result cannot be noted
    ├── NotesFull (ValueError)           a note that is too large, or one too many for its job
    ├── NoteRejected (ValueError)        a note that no worker or signaller of ours has written
    ├── JobUnfinished
    │   ├── ResultTimeout (TimeoutError) the job did not finish in the time given
    │   └── NoWorker                     no worker could ever finish it
    ├── JobEnded
    │   ├── JobDiscardedError            it was dead-lettered; carries the last error
    │   └── JobCancelledError            it was cancelled, or it expired
    ├── JobNotFound (LookupError)        no such id: never enqueued here, pruned, purged or not committed yet
    ├── ResultUnreadable (ValueError)    it has ended, but what the store holds of it was not written by a worker
    ├── KeyInUse                         an idempotency key that cannot be forgotten: a job that runs holds it
    ├── TransactionError                 a transaction that cannot be joined, or that was rolled back
    │   ├── LeaseLost                    the job is no longer this worker's: nothing of its transaction happened
    │   └── TransactionTooLong           it kept others from writing, and was rolled back
    ├── EnvelopeError (ValueError)       bytes that are not a sealed job
    │   ├── EnvelopeTooNew               written by a newer Onward
    │   ├── SignatureRejected            unsigned, or not signed by a key that this worker trusts
    │   └── DecryptionFailed             encrypted for another queue or job, or with a revoked key
    │       └── DecryptionKeyMissing     … or with a key that is not known here
    ├── EncryptionUnavailable            encryption is on, but a key or the library is missing
    ├── SigningKeyMissing                signatures are required, but there is no key
    └── BackendError
        ├── BackendUnavailable           the store does not answer now: try again
        │   ├── BackendUnreachable       … and nothing was sent to it
        │   └── StoreFull                no space left; nothing was half-written
        ├── BackendRefused               the store is fine but refuses this very item
        ├── QueueReserved                the queue belongs to a transfer between stores that has not ended
        ├── BackendMisconfigured         do not start: the message says what to change
        │   ├── SchemaTooNew             migrated by a newer Onward
        │   └── StoreCorrupt             the file is damaged or is not ours
        └── Unsupported                  this backend declares that it cannot do that

Catch `BackendUnavailable` to try again later; everything else says what to change.

What a running handler is interrupted by is no `Exception`, so that no ``except Exception`` swallows it by accident:

    JobInterrupted (BaseException)
    ├── JobTimeout                       the job ran past its time-out
    └── JobStopped                       the job was cancelled while it ran

Nor is that by which ``ctx.sleep`` and ``ctx.wait_for`` end a run that goes on later:

    JobSuspended (BaseException)
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ArgumentError",
    "BackendError",
    "BackendMisconfigured",
    "BackendRefused",
    "BackendUnavailable",
    "BackendUnreachable",
    "DecryptionFailed",
    "DecryptionKeyMissing",
    "DefinitionError",
    "EncryptionUnavailable",
    "EnvelopeError",
    "EnvelopeTooNew",
    "FlowError",
    "FlowNotFound",
    "HookError",
    "InvalidLimit",
    "InvalidName",
    "InvalidSchedule",
    "InvalidTime",
    "JobCancelledError",
    "JobDiscardedError",
    "JobEnded",
    "JobInterrupted",
    "JobNotFound",
    "JobStopped",
    "JobSuspended",
    "JobTimeout",
    "JobUnfinished",
    "KeyInUse",
    "LeaseLost",
    "LimitNotFound",
    "NoWorker",
    "NoteRejected",
    "NotesFull",
    "OnwardError",
    "OptionError",
    "PayloadTooLarge",
    "QueueReserved",
    "ResultTimeout",
    "ResultUnreadable",
    "ScheduleNotFound",
    "ScheduleTaken",
    "SchemaTooNew",
    "SignatureRejected",
    "SigningKeyMissing",
    "StepError",
    "StoreCorrupt",
    "StoreFull",
    "TransactionError",
    "TransactionTooLong",
    "Unsupported",
]


def revive(kind: type[BaseException], *args: Any) -> BaseException:
    """Rebuild an exception from its pickle, without its constructor."""
    return kind.__new__(kind, *args)


class OnwardError(Exception):
    """The root of everything Onward raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # By default pickle rebuilds an exception from its message alone, which the constructors below do not take.
        return revive, (type(self), *self.args), self.__dict__


class ArgumentError(OnwardError, TypeError):
    """The arguments do not fit the job's signature.  Nothing was enqueued."""


class OptionError(OnwardError, TypeError):
    """An option that does not exist here, or two options that contradict each other."""


class InvalidName(OnwardError, ValueError):
    """A name that not every backend could carry."""


class InvalidTime(OnwardError, ValueError):
    """A naive datetime, a negative delay or a duration that cannot be read."""


class InvalidSchedule(OnwardError, ValueError):
    """A cron text, a time zone or a policy of a schedule that cannot be read.  Nothing was stored."""


class InvalidLimit(OnwardError, ValueError):
    """A rate that cannot be read, or a limit or a breaker that could never be kept."""


class LimitNotFound(InvalidLimit, LookupError):
    """Nothing has declared or set this limit: a job without one is in no lane of its own."""


class ScheduleTaken(OnwardError, ValueError):
    """Another schedule has this name, or the code declares it and only the code may change it.  Nothing was changed."""


class ScheduleNotFound(OnwardError, LookupError):
    """There is no schedule of this name."""


class FlowError(OnwardError, ValueError):
    """A flow that cannot be stored, or a node or a result of it that is not there.  Nothing was stored."""


class FlowNotFound(OnwardError, LookupError):
    """No flow with this id: it was never enqueued here, it was pruned, or its transaction is not committed."""


class PayloadTooLarge(OnwardError, ValueError):
    """The sealed job is larger than the limit.  Store the data elsewhere and pass a reference to it."""

    def __init__(self, size: int, limit: int, what: str = "job") -> None:
        super().__init__(
            f"the {what} takes {size:,} bytes and the limit is {limit:,}: keep the data elsewhere and pass a reference, "
            f"or raise max_payload"
        )
        self.size = size
        self.limit = limit


class DefinitionError(OnwardError, TypeError):
    """A function that cannot become a job, or a name that is already taken."""


class HookError(OnwardError, RuntimeError):
    """A hook around the attempts of jobs that does not yield exactly once."""


class StepError(OnwardError, RuntimeError):
    """A step, sleep or wait that was called where its note would mean nothing.  The message says what to do."""


class NotesFull(OnwardError, ValueError):
    """The note is too large, or the job has as many as it may have.  Nothing was stored."""


class NoteRejected(OnwardError, ValueError):
    """What lies in the store under the name of a note was not sealed by a worker or signaller that is trusted here."""


class JobUnfinished(OnwardError):
    """The job has not come to an end."""


class ResultTimeout(JobUnfinished, TimeoutError):
    """The job did not finish in the time given.  It goes on: ask again, or cancel it."""


class NoWorker(JobUnfinished):
    """The job waits in this process's memory and no worker runs here: waiting would never end."""


class JobEnded(OnwardError):
    """The job came to an end that has no result."""

    def __init__(self, job_id: str, message: str, *, kind: str | None = None, reason: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.kind = kind
        self.reason = reason


class JobDiscardedError(JobEnded):
    """The job was dead-lettered.  ``kind`` names the last error's class, ``reason`` why it was given up."""


class JobCancelledError(JobEnded):
    """The job was cancelled, or expired before it could start."""


class JobNotFound(OnwardError, LookupError):
    """No job with this id: it was never enqueued here, it was pruned, or its transaction is not committed."""


class ResultUnreadable(OnwardError, ValueError):
    """The job has ended, and the store holds a result or a state of it that no worker wrote.  Asking again does not help."""

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class KeyInUse(OnwardError):
    """A running job holds this idempotency key, so it was not forgotten: the work could be done twice."""

    def __init__(self, key: str, job: str | None, job_id: str) -> None:
        whose = "" if job is None else f" of {job!r}"
        super().__init__(
            f"the key {key!r}{whose} is held by job {job_id}, which runs: forget it when that has ended, or cancel that "
            f"job first"
        )
        self.key = key
        self.job_id = job_id


class TransactionError(OnwardError):
    """A transaction that cannot be joined, or one that was rolled back.  The message says what to do."""


class LeaseLost(TransactionError):
    """The job is no longer this worker's.  Its transaction was rolled back, or the result of its step was not stored."""


class TransactionTooLong(TransactionError):
    """The transaction kept others from writing for too long, and was rolled back: nothing of it was committed."""


class EnvelopeError(OnwardError, ValueError):
    """These bytes are not a sealed job that can be trusted."""


class EnvelopeTooNew(EnvelopeError):
    """A newer Onward sealed this job; it waits until a worker of that version takes it."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"envelope version {found} is newer than {known}: upgrade this worker")
        self.found = found
        self.known = known


class SignatureRejected(EnvelopeError):
    """This job is unsigned, or its signature is not that of a key which this worker trusts.  Nothing of it was read."""


class DecryptionFailed(EnvelopeError):
    """An encrypted text cannot be decrypted here.  Nothing of it was read."""


class DecryptionKeyMissing(DecryptionFailed):
    """A text was encrypted with a key or an algorithm that this program does not have.  Other programs may."""


class EncryptionUnavailable(OnwardError):
    """Encryption is on, but there is no key or no library to encrypt with."""


class SigningKeyMissing(OnwardError):
    """Signatures are required here, but there is no key to make or to check them with."""


class BackendError(OnwardError):
    """The store, or the connection to it, failed."""

    of_signal_handler = False  # True: a signal handler called the store; the call that it interrupted did not fail


class BackendUnavailable(BackendError):
    """The store cannot be reached or stays busy for too long.  Try again: nothing is known to be wrong with the request."""


class BackendUnreachable(BackendUnavailable):
    """The program got no connection to the store, or no lock on it.  Nothing was sent, so nothing was stored."""


class StoreFull(BackendUnavailable):
    """The store has no space left.  The write was rolled back whole; make room and try again."""


class BackendRefused(BackendError):
    """The store works but refuses this very data; sending it again would not help."""


class QueueReserved(BackendError):
    """A transfer between stores that has not ended has reserved this queue.  Until it ends, no job of it may run here."""

    def __init__(self, queue: str, reserved_for: str) -> None:
        super().__init__(
            f"queue {queue!r} is reserved for a transfer that has not ended ({reserved_for}): run the same `onward move` "
            f"again, to its end; if the other store is gone for good, `onward queue resume {queue} --force`"
        )
        self.queue = queue
        self.reserved_for = reserved_for


class BackendMisconfigured(BackendError):
    """The store cannot keep its promises as it is set up.  The message says what to change."""


class SchemaTooNew(BackendMisconfigured):
    """The database was migrated by a newer Onward than this one.

    Upgrade this process, or point it at another database; nothing was read or written.
    """

    def __init__(self, found: int, known: int) -> None:
        super().__init__(f"schema {found} is newer than {known}: upgrade onward here, or use another database")
        self.found = found
        self.known = known


class StoreCorrupt(BackendMisconfigured):
    """The file is damaged, or is not a database at all.  It was left as it is."""


class Unsupported(BackendError):
    """This backend declares that it cannot do that."""


class JobSuspended(BaseException):
    """Raised by ``ctx.sleep`` and ``ctx.wait_for``: this run is over, and the job goes on in a later one.

    ``finally`` blocks of the handler run.  A handler that catches it must raise it again.
    """

    def __init__(self, delay: float, awaits: str | None = None, notes: tuple[tuple[str, bytes], ...] = ()) -> None:
        super().__init__("the run is suspended, and the job goes on later")
        self.delay = delay
        self.awaits = awaits
        self.notes = notes


class JobInterrupted(BaseException):
    """Raised in a handler that must end now.  A handler may catch it to clean up, and should raise it again."""

    told_by_its_message = True  # not by its place: see `onward.base.fingerprint`


class JobTimeout(JobInterrupted):
    """The job ran past its time-out."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or ("the job was interrupted at its time-out",)))


class JobStopped(JobInterrupted):
    """The job was cancelled while it ran."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or ("the job was cancelled while it ran",)))
