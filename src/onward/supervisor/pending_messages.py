"""Messages for any one worker process, until it reports that it has acted: if it dies before, another process gets them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from onward.base.ipc import IpcMessage
from onward.supervisor.process import WorkerProcess

__all__ = ["PendingMessages"]

K = TypeVar("K", bound=Hashable)


class PendingMessages(Generic[K]):
    """Messages by key, each with the process that it was sent to."""

    def __init__(self) -> None:
        self._open: dict[K, IpcMessage] = {}
        self._given_to: dict[K, WorkerProcess] = {}

    def add(self, key: K, message: IpcMessage) -> None:
        self._open[key] = message

    def assign(self, process: WorkerProcess) -> None:
        """Send a process all messages that no other process has."""
        for key, message in self._open.items():
            if key not in self._given_to:
                self._given_to[key] = process
                process.tell(message)

    def done(self, key: K) -> None:
        self._open.pop(key, None)
        self._given_to.pop(key, None)

    def died(self, process: WorkerProcess) -> None:
        self._given_to = {key: each for key, each in self._given_to.items() if each is not process}

    def open(self) -> list[K]:
        return list(self._open)

    def give_up(self) -> list[K]:
        """Forget all messages: no process will act on them.  Returns their keys."""
        keys = list(self._open)
        self._open, self._given_to = {}, {}
        return keys
