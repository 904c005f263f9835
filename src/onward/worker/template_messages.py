"""The messages between a worker and its template: `onward.worker.template` and `onward.entry.template`.

They go over sockets that keep messages apart (SOCK_SEQPACKET), because some of them carry open files.  The worker asks over
one socket for all; what becomes of a forked process is told over a socket of its own, which comes with the request, so that
each thread of the worker waits for its own process.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence

import msgspec

from onward.base.failure import storable
from onward.base.ipc import IpcMessage

__all__ = ["CannotFork", "Fork", "ForkEnded", "Forked", "NotPreloaded", "Preloaded", "receive", "send", "shortened"]

_LONGEST = 1 << 17  # bytes: the text of a problem is cut, to fewer also if each character takes four
_LONGEST_TEXT = 1 << 14  # characters
_MOST_FILES = 2


class Fork(IpcMessage, frozen=True):
    """Asks for a process.  With it come the process's channel, and the socket over which its end is told."""


class Preloaded(IpcMessage, frozen=True):
    """Reports that the application was imported, and that the template can be forked; or the problem of the import."""

    problem: str | None = None


class NotPreloaded(IpcMessage, frozen=True):
    """Reports why the template must not be forked, although the application was imported."""

    reason: str


class Forked(IpcMessage, frozen=True):
    """Reports the pid of a forked process.  With it comes a file that refers to this process and to no later one."""

    pid: int


class CannotFork(IpcMessage, frozen=True):
    """Reports why the system gave no process."""

    problem: str


class ForkEnded(IpcMessage, frozen=True):
    """Reports the exit code of a forked process, as `subprocess` has it.  Its process group was killed."""

    code: int


FromWorker = Fork
FromTemplate = Preloaded | NotPreloaded | Forked | CannotFork | ForkEnded

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(FromWorker | FromTemplate)


def send(end: socket.socket, message: IpcMessage, files: Sequence[int] = ()) -> None:
    """Send a message with open files.  Raises `OSError` if the other end is gone."""
    socket.send_fds(end, [_encoder.encode(message)], files)


def receive(end: socket.socket) -> tuple[IpcMessage | None, list[int]]:
    """Wait for a message, and return it with the files that came with it; None: the other end is gone."""
    try:
        data, files, _, _ = socket.recv_fds(end, _LONGEST, _MOST_FILES, socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None, []
    if not data:
        for file in files:
            os.close(file)
        return None, []
    return _decoder.decode(data), files


def shortened(text: str) -> str:
    """Cut the beginning of a long text, such as a traceback: the end of it says what is wrong."""
    text = storable(text)
    return text if len(text) <= _LONGEST_TEXT else f"... {text[-_LONGEST_TEXT:]}"
