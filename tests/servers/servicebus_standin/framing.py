"""Frames on a byte stream: a size, an offset, a type, a channel, and then the body."""

from __future__ import annotations

import struct
from asyncio import StreamReader

from tests.servers.servicebus_standin.codec import CodecError

__all__ = ["AMQP", "AMQP_HEADER", "MAX_FRAME_SIZE", "SASL", "SASL_HEADER", "frame", "read_frame"]

AMQP, SASL = 0, 1
AMQP_HEADER, SASL_HEADER = b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00"
MAX_FRAME_SIZE = 64 * 1024
"""What either side may send; the SDK says the same."""

_HEAD = struct.Struct(">IBBH")


def frame(channel: int, body: bytes, kind: int = AMQP) -> bytes:
    """
    >>> frame(0, b"").hex()  # an empty one keeps a connection alive
    '0000000802000000'
    """
    return _HEAD.pack(_HEAD.size + len(body), 2, kind, channel) + body


async def read_frame(reader: StreamReader) -> tuple[int, bytes]:
    """The channel and the body of the next frame."""
    size, offset, _, channel = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if not _HEAD.size <= offset * 4 <= size <= MAX_FRAME_SIZE:
        raise CodecError(f"a frame of {size} bytes, whose body begins at byte {offset * 4}")
    rest = await reader.readexactly(size - _HEAD.size)
    return channel, rest[offset * 4 - _HEAD.size :]
