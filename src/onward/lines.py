"""Messages between our own processes, over a socket; and how a process ended, in words."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import threading
from collections.abc import Iterator

import msgspec

__all__ = ["Line", "Message", "describe_end"]

_LENGTH = struct.Struct("<I")
_encoder = msgspec.msgpack.Encoder()


class Message(msgspec.Struct, frozen=True, tag=True):
    """Something one process tells another."""


class Line:
    """One end of a stream socket that carries messages.  Any thread may send; one receives."""

    def __init__(self, end: socket.socket, decoder: msgspec.msgpack.Decoder[Message]) -> None:
        self._end = end
        self._decoder = decoder  # of what the other end says
        self._sending = threading.Lock()
        self._received = bytearray()
        self._waiting = bytearray()

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, message: Message) -> None:
        """Wait until it is on its way, if somebody listens."""
        with self._sending, contextlib.suppress(OSError):
            self._end.sendall(_framed(message))

    def post(self, message: Message) -> None:
        """Send without waiting.  A process that hangs does not read: what finds no room waits for the next `flush`."""
        self._waiting += _framed(message)
        self.flush()

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            while self._waiting:
                sent = self._end.send(self._waiting, socket.MSG_DONTWAIT)
                del self._waiting[:sent]

    def messages(self) -> Iterator[Message]:
        """Wait for messages until the other end is gone."""
        while chunk := self._read():
            self._received += chunk
            yield from self._complete()

    def arrived(self) -> list[Message] | None:
        """What a look without waiting finds; None once the other end is gone."""
        try:
            chunk = self._end.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self._received += chunk
        return list(self._complete()) if chunk else None

    def close(self) -> None:
        self._end.close()

    def _read(self) -> bytes:
        try:
            return self._end.recv(65536)
        except OSError:
            return b""

    def _complete(self) -> Iterator[Message]:
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            end = _LENGTH.size + length
            if len(self._received) < end:
                return
            data = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            yield self._decoder.decode(data)


def describe_end(code: int, *, out_of_memory: bool = False) -> str:
    """How a process ended, from its exit code as `subprocess` tells it.

    >>> describe_end(-9), describe_end(3), describe_end(-9, out_of_memory=True)
    ('killed by SIGKILL', 'exited with code 3', 'killed by SIGKILL: the system was out of memory')
    """
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if out_of_memory and -code == signal.SIGKILL:
        return f"killed by {name}: the system was out of memory"
    return f"killed by {name}"


def _framed(message: Message) -> bytes:
    data = _encoder.encode(message)
    return _LENGTH.pack(len(data)) + data
