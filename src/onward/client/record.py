"""A job as people see it: opened, with aware datetimes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

import msgspec

from onward.backend import AWAITS_NODE, Note, Run, SessionState, StoredJob
from onward.base.clock import from_micros, to_micros
from onward.base.credentials import without_credentials
from onward.base.failure import message_of
from onward.client.damage import damage_of
from onward.contract.description import WorkerDescription
from onward.errors import DecryptionFailed, EnvelopeError
from onward.flow.lanes import shown
from onward.job.arguments import decode_result
from onward.job.envelope import Letter, Sealed, open_sealed
from onward.job.lease import LAST_INSTANT
from onward.job.registry import Registry
from onward.job.scrubbing import Scrub
from onward.job.secrets import Secret, masked
from onward.job.states import State
from onward.job.steps import SIGNAL, SLEEP, STEP, WAIT
from onward.security.encryption import Encrypted, Encryption

__all__ = [
    "JobRecord",
    "NoteRecord",
    "Progress",
    "Records",
    "RunError",
    "SessionRecord",
    "note_record_of",
    "payload_of",
    "session_record_of",
]


T = TypeVar("T")

_FIRST_INSTANT = to_micros(datetime.min.replace(tzinfo=UTC))
_LAST = from_micros(LAST_INSTANT)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """A run that did not succeed."""

    attempt: int
    kind: str
    message: str
    traceback: str
    at: datetime
    duration_ms: int
    owner: str | None = None  # the session of the worker that ran it
    fingerprint: str = ""  # the same for the same failure
    host: str | None = None  # where it ran, and the next two
    pid: int | None = None
    build: str | None = None
    delivery: int = 0  # of the claim that it came of: as `JobRecord.delivery` if that was the last one


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run reported to have come, between 0 and 1.  Of a completed job it is 1, with the last note."""

    fraction: float
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Everything known about a job at one moment.  Secrets among its arguments are masked; ``reveal()`` shows them."""

    id: str
    job: str
    name: str
    queue: str
    state: State
    priority: int
    payload: Any
    meta: dict[str, Any]
    attempts: int
    delivery: int
    crashes: int
    interruptions: int
    max_retries: int | None
    available_at: datetime
    enqueued_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    owner: str | None
    cancel_requested: bool
    result: Any
    reason: str | None
    progress: Progress | None
    errors: tuple[RunError, ...]
    raw: bytes = field(repr=False)  # the sealed bytes as they are stored
    not_before: datetime | None = None  # the instant of `at` or `delay`; `available_at` moves with every retry
    waits: int = 0  # how often in a row a worker put it back without a run: its key is held, or its handler is unknown
    parked_since: datetime | None = None  # since when no worker that claimed it knew it
    waiting_for: str | None = None  # the signal that it waits for, or the node of its flow that is not open yet
    flow: str | None = None  # the flow that it is a member of, by id
    node: str | None = None  # and where in it
    lane: str | None = None  # its line in the queue, as `render/acme`; None: the plain one
    has_secrets: bool = False  # whether parameters are secret by their type
    is_defined: bool = True  # whether the application that shows it defines its job, and so knows all secrets
    withholds_result: bool = False  # the result is encrypted, and `result` is a marker
    result_error: str | None = None  # why its result cannot be read
    damage: str | None = None  # values in its row that no worker writes
    decrypted: Secret[bytes] | None = field(
        default=None, repr=False
    )  # the payload, if it was encrypted and could be read

    @property
    def is_finished(self) -> bool:
        return self.finished_at is not None

    @property
    def awaits_node(self) -> bool:
        """Whether it waits for the node of its flow to open, and for no signal."""
        return self.node is not None and self.waiting_for == f"node {self.node}"

    @property
    def due_at(self) -> datetime | None:
        """When it may begin at the earliest; None: no instant is known, its flow or a signal decides."""
        return None if self.waiting_for is not None and self.available_at >= _LAST else self.available_at

    def reveal(self) -> Any:
        """Return the payload as it was enqueued, with its secrets.  None if it cannot be read."""
        letter = _letter(Sealed(self.id, self.queue, self.raw))
        if letter is None:
            return None
        if letter.enc is None:
            return payload_of(letter)
        return None if self.decrypted is None else _data(self.decrypted.reveal())


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRecord:
    """What a job has noted, without the value: a step that is done, a sleep or a wait that began, a signal that came."""

    kind: Literal["step", "sleep", "wait", "signal"]
    name: str
    at: datetime


_KINDS: tuple[tuple[str, Literal["step", "sleep", "wait", "signal"]], ...] = (
    (WAIT, "wait"),
    (SLEEP, "sleep"),
    (SIGNAL, "signal"),
    (STEP, "step"),
)


def note_record_of(note: Note) -> NoteRecord:
    start, kind = next(((start, kind) for start, kind in _KINDS if note.name.startswith(start)), ("", "step"))
    return NoteRecord(kind=kind, name=note.name.removeprefix(start), at=_shown(note.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A worker process, or a program with a worker inside, as the store knows it."""

    owner: str
    host: str
    pid: int
    version: str
    leases: int  # jobs that it holds
    renewed_at: datetime
    expires_at: datetime
    alive: bool  # False: it was not renewed for a whole lease, and its jobs are about to be given back
    description: WorkerDescription | None = None  # in its own words; None: it has said nothing that can be read


