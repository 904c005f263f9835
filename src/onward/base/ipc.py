"""Framed messages between processes of Onward, over a socket."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import msgspec

__all__ = ["IpcChannel", "IpcMessage", "MalformedMessage"]

_LENGTH = struct.Struct("<I")
_LONGEST = 1 << 28  # bytes of a message: those of Onward are far shorter
_encoder = msgspec.msgpack.Encoder()


class IpcMessage(msgspec.Struct, frozen=True, tag=True):
    """A message from one process to another."""


class MalformedMessage(Exception):
    """Bytes that Onward does not send: a handler wrote to a file that it did not open."""


class IpcChannel:
    """One end of a stream socket that carries messages.  Any thread may send; one receives."""

    def __init__(self, end: socket.socket, decoder: msgspec.msgpack.Decoder[IpcMessage]) -> None:
        self._end = end
        self._decoder = decoder  # of the other end's messages
        self._sending = threading.Lock()
        self._received = bytearray()
        self._waiting = bytearray()
        self._malformed: MalformedMessage | None = None

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, message: IpcMessage) -> None:
        """Send a message, and wait until the socket has it.  Does nothing if the other end is gone."""
        with self._sending, contextlib.suppress(OSError):
            self._end.sendall(_framed(message))

    def post(self, message: IpcMessage) -> None:
        """Send without waiting.  A process that hangs does not read: bytes that do not fit wait for the next `flush`."""
        self._waiting += _framed(message)
        self.flush()

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            while self._waiting:
                sent = self._end.send(self._waiting, socket.MSG_DONTWAIT)
                del self._waiting[:sent]

    def messages(self) -> Iterator[IpcMessage]:
        """Yield messages until the other end is gone, or sends a malformed one."""
        with contextlib.suppress(MalformedMessage):
            while chunk := self._read():
                self._received += chunk
                yield from self._complete()

    def arrived(self) -> list[IpcMessage] | None:
        """Return the messages that are there; None once the other end is gone.  May raise `MalformedMessage`."""
        if self._malformed is not None:
            raise self._malformed
        try:
            chunk = self._end.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not chunk:
            return None
        self._received += chunk
        messages: list[IpcMessage] = []
        try:
            messages.extend(self._complete())
        except MalformedMessage as error:
            if not messages:
                raise
            self._malformed = error  # the messages before it count
        return messages

    def close(self) -> None:
        self._end.close()

    def _read(self) -> bytes:
        try:
            return self._end.recv(65536)
        except OSError:
            return b""

    def _complete(self) -> Iterator[IpcMessage]:
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            end = _LENGTH.size + length
            if length > _LONGEST:
                raise MalformedMessage(f"a message of {length:,} bytes")
            if len(self._received) < end:
                return
            data = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            try:
                message = self._decoder.decode(data)
            except msgspec.DecodeError as error:
                raise MalformedMessage(str(error)) from None
            yield message


def _framed(message: IpcMessage) -> bytes:
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data
