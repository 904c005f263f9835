"""The messages between a supervisor and the template of its worker processes (`onward.supervisor.template`)."""

from __future__ import annotations

import msgspec

from onward.base.ipc import IpcMessage
from onward.supervisor.options import ProcessOptions

__all__ = ["DECODE", "CannotImport", "ForkWorker", "MustNotFork", "TemplateReady", "WorkerForked", "WorkerNotForked"]


class ForkWorker(IpcMessage, frozen=True):
    """Asks for a worker process.  With it come the process's channel and its run board."""

    number: int
    options: ProcessOptions


class TemplateReady(IpcMessage, frozen=True):
    """Reports that the application was imported, and that the template can be forked."""


class CannotImport(IpcMessage, frozen=True):
    """Reports that the import has failed: a fresh interpreter will say how."""


class MustNotFork(IpcMessage, frozen=True):
    """Reports why the template must not be forked, although the application was imported: it can only become a worker."""

    reason: str


class WorkerForked(IpcMessage, frozen=True):
    """Reports the pid of a forked worker process.  Its parent has ended: it is a child of the supervisor by now."""

    number: int
    pid: int


class WorkerNotForked(IpcMessage, frozen=True):
    """Reports why a worker process was not forked.  ``unsafe``: none must be, what the import has set up forbids it."""

    number: int
    reason: str
    unsafe: bool


FromSupervisor = ForkWorker
FromTemplate = TemplateReady | CannotImport | MustNotFork | WorkerForked | WorkerNotForked

DECODE: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(FromSupervisor | FromTemplate)
