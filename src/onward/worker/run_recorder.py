"""Somebody outside the process who must know what it has begun, even when it can say nothing any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from onward.worker.inflight import Key

__all__ = ["NoRecorder", "RunRecorder"]


class RunRecorder(Protocol):
    """Told before the fact: what a witness does not know has not happened."""

    @property
    def capacity(self) -> int:
        """How many leases may be in inflight."""
        ...

    def name(self, owner: str, successor: str = "") -> None:
        """The session is about to be opened under this name, or adopted by a successor."""
        ...

    def beat(self) -> None:
        """The pump is alive."""
        ...

    def begin(self, key: Key, deadline: float = ..., pid: int = ...) -> None:
        """A handler is about to be called; ``deadline`` on the boot-time clock, ``pid`` of a process of its own."""
        ...

    def program(self, key: Key, pid: int) -> None:
        """A handler waits for a program that leads a group of its own; 0: for none any more."""
        ...

    def left(self, key: Key) -> None:
        """A handler has returned."""
        ...

    def end(self, keys: Iterable[Key]) -> None:
        """Their settlements were answered."""
        ...


class NoRecorder:
    """A worker inside a program has no witness: if the program dies, all that it held counts as begun."""

    capacity = 1_000_000

    def name(self, owner: str, successor: str = "") -> None: ...

    def beat(self) -> None: ...

    def begin(self, key: Key, deadline: float = float("inf"), pid: int = 0) -> None: ...

    def program(self, key: Key, pid: int) -> None: ...

    def left(self, key: Key) -> None: ...

    def end(self, keys: Iterable[Key]) -> None: ...
