"""A message of AMQP: what the broker reads of it, what it adds, and the rest, which passes through untouched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.servers.servicebus_standin.codec import (
    CodecError,
    Described,
    Int,
    Long,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    decode_at,
    encode,
)

if TYPE_CHECKING:
    from tests.servers.servicebus_standin.queue import Stored

__all__ = ["BATCH_FORMAT", "Content", "read_request", "render", "render_reply", "unpack_batch"]

BATCH_FORMAT = 0x80013700
"""The message format whose data sections are messages themselves."""

_HEADER, _DELIVERY_ANNOTATIONS, _ANNOTATIONS, _PROPERTIES, _APPLICATION = 0x70, 0x71, 0x72, 0x73, 0x74
_DATA, _VALUE = 0x75, 0x77
_SCHEDULED_AT = "x-opt-scheduled-enqueue-time"
_MILLISECOND = 1000
_FOREVER = 0xFFFFFFFF  # as long as a header can say


@dataclass(frozen=True, slots=True)
class Content:
    """What a sender handed in."""

    message_id: object = None
    scheduled_at: int | None = None
    time_to_live: int | None = None
    size: int = 0
    header: list[Any] = field(default_factory=list)
    annotations: dict[Any, Any] = field(default_factory=dict)
    properties: bytes = b""
    application: dict[Any, Any] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def parse(cls, raw: bytes) -> Content:
        header: list[Any] = []
        annotations: dict[Any, Any] = {}
        application: dict[Any, Any] = {}
        properties = body = b""
        message_id = None
        for code, value, section in _sections(raw):
            if code == _HEADER:
                header = value
            elif code == _ANNOTATIONS:
                annotations = value
            elif code == _PROPERTIES:
                properties, message_id = section, value[0] if value else None
            elif code == _APPLICATION:
                application = value
            elif code != _DELIVERY_ANNOTATIONS:  # those are for the next hop only, and that is here
                body += section
        lives = header[2] if len(header) > 2 else None
        due = annotations.get(_SCHEDULED_AT)
        return cls(
            message_id=message_id,
            scheduled_at=None if due is None else int(due) * _MILLISECOND,
            time_to_live=None if lives in {None, _FOREVER} else int(lives) * _MILLISECOND,
            size=len(raw),
            header=header,
            annotations=annotations,
            properties=properties,
            application=application,
            body=body,
        )


def render(message: Stored) -> bytes:
    """The message as a receiver sees it."""
    content = message.content
    parts = [_section(_HEADER, _header(message)), _section(_ANNOTATIONS, _annotations(message)), content.properties]
    if application := _application(message):
        parts.append(_section(_APPLICATION, application))
    parts.append(content.body)
    return b"".join(parts)


def unpack_batch(raw: bytes) -> list[bytes]:
    """The messages that a batch carries, each as it would have been sent alone."""
    return [value for code, value, _ in _sections(raw) if code == _DATA]


def read_request(raw: bytes) -> tuple[object, dict[Any, Any], Any]:
    """The id, the application properties and the value of a request to a node."""
    message_id, application, value = None, {}, None
    for code, section, _ in _sections(raw):
        if code == _PROPERTIES:
            message_id = section[0] if section else None
        elif code == _APPLICATION:
            application = section
        elif code == _VALUE:
            value = section
    return message_id, application, value


def render_reply(correlation_id: object, application: dict[Any, Any], value: Any) -> bytes:
    properties = [None, None, None, None, None, correlation_id]
    return (
        _section(_PROPERTIES, properties + [None] * 7) + _section(_APPLICATION, application) + _section(_VALUE, value)
    )


def _sections(raw: bytes) -> Iterator[tuple[int, Any, bytes]]:
    at = 0
    while at < len(raw):
        section, end = decode_at(raw, at)
        if not isinstance(section, Described) or not isinstance(section.descriptor, int):
            raise CodecError(f"no section of a message begins at byte {at}")
        yield section.descriptor, section.value, raw[at:end]
        at = end


def _section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


def _header(message: Stored) -> list[Any]:
    durable, priority, time_to_live, *_ = [*message.content.header, None, None, None]
    return [
        True if durable is None else durable,
        None if priority is None else UByte(priority),
        None if time_to_live is None else UInt(time_to_live),
        message.delivery_count == 0,
        UInt(message.delivery_count),
    ]


def _annotations(message: Stored) -> dict[Any, Any]:
    annotations = {
        **message.content.annotations,
        Symbol("x-opt-sequence-number"): Long(message.sequence_number),
        Symbol("x-opt-enqueued-time"): Timestamp(message.enqueued_at // _MILLISECOND),
        Symbol("x-opt-message-state"): Int(message.state),
    }
    if message.lock is not None:
        annotations[Symbol("x-opt-locked-until")] = Timestamp(message.lock.until // _MILLISECOND)
    return annotations


def _application(message: Stored) -> dict[Any, Any]:
    if message.dead_letter is None:
        return message.content.application
    why = {
        "DeadLetterReason": message.dead_letter.reason,
        "DeadLetterErrorDescription": message.dead_letter.description,
    }
    return {**message.content.application, **{name: text for name, text in why.items() if text is not None}}
