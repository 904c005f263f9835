"""Messages for any one worker process, until it reports that it has acted: if it dies before, another process gets them.

Only a worker process knows what a failed attempt of a job leads to: a retry after a while, or a dead letter.  So the
session of the jobs that ignored their time-out is handed over to another process, which settles them as failed.  If that
process dies before it reports the adoption, the next one gets the session; if none will come any more, its jobs go back as
interrupted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from onward.backend import Held
from onward.base.ipc import IpcMessage
from onward.supervisor.messages import AdoptSession
from onward.supervisor.process import WorkerProcess

__all__ = ["PendingMessages", "SessionHandovers"]

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


class SessionHandovers(PendingMessages[str]):
    """Sessions to adopt, by the names of their owners.  Until they are adopted, the store thread renews them."""

    def hand_over(self, owners: Sequence[str], overdue: list[Held], interrupted: list[Held]) -> None:
        for owner in owners:
            self.add(owner, AdoptSession(owner=owner, overdue=overdue, interrupted=interrupted))
