"""Messages between our own processes, over a socket; and the end of a process: killing it with its group, and in words."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import threading
from collections.abc import Iterator

import msgspec

__all__ = ["Garbled", "Line", "Message", "describe_end", "has_ended", "kill_group"]

_LENGTH = struct.Struct("<I")
_LONGEST = 1 << 28  # bytes of a message: nothing that we say comes near
_encoder = msgspec.msgpack.Encoder()


class Message(msgspec.Struct, frozen=True, tag=True):
    """Something one process tells another."""


class Garbled(Exception):
    """What came over a line is not what the other end would say: a handler wrote to a file that it did not open."""


class Line:
    """One end of a stream socket that carries messages.  Any thread may send; one receives."""

    def __init__(self, end: socket.socket, decoder: msgspec.msgpack.Decoder[Message]) -> None:
        self._end = end
        self._decoder = decoder  # of what the other end says
        self._sending = threading.Lock()
        self._received = bytearray()
        self._waiting = bytearray()
        self._garbled: Garbled | None = None

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
        """Wait for messages until the other end is gone, or as good as gone."""
        with contextlib.suppress(Garbled):
            while chunk := self._read():
                self._received += chunk
                yield from self._complete()

    def arrived(self) -> list[Message] | None:
        """What a look without waiting finds; None once the other end is gone.  May raise `Garbled`."""
        if self._garbled is not None:
            raise self._garbled
        try:
            chunk = self._end.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not chunk:
            return None
        self._received += chunk
        messages: list[Message] = []
        try:
            messages.extend(self._complete())
        except Garbled as error:
            if not messages:
                raise
            self._garbled = error  # what came before it counts
        return messages

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
            if length > _LONGEST:
                raise Garbled(f"a message of {length:,} bytes")
            if len(self._received) < end:
                return
            data = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            try:
                message = self._decoder.decode(data)
            except msgspec.DecodeError as error:
                raise Garbled(str(error)) from None
            yield message


def has_ended(pid: int) -> bool:
    """Whether a child of ours has ended.  It is not waited for: until then its number stays its own."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # a handler waited for whatever child there was
        return True


def kill_group(pid: int) -> None:
    """Kill a child of ours that was not waited for yet, and what it started, as far as that stayed in its group."""
    for kill in (os.kill, os.killpg):  # it may have left its group
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


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
