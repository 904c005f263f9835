"""Jobs as COPY takes them in its binary format: a row is the number of its fields, then each one's length and bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from onward.envelope import Envelope

__all__ = ["rows"]

_FIELDS = 13
_TOGETHER = 256  # rows that are handed over at once, so that the server begins with them while the next are written
_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TRAILER = struct.pack(">h", -1)
_NULL = struct.pack(">i", -1)
_FIRST = struct.Struct(">hi").pack  # how many fields, and the length of the id
_SECOND = struct.Struct(">iqi").pack  # when it was enqueued, and the length of the sealed bytes


def rows(envelopes: Sequence[Envelope], now: int) -> Iterator[bytes]:
    """What `enqueue_copied` is sent, for jobs that are stored at this instant."""
    yield _HEADER
    common: dict[tuple[object, ...], bytes] = {}  # most jobs of a batch differ in the first three fields alone
    for start in range(0, len(envelopes), _TOGETHER):
        parts: list[bytes] = []
        for each in envelopes[start : start + _TOGETHER]:
            shared = (
                each.queue,
                each.job,
                each.max_crashes,
                each.priority,
                each.delay,
                each.not_before,
                each.expires_at,
                each.idempotency_key,
                each.idempotency_ttl,
                each.single_instance,
            )
            rest = common.get(shared)
            if rest is None:
                rest = common[shared] = _rest(each, now)
            job_id, sealed = each.id.encode(), each.data
            parts += (
                _FIRST(_FIELDS, len(job_id)),
                job_id,
                _SECOND(8, each.enqueued_at, len(sealed)),
                sealed,
                rest,
            )
        yield b"".join(parts)
    yield _TRAILER


def _rest(envelope: Envelope, now: int) -> bytes:
    """The fields behind the first three."""
    due = now + envelope.delay
    if envelope.not_before is not None:
        due = max(due, envelope.not_before)
    once = envelope.idempotency_key
    return b"".join(
        (
            _text(envelope.queue),
            _text("available" if due <= now else "scheduled"),
            _number(-envelope.priority),
            _number(due),
            _number(envelope.expires_at),
            _number(envelope.max_crashes),
            _text(once),
            _number(0 if once is None else envelope.idempotency_ttl),
            _text(envelope.single_instance),
            _text(envelope.job),
        )
    )


def _text(value: str | None) -> bytes:
    if value is None:
        return _NULL
    encoded = value.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _number(value: int | None) -> bytes:
    return _NULL if value is None else struct.pack(">iq", 8, value)
