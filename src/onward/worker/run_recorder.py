"""The record of the runs that a worker process has begun, for its supervisor to read after the process has died."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from onward.backend import Held

__all__ = ["RunRecorder"]


class RunRecorder(Protocol):
    """Written before the fact: a run that is not recorded has not begun.  `onward.supervisor.run_board` is one."""

    @property
    def capacity(self) -> int:
        """How many leases a worker may hold."""

    def name(self, owner: str, successor: str = "") -> None:
        """Record the name of a session that is about to be opened, or to be adopted by a successor."""

    def template(self, pid: int) -> None:
        """Record the process from which isolated processes are forked; 0: there is none any more."""

    def beat(self) -> None:
        """Record that the pump is alive."""

    def turned(self, seconds: float, events_dropped: int) -> None:
        """Record that the store has answered a turn, how long it took, and how many events were dropped until now."""

    def begin(self, key: Held, deadline: float = ..., pid: int = ...) -> None:
        """Record that a handler is about to be called; ``deadline`` on the boot-time clock, ``pid`` of its own process."""

    def program(self, key: Held, pid: int) -> None:
        """Record that a handler waits for a program that leads its own process group; 0: for none any more."""

    def left(self, key: Held) -> None:
        """Record that a handler has returned."""

    def end(self, keys: Iterable[Held]) -> None:
        """Record that the store has answered these settlements."""
