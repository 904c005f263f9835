r"""The form in which a job travels: the client seals it into bytes once, and no program encodes it again.

    onward/1 <key-id> <signature>\n{"id": …, "queue": …, "job": …, "payload": …}

A dash stands for "unsigned" (`onward.security.signing`).  Every backend stores and returns these very bytes, so
a reader can verify them before parsing.  Beside them a store keeps columns copied out of the letter: *columns
decide when* (order, due time, expiry, holds, crash cap), *sealed bytes decide what*: workers act on the bytes alone,
and compare the id and queue inside with where they were found.

Three shapes of one thing:
    Letter      the contents, opened
    Sealed      id, queue and bytes: what a store hands back
    Envelope    a Sealed with the columns: what a store is asked to keep
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from onward.base.clock import SECOND, to_micros
from onward.base.durations import LONGEST
from onward.errors import EnvelopeError, EnvelopeTooNew, PayloadTooLarge
from onward.job.membership import FlowPlan
from onward.job.retry import PortablePolicy

__all__ = [
    "UNSIGNED",
    "VERSION",
    "CatchUp",
    "Encrypt",
    "Envelope",
    "Form",
    "Letter",
    "Occurrence",
    "Overlap",
    "Sealed",
    "Sign",
    "Verify",
    "open_sealed",
    "owned_key",
    "parted",
    "seal",
    "signed",
]

VERSION = 1
DEFAULT_LIMIT = 256 * 1024
LARGEST = 64 * 1024 * 1024  # before anything is verified or parsed
UNSIGNED = b"-"  # in place of the key id and of the signature
_UNSIGNED = b"onward/1 - -\n"
_MAGIC = b"onward/1"
_HEADER_LIMIT = 512

# Bounds that every client keeps, so that no letter's number can overflow a worker's calendar.
_Instant = Annotated[
    int, msgspec.Meta(ge=to_micros(datetime.min.replace(tzinfo=UTC)), le=to_micros(datetime.max.replace(tzinfo=UTC)))
]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=LONGEST)]

UniqueStrategy = Literal["ignore_new", "cancel_existing"]
Isolation = Literal["thread", "process"]
Overlap = Literal["allow", "queue", "skip", "cancel"]
CatchUp = Literal["skip", "once"] | int


class Occurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Which tick of which schedule a job is, and what its schedule says about late and overlapping runs."""

    name: str
    tick: _Instant
    expression: str
    zone: str = "UTC"
    offset: int = 0  # microseconds by which every tick is shifted
    catch_up: CatchUp = "once"
    overlap: Overlap = "queue"
    flow: str | None = None  # the name of the flow that this job starts

    @property
    def hold(self) -> str | None:
        """The key that its runs hold one after the other.  No job's name has a slash in it."""
        return None if self.overlap == "allow" else f"schedule/{self.name}"


