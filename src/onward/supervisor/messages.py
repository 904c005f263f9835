"""What a supervisor and its worker processes tell each other."""

from __future__ import annotations

import msgspec

from onward.backend import Held, Reaped
from onward.base.ipc import IpcMessage
from onward.config import Settings

__all__ = [
    "DECODE_ABOVE", "DECODE_BELOW", "AdoptSession", "Draining", "Failed", "Hello", "Renewed", "RescueReported", "Rescued",
    "SessionAdopted", "Stop",
]  # fmt: skip


class Hello(IpcMessage, frozen=True, kw_only=True):
    """The application was imported: this is its store, and this is what the process serves."""

    settings: Settings
    jobs: list[str]
    queues: list[str]
    files: list[str]  # of its modules, for a supervisor that reloads when one changes


class Failed(IpcMessage, frozen=True, kw_only=True):
    """The application cannot be imported, or cannot be served by a worker.  ``passing``: a later try may succeed."""

    message: str
    code: int
    files: list[str]
    passing: bool = False


class Draining(IpcMessage, frozen=True):
    """The process claims nothing any more.  ``done``: it has done all it was started for; else it wants a replacement."""

    reason: str
    done: bool = False


class SessionAdopted(IpcMessage, frozen=True):
    """The session of a dead process was adopted."""

    owner: str


class RescueReported(IpcMessage, frozen=True):
    """The process has reported a `Rescued` of this number to subscribers."""

    number: int


class Renewed(IpcMessage, frozen=True, kw_only=True):
    """The session was renewed by the supervisor, or is dead."""

    owner: str
    asked: float  # on the boot-time clock
    alive: bool
    cancel_requested: tuple[Held, ...] = ()


class Stop(IpcMessage, frozen=True):
    """Claim nothing any more, finish what runs, exit."""


class Rescued(IpcMessage, frozen=True, kw_only=True):
    """These leases of a dead process were given back: report them to subscribers, and copy dead letters."""

    number: int
    reaped: list[Reaped]


class AdoptSession(IpcMessage, frozen=True, kw_only=True):
    """Adopt the session of a process that was killed: its overdue jobs have failed, its other jobs go back."""

    owner: str
    overdue: list[Held]
    interrupted: list[Held]


DECODE_BELOW: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(
    Hello | Failed | Draining | SessionAdopted | RescueReported
)
DECODE_ABOVE: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(Renewed | Stop | Rescued | AdoptSession)
