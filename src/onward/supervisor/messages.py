"""The messages between a supervisor and its worker processes."""

from __future__ import annotations

import msgspec

from onward.backend import Held, Reaped
from onward.base.ipc import IpcMessage
from onward.config import Settings

__all__ = [
    "BEGIN",
    "DECODE_ABOVE", "DECODE_BELOW", "AdoptSession", "Draining", "Failed", "Hello", "Renewed", "RescueReported", "Rescued",
    "SessionAdopted", "Stop",
]  # fmt: skip


BEGIN = b"\1"  # comes before all messages to a forked process: the supervisor knows its pid


class Hello(IpcMessage, frozen=True, kw_only=True):
    """Reports that the application was imported, with its store and what the process serves."""

    settings: Settings
    jobs: list[str]
    queues: list[str]
    files: list[str]  # of its modules, for a supervisor that reloads when one changes


class Failed(IpcMessage, frozen=True, kw_only=True):
    """Reports that the application cannot be imported or served.  ``passing``: a later try may succeed."""

    message: str
    code: int
    files: list[str]
    passing: bool = False


class Draining(IpcMessage, frozen=True):
    """Reports that the process claims nothing any more.  ``done``: it needs no replacement, all its work is done."""

    reason: str
    done: bool = False


class SessionAdopted(IpcMessage, frozen=True):
    """Reports that the process has adopted the session of a dead one."""

    owner: str


class RescueReported(IpcMessage, frozen=True):
    """Reports that subscribers were told of the `Rescued` of this number."""

    number: int


class Renewed(IpcMessage, frozen=True, kw_only=True):
    """Tells a process that the supervisor has renewed its session, or that the session is dead."""

    owner: str
    asked: float  # on the boot-time clock
    alive: bool
    cancel_requested: tuple[Held, ...] = ()
    sampler: bool = False  # whether the store is looked at for all processes, now


class Stop(IpcMessage, frozen=True):
    """Tells a process to claim nothing any more, finish what runs, and exit."""


class Rescued(IpcMessage, frozen=True, kw_only=True):
    """Tells a process to report leases of a dead one, which were given back, to subscribers, and to copy dead letters."""

    number: int
    reaped: list[Reaped]


class AdoptSession(IpcMessage, frozen=True, kw_only=True):
    """Tells a process to adopt the session of a killed one: its overdue jobs have failed, its other jobs go back."""

    owner: str
    overdue: list[Held]
    interrupted: list[Held]


DECODE_BELOW: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(
    Hello | Failed | Draining | SessionAdopted | RescueReported
)
DECODE_ABOVE: msgspec.msgpack.Decoder[IpcMessage] = msgspec.msgpack.Decoder(Renewed | Stop | Rescued | AdoptSession)