def session_record_of(session: SessionState, now: int) -> SessionRecord:
    expires_at = _shown(session.expires_at)
    return SessionRecord(
        owner=session.owner,
        host=session.host,
        pid=session.pid,
        version=session.version,
        leases=session.leases,
        renewed_at=_shown(session.expires_at - session.lease_for // _MICROSECOND),
        expires_at=expires_at,
        alive=session.expires_at > now,
        description=WorkerDescription.decoded(session.description),
    )


class Records:
    """Opens stored jobs, with the keys of an application and the secret places of its own jobs."""

    def __init__(self, encryption: Encryption, registry: Registry) -> None:
        self._encryption = encryption
        self._registry = registry

    def record(self, stored: StoredJob, *, returns: Any = Any) -> JobRecord:
        """Open a stored job.  One that cannot be opened has a record all the same, with its raw bytes.

        A marker replaces what cannot be decrypted here.
        """
        letter = _letter(Sealed(stored.id, stored.queue, stored.data))
        secrets = () if letter is None else self.secrets(letter)
        record = _record(stored, letter, secrets, self._encryption, returns)
        return record if self._registry.find(stored.job) is not None else replace(record, is_defined=False)

    def scrubber(self, stored: StoredJob) -> Scrub:
        """Return the function that scrubs a text about a stored job.  A payload that cannot be read has no known secrets."""
        letter = _letter(Sealed(stored.id, stored.queue, stored.data))
        if letter is None:
            return without_credentials
        try:
            return self._registry.scrubber(self._encryption.open(letter))
        except DecryptionFailed:
            return without_credentials

    def secrets(self, letter: Letter) -> tuple[str, ...]:
        """Return the places that are never shown: those that the producer named, and those known here."""
        return tuple(dict.fromkeys((*letter.secrets, *self._registry.secrets_of(letter.job))))


def _record(
    stored: StoredJob, letter: Letter | None, secrets: tuple[str, ...], encryption: Encryption, returns: Any
) -> JobRecord:
    payload, decrypted = _payload(letter, secrets, encryption)
    result = encryption.read_result(stored.id, stored.queue, stored.delivery, stored.result)
    returned, result_error = _result(result, returns)
    return JobRecord(
        id=stored.id,
        job=stored.job,
        name=(letter and letter.name) or stored.job,
        queue=stored.queue,
        state=stored.state,
        priority=stored.priority,
        payload=payload,
        meta={} if letter is None else masked(letter.meta),
        attempts=stored.attempts,
        delivery=stored.delivery,
        crashes=stored.crashes,
        interruptions=stored.interruptions,
        max_retries=None if letter is None else letter.max_retries,
        available_at=_shown(stored.available_at),
        enqueued_at=_shown(stored.enqueued_at),
        started_at=_when(stored.started_at),
        finished_at=_when(stored.finished_at),
        owner=stored.owner,
        cancel_requested=stored.cancel_requested,
        result=returned,
        reason=encryption.read_reason(stored.id, stored.queue, stored.reason),
        progress=_progress(stored, encryption),
        errors=tuple(_error(stored, run, encryption) for run in stored.runs),
        not_before=None if letter is None else _when(letter.not_before),
        waits=stored.waits,
        parked_since=_when(stored.parked_since),
        waiting_for=f"node {stored.node}" if stored.awaits == AWAITS_NODE else stored.awaits,
        flow=stored.flow,
        node=stored.node,
        lane=shown(stored.lane) or None,
        raw=stored.data,
        has_secrets=bool(secrets),
        withholds_result=isinstance(result, Encrypted),
        result_error=result_error,
        damage=damage_of(stored, result_error),
        decrypted=decrypted,
    )


def _payload(
    letter: Letter | None, secrets: tuple[str, ...], encryption: Encryption
) -> tuple[Any, Secret[bytes] | None]:
    """Return the payload with its secrets masked; and, if it was encrypted, all of it."""
    if letter is None:
        return None, None
    try:
        opened = encryption.open(letter)
    except DecryptionFailed:
        return encryption.marker(letter), None
    payload = masked(payload_of(opened), secrets)
    return payload, None if letter.enc is None else Secret(bytes(opened.payload))


def _result(result: Encrypted | bytes | None, returns: Any) -> tuple[Any, str | None]:
    """Return what a handler returned; or None, and why that cannot be read."""
    if isinstance(result, Encrypted):
        return str(result), None
    try:
        return decode_result(result, returns), None
    except (ValueError, TypeError, RecursionError) as error:
        return None, message_of(error)


def _progress(stored: StoredJob, encryption: Encryption) -> Progress | None:
    """Return the progress that was reported last; of a completed job, 1."""
    progress = _read(lambda: msgspec.json.decode(stored.progress or b"null", type=Progress | None))
    if progress is None:
        return None
    fraction = 1.0 if stored.state is State.COMPLETED else progress.fraction
    return replace(progress, fraction=fraction, note=encryption.read_note(stored.id, stored.queue, progress.note))


def _letter(sealed: Sealed) -> Letter | None:
    try:
        return open_sealed(sealed)
    except EnvelopeError:
        return None


def payload_of(letter: Letter) -> Any:
    """Return the arguments as data; None if they cannot be read."""
    return _data(letter.payload)


def _data(payload: bytes | msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (
        ValueError,
        RecursionError,
    ):  # only a handler that fails on it raises; the record has the bytes
        return None


def _read(decode: Callable[[], T]) -> T | None:
    """Decode a column; None if that fails.  Another program may have written it, and the job is shown all the same."""
    try:
        return decode()
    except (ValueError, RecursionError):
        return None


def _when(instant: int | None) -> datetime | None:
    return None if instant is None else _shown(instant)


def _shown(instant: int) -> datetime:
    """Return an instant as a datetime; the first or the last one for a number that is out of range."""
    return from_micros(min(max(instant, _FIRST_INSTANT), LAST_INSTANT))


def _error(stored: StoredJob, run: Run, encryption: Encryption) -> RunError:
    failure, by = encryption.read_failure(stored.id, stored.queue, run.token, run.failure), run.by
    return RunError(
        attempt=run.attempt,
        kind=failure.kind,
        message=failure.message,
        traceback=failure.traceback,
        at=_shown(run.at),
        duration_ms=run.duration_ms,
        owner=run.owner,
        fingerprint=run.fingerprint,
        host=None if by is None else by.host,
        pid=None if by is None else by.pid,
        build=None if by is None else by.build,
        delivery=run.token,
    )
