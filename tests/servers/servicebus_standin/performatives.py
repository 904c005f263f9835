"""What the two ends of a connection say to each other: the frames' bodies, field by field.

Every field is written, also those that are null at the end: releases of the SDK before 7.15 look fields up by their
place and stumble over a shorter list.  Decoding takes either.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Annotated, Any, ClassVar, get_type_hints

from tests.servers.servicebus_standin.codec import (
    Array,
    CodecError,
    Described,
    Symbol,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_at,
    encode,
)

__all__ = [
    "Attach",
    "Begin",
    "Close",
    "Detach",
    "Disposition",
    "End",
    "Flow",
    "Open",
    "Outcome",
    "Performative",
    "SaslInit",
    "SaslMechanisms",
    "SaslOutcome",
    "Transfer",
    "amqp_error",
    "read",
]


@dataclass(kw_only=True)
class Performative:
    """Fields in the order of the wire; an annotation names the AMQP type where Python's does not say it."""

    code: ClassVar[int]

    def encoded(self) -> bytes:
        values = [_typed(getattr(self, name), kind) for name, kind in _LAYOUTS[type(self)].items()]
        return encode(Described(ULong(self.code), values))


@dataclass(kw_only=True)
class Open(Performative):
    code = 0x10
    container_id: str
    hostname: str | None = None
    max_frame_size: Annotated[int | None, UInt] = None
    channel_max: Annotated[int | None, UShort] = None
    idle_time_out: Annotated[int | None, UInt] = None
    outgoing_locales: Any = None
    incoming_locales: Any = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(kw_only=True)
class Begin(Performative):
    code = 0x11
    remote_channel: Annotated[int | None, UShort] = None
    next_outgoing_id: Annotated[int, UInt]
    incoming_window: Annotated[int, UInt]
    outgoing_window: Annotated[int, UInt]
    handle_max: Annotated[int | None, UInt] = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(kw_only=True)
class Attach(Performative):
    code = 0x12
    name: str
    handle: Annotated[int, UInt]
    role: bool
    snd_settle_mode: Annotated[int | None, UByte] = None
    rcv_settle_mode: Annotated[int | None, UByte] = None
    source: Described | None = None
    target: Described | None = None
    unsettled: Any = None
    incomplete_unsettled: bool | None = None
    initial_delivery_count: Annotated[int | None, UInt] = None
    max_message_size: Annotated[int | None, ULong] = None
    offered_capabilities: Any = None
    desired_capabilities: Any = None
    properties: dict[Any, Any] | None = None


@dataclass(kw_only=True)
class Flow(Performative):
    code = 0x13
    next_incoming_id: Annotated[int | None, UInt] = None
    incoming_window: Annotated[int, UInt]
    next_outgoing_id: Annotated[int, UInt]
    outgoing_window: Annotated[int, UInt]
    handle: Annotated[int | None, UInt] = None
    delivery_count: Annotated[int | None, UInt] = None
    link_credit: Annotated[int | None, UInt] = None
    available: Annotated[int | None, UInt] = None
    drain: bool | None = None
    echo: bool | None = None
    properties: dict[Any, Any] | None = None


@dataclass(kw_only=True)
class Transfer(Performative):
    code = 0x14
    handle: Annotated[int, UInt]
    delivery_id: Annotated[int | None, UInt] = None
    delivery_tag: bytes | None = None
    message_format: Annotated[int | None, UInt] = None
    settled: bool | None = None
    more: bool | None = None
    rcv_settle_mode: Annotated[int | None, UByte] = None
    state: Described | None = None
    resume: bool | None = None
    aborted: bool | None = None
    batchable: bool | None = None


@dataclass(kw_only=True)
class Disposition(Performative):
    code = 0x15
    role: bool
    first: Annotated[int, UInt]
    last: Annotated[int | None, UInt] = None
    settled: bool | None = None
    state: Described | None = None
    batchable: bool | None = None


@dataclass(kw_only=True)
class Detach(Performative):
    code = 0x16
    handle: Annotated[int, UInt]
    closed: bool | None = None
    error: Described | None = None


@dataclass(kw_only=True)
class End(Performative):
    code = 0x17
    error: Described | None = None


@dataclass(kw_only=True)
class Close(Performative):
    code = 0x18
    error: Described | None = None


@dataclass(kw_only=True)
class SaslMechanisms(Performative):
    code = 0x40
    sasl_server_mechanisms: Array


@dataclass(kw_only=True)
class SaslInit(Performative):
    code = 0x41
    mechanism: str
    initial_response: bytes | None = None
    hostname: str | None = None


@dataclass(kw_only=True)
class SaslOutcome(Performative):
    code = 0x44
    outcome: Annotated[int, UByte]
    additional_data: bytes | None = None


_BY_CODE: dict[int, type[Performative]] = {
    kind.code: kind
    for kind in (
        Open,
        Begin,
        Attach,
        Flow,
        Transfer,
        Disposition,
        Detach,
        End,
        Close,
        SaslMechanisms,
        SaslInit,
        SaslOutcome,
    )
}


def _layout(kind: type[Performative]) -> dict[str, type | None]:
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: next(iter(getattr(hints[each.name], "__metadata__", ())), None) for each in fields(kind)}


_LAYOUTS = {kind: _layout(kind) for kind in _BY_CODE.values()}


def read(body: bytes) -> tuple[Performative, bytes]:
    """The performative at the beginning of a frame, and the payload behind it."""
    described, end = decode_at(body, 0)
    if not isinstance(described, Described) or not isinstance(described.value, list):
        raise CodecError("a frame does not begin with a performative")
    kind = _BY_CODE.get(described.descriptor) if isinstance(described.descriptor, int) else None
    if kind is None:
        raise CodecError(f"{described.descriptor!r} is not the descriptor of a performative")
    names = _LAYOUTS[kind]
    if (missing := len(names) - len(described.value)) < 0:
        raise CodecError(f"{kind.__name__.lower()} has {len(names)} fields, not {len(described.value)}")
    return kind(**dict(zip(names, [*described.value, *[None] * missing], strict=True))), body[end:]


class Outcome(IntEnum):
    """What becomes of a delivery."""

    ACCEPTED = 0x24
    REJECTED = 0x25
    RELEASED = 0x26
    MODIFIED = 0x27

    def of(self, *fields: Any) -> Described:
        return Described(ULong(self), [*fields])


def amqp_error(condition: str, description: str, info: dict[Any, Any] | None = None) -> Described:
    return Described(ULong(0x1D), [Symbol(condition), description, info])


def _typed(value: Any, kind: type | None) -> Any:
    return value if value is None or kind is None else kind(value)
