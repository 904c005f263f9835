"""The messages between a worker and its template: `onward.worker.template` and `onward.entry.template`.

Some of them carry open files (`onward.base.packets`).  The worker asks over one socket for all; what becomes of a forked
process is told over a socket of its own, which comes with the request, so that each thread of the worker waits for its own
process.
"""

from __future__ import annotations

import msgspec

from onward.base.ipc import IpcMessage

__all__ = ["DECODE", "CannotFork", "Fork", "ForkEnded", "Forked", "NotPreloaded", "Preloaded"]


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

DECODE: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(FromWorker | FromTemplate)
