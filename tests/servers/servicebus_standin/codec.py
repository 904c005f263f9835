"""The types of AMQP 1.0, to bytes and back.

A value that was decoded knows its AMQP type, so that encoding it again says the same: an unsigned int of the wire is a
``UInt``, which is an ``int``; a symbol is a ``Symbol``, which is a ``str``.  What Python has itself stays as it is:
``None``, ``bool``, ``float`` (a double), ``bytes``, ``str``, ``UUID``, ``list`` and ``dict``.

    >>> encode(UInt(7)).hex()
    '5207'
    >>> decode(encode({Symbol("x-opt-sequence-number"): Long(3)}))
    {'x-opt-sequence-number': 3}

Part 1 of the specification has the table of constructors that this follows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

__all__ = [
    "Array",
    "Byte",
    "Char",
    "CodecError",
    "Described",
    "Float",
    "Int",
    "Long",
    "Opaque",
    "Short",
    "Symbol",
    "Timestamp",
    "UByte",
    "UInt",
    "ULong",
    "UShort",
    "decode",
    "decode_at",
    "encode",
]

_DEEPEST = 64  # a value that nests deeper is an attack or a bug, and would exhaust the stack


class CodecError(ValueError):
    """These bytes are not AMQP, or this value has no place in it."""


class UByte(int):
    __slots__ = ()


class UShort(int):
    __slots__ = ()


class UInt(int):
    __slots__ = ()


class ULong(int):
    __slots__ = ()


class Byte(int):
    __slots__ = ()


class Short(int):
    __slots__ = ()


class Int(int):
    __slots__ = ()


class Long(int):
    __slots__ = ()


class Timestamp(int):
    """Milliseconds since the epoch."""

    __slots__ = ()


class Float(float):
    """A number of four bytes; a plain ``float`` has eight."""

    __slots__ = ()


class Char(str):
    __slots__ = ()


class Symbol(str):
    __slots__ = ()


class Array(tuple[Any, ...]):
    """Values of one type, which is written once."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A decimal: passed on as it came, for nothing here calculates with it."""

    code: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a descriptor that says what it means."""

    descriptor: Any
    value: Any


def encode(value: Any) -> bytes:
    """Write a value in the shortest form that its type has."""
    kind = type(value)
    if kind is dict:
        return _compound(0xC1, 0xD1, [part for pair in value.items() for part in pair])
    if kind is list:
        return _compound(0xC0, 0xD0, value) if value else b"\x45"
    if writer := _WRITERS.get(kind):
        try:
            return writer(value)
        except (struct.error, UnicodeEncodeError) as error:
            raise CodecError(f"{value!r} does not fit into AMQP's {kind.__name__.lower()}: {error}") from None
    raise CodecError(f"{kind.__name__} has no AMQP type: wrap an int into UInt, Long or the like")


def decode(data: bytes) -> Any:
    """Read the one value that these bytes are."""
    value, end = decode_at(data, 0)
    if end != len(data):
        raise CodecError(f"{len(data) - end} bytes are left over behind the value")
    return value


def decode_at(data: bytes, at: int) -> tuple[Any, int]:
    """Read the value that begins here, and say where the next one does."""
    try:
        value, end = _read(data, at, 0)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise CodecError(f"the value at byte {at} is broken: {error}") from None
    if end > len(data):
        raise CodecError(f"the value at byte {at} ends behind the data")
    return value, end


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise CodecError(f"values are nested deeper than {_DEEPEST}")
    code = data[at]
    if code == 0x00:
        descriptor, at = _read(data, at + 1, depth + 1)
        value, at = _read(data, at, depth + 1)
        return Described(descriptor, value), at
    return _read_as(code, data, at + 1, depth)


def _read_as(code: int, data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if fixed := _FIXED.get(code):
        width, read = fixed
        return read(_piece(data, at, width)), at + width
    if variable := _VARIABLE.get(code):
        size, at = _number(code, data, at)
        return variable(_piece(data, at, size)), at + size
    if code in {0xC0, 0xD0, 0xC1, 0xD1, 0xE0, 0xF0}:
        return _read_compound(code, data, at, depth + 1)
    raise CodecError(f"0x{code:02x} is not the constructor of an AMQP type")


def _read_compound(code: int, data: bytes, at: int, depth: int) -> tuple[Any, int]:
    size, at = _number(code, data, at)
    end = at + size
    count, at = _number(code, data, at)
    if end > len(data) or count > len(data):
        raise CodecError("a list, map or array says it is larger than the data")
    if code in {0xE0, 0xF0} and not count:
        return Array(), end
    parts, last = (_read_array if code in {0xE0, 0xF0} else _read_parts)(data, at, count, depth)
    if last != end:
        raise CodecError("a list, map or array does not end where it says")
    if code in {0xE0, 0xF0}:
        return Array(parts), end
    if code in {0xC0, 0xD0}:
        return parts, end
    if count % 2:
        raise CodecError("a map has a key without a value")
    try:
        return dict(zip(parts[::2], parts[1::2], strict=True)), end
    except TypeError as error:
        raise CodecError(f"a map has a key that is no simple value: {error}") from None


def _read_parts(data: bytes, at: int, count: int, depth: int) -> tuple[list[Any], int]:
    parts = []
    for _ in range(count):
        part, at = _read(data, at, depth)
        parts.append(part)
    return parts, at


def _read_array(data: bytes, at: int, count: int, depth: int) -> tuple[list[Any], int]:
    code, at = data[at], at + 1
    descriptor = None
    if described := code == 0x00:
        descriptor, at = _read(data, at, depth)
        code, at = data[at], at + 1
    values = []
    for _ in range(count):
        value, at = _read_as(code, data, at, depth)
        values.append(Described(descriptor, value) if described else value)
    return values, at


def _piece(data: bytes, at: int, size: int) -> bytes:
    piece = data[at : at + size]
    if len(piece) != size:
        raise CodecError(f"{size} bytes are announced at byte {at}, and {len(piece)} are there")
    return piece


def _number(code: int, data: bytes, at: int) -> tuple[int, int]:
    """A size or a count: the constructor says whether it has one byte or four."""
    if code in {0xA0, 0xA1, 0xA3, 0xC0, 0xC1, 0xE0}:
        return data[at], at + 1
    return struct.unpack_from(">I", data, at)[0], at + 4


def _packed(kind: Callable[[Any], Any], layout: str) -> Callable[[bytes], Any]:
    unpack = struct.Struct(f">{layout}").unpack
    return lambda raw: kind(unpack(raw)[0])


def _opaque(code: int) -> Callable[[bytes], Opaque]:
    return lambda raw: Opaque(code, raw)


_FIXED: dict[int, tuple[int, Callable[[bytes], Any]]] = {
    0x40: (0, lambda _: None),
    0x41: (0, lambda _: True),
    0x42: (0, lambda _: False),
    0x43: (0, lambda _: UInt(0)),
    0x44: (0, lambda _: ULong(0)),
    0x45: (0, lambda _: []),
    0x50: (1, _packed(UByte, "B")),
    0x51: (1, _packed(Byte, "b")),
    0x52: (1, _packed(UInt, "B")),
    0x53: (1, _packed(ULong, "B")),
    0x54: (1, _packed(Int, "b")),
    0x55: (1, _packed(Long, "b")),
    0x56: (1, _packed(bool, "B")),
    0x60: (2, _packed(UShort, "H")),
    0x61: (2, _packed(Short, "h")),
    0x70: (4, _packed(UInt, "I")),
    0x71: (4, _packed(Int, "i")),
    0x72: (4, _packed(Float, "f")),
    0x73: (4, lambda raw: Char(raw.decode("utf-32-be"))),
    0x74: (4, _opaque(0x74)),
    0x80: (8, _packed(ULong, "Q")),
    0x81: (8, _packed(Long, "q")),
    0x82: (8, _packed(float, "d")),
    0x83: (8, _packed(Timestamp, "q")),
    0x84: (8, _opaque(0x84)),
    0x94: (16, _opaque(0x94)),
    0x98: (16, lambda raw: UUID(bytes=raw)),
}

_VARIABLE: dict[int, Callable[[bytes], Any]] = {
    0xA0: bytes,
    0xB0: bytes,
    0xA1: lambda raw: raw.decode("utf-8"),
    0xB1: lambda raw: raw.decode("utf-8"),
    0xA3: lambda raw: Symbol(raw.decode("ascii")),
    0xB3: lambda raw: Symbol(raw.decode("ascii")),
}


def _compound(small: int, large: int, parts: Iterable[Any]) -> bytes:
    encoded = [encode(part) for part in parts]
    return _sized(small, large, len(encoded), b"".join(encoded))


def _sized(small: int, large: int, count: int, body: bytes) -> bytes:
    if len(body) < 255 and count < 256:
        return bytes((small, len(body) + 1, count)) + body
    return struct.pack(">BII", large, len(body) + 4, count) + body


def _array(values: Array) -> bytes:
    if not values:
        return b"\xe0\x01\x00"
    kinds = {type(value) for value in values}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise CodecError(f"an array has values of one type, not of {names}")
    if not (element := _ELEMENTS.get(kinds.pop())):
        raise CodecError(f"an array of {type(values[0]).__name__} is not supported")
    code, write = element
    return _sized(0xE0, 0xF0, len(values), bytes((code,)) + b"".join(write(value) for value in values))


def _fixed(code: int, layout: str) -> Callable[[Any], bytes]:
    pack = struct.Struct(f">B{layout}").pack
    return lambda value: pack(code, value)


def _shortest(zero: int | None, small: tuple[int, str], large: tuple[int, str]) -> Callable[[Any], bytes]:
    low, high = (0, 255) if small[1] == "B" else (-128, 127)

    def write(value: int) -> bytes:
        if value == 0 and zero is not None:
            return bytes((zero,))
        code, layout = small if low <= value <= high else large
        return struct.pack(f">B{layout}", code, value)

    return write


def _variable(small: int, large: int, to_bytes: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def write(value: Any) -> bytes:
        raw = to_bytes(value)
        if len(raw) < 256:
            return bytes((small, len(raw))) + raw
        return struct.pack(">BI", large, len(raw)) + raw

    return write


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"\x40",
    bool: lambda value: b"\x41" if value else b"\x42",
    UByte: _fixed(0x50, "B"),
    UShort: _fixed(0x60, "H"),
    UInt: _shortest(0x43, (0x52, "B"), (0x70, "I")),
    ULong: _shortest(0x44, (0x53, "B"), (0x80, "Q")),
    Byte: _fixed(0x51, "b"),
    Short: _fixed(0x61, "h"),
    Int: _shortest(None, (0x54, "b"), (0x71, "i")),
    Long: _shortest(None, (0x55, "b"), (0x81, "q")),
    Float: _fixed(0x72, "f"),
    float: _fixed(0x82, "d"),
    Timestamp: _fixed(0x83, "q"),
    Char: lambda value: b"\x73" + value.encode("utf-32-be"),
    UUID: lambda value: b"\x98" + value.bytes,
    Opaque: lambda value: bytes((value.code,)) + value.raw,
    bytes: _variable(0xA0, 0xB0, bytes),
    str: _variable(0xA1, 0xB1, lambda value: value.encode("utf-8")),
    Symbol: _variable(0xA3, 0xB3, lambda value: value.encode("ascii")),
    Array: _array,
    Described: lambda value: b"\x00" + encode(value.descriptor) + encode(value.value),
}


def _long_form(code: int, to_bytes: Callable[[Any], bytes]) -> tuple[int, Callable[[Any], bytes]]:
    return code, lambda value: struct.pack(">I", len(raw := to_bytes(value))) + raw


def _bare(code: int, layout: str) -> tuple[int, Callable[[Any], bytes]]:
    return code, struct.Struct(f">{layout}").pack


# An array names one constructor for all of its values, so each type has the one that fits every value of it.
_ELEMENTS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    bool: _bare(0x56, "?"),
    UByte: _bare(0x50, "B"),
    UShort: _bare(0x60, "H"),
    UInt: _bare(0x70, "I"),
    ULong: _bare(0x80, "Q"),
    Byte: _bare(0x51, "b"),
    Short: _bare(0x61, "h"),
    Int: _bare(0x71, "i"),
    Long: _bare(0x81, "q"),
    Float: _bare(0x72, "f"),
    float: _bare(0x82, "d"),
    Timestamp: _bare(0x83, "q"),
    Char: (0x73, lambda value: value.encode("utf-32-be")),
    UUID: (0x98, lambda value: value.bytes),
    bytes: _long_form(0xB0, bytes),
    str: _long_form(0xB1, lambda value: value.encode("utf-8")),
    Symbol: _long_form(0xB3, lambda value: value.encode("ascii")),
}