class Letter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The sealed contents.  For what is absent the worker's own definition of the job decides."""

    id: str
    namespace: str
    queue: str
    job: str
    max_crashes: int
    enqueued_at: _Instant
    name: str | None = None
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    max_retries: int | None = None
    timeout: _Seconds | None = None
    retry: PortablePolicy | None = None
    priority: int = 0
    not_before: _Instant | None = None
    expires_at: _Instant | None = None
    unique_key: str | None = None
    unique_strategy: UniqueStrategy = "ignore_new"
    idempotency_key: str | None = None
    idempotency_ttl: _Seconds | None = None
    key_scope: Literal["job", "global"] = "job"
    single_instance: bool = False
    isolation: Isolation | None = None
    meta: dict[str, Any] = {}
    secrets: tuple[str, ...] = ()  # arguments that are never shown
    enc: str | None = None  # how the payload is encrypted, and with which key
    schedule: Occurrence | None = None
    lane: str | None = None  # the line in its queue, as the store has it (`onward.flow.lanes`)
    cost: int | None = None  # tokens that a start takes, if not 1
    flow: str | None = None  # the flow that it is a member of, by id
    node: str | None = None  # and where in it
    scheduled_for: _Instant | None = None  # the tick for which a schedule has started its flow

    @property
    def hold(self) -> str | None:
        """The key that one run at a time holds, of all that name it."""
        if self.single_instance:
            return self.name or self.job
        return None if self.schedule is None else self.schedule.hold

    @property
    def key_owner(self) -> str:
        """The name that the job's keys belong to: its own, or its handler's; empty if all jobs share its keys."""
        return "" if self.key_scope == "global" else self.name or self.job


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A sealed job as a store hands it back: where it was found, and the bytes."""

    id: str
    queue: str
    data: bytes


class Envelope(Sealed, frozen=True, kw_only=True, gc=False):
    """A sealed job with the columns that let a store order, delay, expire and deduplicate it.

    Instants and lengths are microseconds.  ``delay`` is relative, so that the store's clock alone decides when it ends.
    Keys carry the name that they belong to: two jobs never share one unless they asked for it.
    """

    job: str
    enqueued_at: int
    max_crashes: int
    priority: int = 0
    delay: int = 0
    not_before: int | None = None
    expires_at: int | None = None
    unique_key: str | None = None
    unique_strategy: UniqueStrategy = "ignore_new"
    idempotency_key: str | None = None
    idempotency_ttl: int = 86_400 * SECOND
    single_instance: str | None = None
    lane: str | None = None  # None: the plain line of its queue
    cost: int | None = None  # tokens that a start takes, if not 1
    timeout: float | None = None  # seconds; for stores whose leases are measured when a job is stored
    flow: str | None = None
    node: str | None = None
    plan: FlowPlan | None = None  # of a new flow, with the first of its members; in no bytes


Sign = Callable[[str], Callable[[bytes], bytes]]  # for a queue: sealed bytes -> the same, with their header
Encrypt = Callable[[str, bytes], bytes]  # of the job with this id: its payload -> the same, encrypted, as JSON
Verify = Callable[[Sealed], bytes]  # the sealed bytes, without their header, if they are to be read

_replace = msgspec.structs.replace
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Letter).decode


def seal(letter: Letter, *, delay: int = 0, sign: Sign | None = None, limit: int = DEFAULT_LIMIT) -> Envelope:
    """Encode a letter, once and for all."""
    body = _encode(letter)
    limit = min(limit, LARGEST)
    if len(body) > limit:
        raise PayloadTooLarge(len(body), limit)
    data = signed(body, letter.queue, sign)
    owner = letter.key_owner
    ttl = letter.idempotency_ttl
    return Envelope(
        letter.id,
        letter.queue,
        data,
        job=letter.job,
        enqueued_at=letter.enqueued_at,
        max_crashes=letter.max_crashes,
        priority=letter.priority,
        delay=delay,
        not_before=letter.not_before,
        expires_at=letter.expires_at,
        unique_key=None if letter.unique_key is None else owned_key(owner, letter.unique_key),
        unique_strategy=letter.unique_strategy,
        idempotency_key=None if letter.idempotency_key is None else owned_key(owner, letter.idempotency_key),
        idempotency_ttl=86_400 * SECOND if ttl is None else round(ttl * SECOND),
        single_instance=letter.hold,
        lane=letter.lane,
        cost=letter.cost,
        timeout=letter.timeout,
        flow=letter.flow,
        node=letter.node,
    )


def signed(body: bytes, queue: str, sign: Sign | None) -> bytes:
    """Put the header before sealed bytes."""
    return _UNSIGNED + body if sign is None else sign(queue)(body)


def owned_key(owner: str, key: str) -> str:
    """Return a key as a store keeps it.  No name has a slash in it, so that two owners never share a key."""
    return f"{owner}/{key}"


class Form:
    """A letter without the parts that differ from call to call: id, payload and the time of enqueueing.

    The parts that calls of one job have in common are checked and encoded once.  Filling in the rest puts bytes together: it
    costs a fifth of `seal`, and gives the same bytes.
    """

    __slots__ = ("_before", "_encrypt", "_end", "_envelope", "_limit", "_middle", "_sign", "_start")

    def __init__(
        self, letter: Letter, *, encrypt: Encrypt | None = None, sign: Sign | None = None, limit: int = DEFAULT_LIMIT
    ) -> None:
        self._envelope = seal(letter, limit=limit)
        self._start, self._middle, self._before, self._end = _around(letter)
        self._encrypt = encrypt
        self._sign = None if sign is None else sign(letter.queue)
        self._limit = min(limit, LARGEST)

    def fill(self, ids: Sequence[str], payloads: Sequence[bytes], enqueued_at: int) -> list[Envelope]:
        """Seal the letter with each of these ids and its payload."""
        if self._encrypt is not None:
            payloads = [self._encrypt(job_id, payload) for job_id, payload in zip(ids, payloads, strict=True)]
        envelope, sign, limit, start, end = self._envelope, self._sign, self._limit, self._start, self._end
        between = b"%b%d%b" % (self._middle, enqueued_at, self._before)
        filled = []
        for job_id, payload in zip(ids, payloads, strict=True):
            body = b"".join((start, _encode(job_id), between, payload, end))
            if len(body) > limit:
                raise PayloadTooLarge(len(body), limit)
            data = _UNSIGNED + body if sign is None else sign(body)
            filled.append(_replace(envelope, id=job_id, data=data, enqueued_at=enqueued_at))
        return filled


_TIME, _PAYLOAD = b',"enqueued_at":', b',"payload":'


def _around(letter: Letter) -> tuple[bytes, bytes, bytes, bytes]:
    """Return what stands in an encoded letter before its id, its time and its payload, and what stands behind that.

    Its fields are in the order of `Letter`, so only texts and a number stand before these three.  A quote within a text has
    a backslash before it: the first such name is the field's own.
    """
    # Of a letter whose payload is the default itself, none would be written.
    body = _encode(_replace(letter, id="", payload=msgspec.Raw(b"{}"), enqueued_at=0))
    start, _, rest = body.partition(b'""')
    middle, _, rest = rest.partition(_TIME + b"0")
    before, _, end = rest.partition(_PAYLOAD + b"{}")
    middle, before = middle + _TIME, before + _PAYLOAD
    assert body == b"".join((start, b'""', middle, b"0", before, b"{}", end))
    return start, middle, before, end


def open_sealed(sealed: Sealed, *, namespace: str | None = None, verify: Verify | None = None) -> Letter:
    """Read a sealed job, and check that it was found where it belongs.  Verifies the bytes before it parses any."""
    data = sealed.data
    if len(data) > LARGEST:
        raise EnvelopeError(f"the sealed job has {len(data):,} bytes, and the limit is {LARGEST:,}")
    body = parted(data)[2] if verify is None else verify(sealed)
    try:
        letter = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EnvelopeError(f"the sealed bytes are not a job: {error}") from None
    if letter.id != sealed.id:
        raise EnvelopeError(f"sealed for id {letter.id!r:.80} but found under {sealed.id!r:.80}")
    if letter.queue != sealed.queue:
        raise EnvelopeError(f"sealed for queue {letter.queue!r:.80} but found in {sealed.queue!r:.80}")
    if namespace is not None and letter.namespace != namespace:
        raise EnvelopeError(f"sealed for namespace {letter.namespace!r:.80}, this worker serves {namespace!r}")
    return letter


def parted(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Split into key id, signature and sealed bytes."""
    if data.startswith(_UNSIGNED):
        return UNSIGNED, UNSIGNED, data[len(_UNSIGNED) :]
    header, line_end, body = data.partition(b"\n")
    parts = header.split(b" ", 4) if line_end and len(header) < _HEADER_LIMIT else [b""]
    if len(parts) == 3 and parts[0] == _MAGIC:  # nearly always
        return parts[1], parts[2], body
    magic, _, version = parts[0].partition(b"/")
    if magic != b"onward" or not version.isdigit() or len(version) > 6:
        raise EnvelopeError("the bytes do not start with an onward header")
    if int(version) > VERSION:
        raise EnvelopeTooNew(int(version), VERSION)
    raise EnvelopeError("the header is not `onward/<version> <key-id> <signature>`")
