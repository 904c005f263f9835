"""Sessions of processes that were killed with overdue jobs, until another process has adopted them.

Only a worker process knows what a failed attempt of a job leads to: a retry after a while, or a dead letter.  So the jobs
that ignored their time-out are not given back but left to an heir, who settles them as failed.  If the heir dies before it
says that it has them, they wait for the next one; if nobody will come any more, they go back as interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Held
from onward.supervisor.messages import Inherit
from onward.supervisor.process import WorkerProcess

__all__ = ["Bequests"]


class Bequests:
    def __init__(self) -> None:
        self._open: dict[str, Inherit] = {}  # by the owner's name
        self._heirs: dict[str, WorkerProcess] = {}

    def leave(self, owners: Sequence[str], overdue: list[Held], interrupted: list[Held]) -> None:
        for owner in owners:
            self._open[owner] = Inherit(owner=owner, overdue=overdue, interrupted=interrupted)

    def owners(self) -> list[str]:
        """The sessions that have to be kept alive until somebody adopts them."""
        return list(self._open)

    def assign(self, heir: WorkerProcess) -> None:
        for owner, bequest in self._open.items():
            if owner not in self._heirs:
                self._heirs[owner] = heir
                heir.tell(bequest)

    def adopted(self, owner: str) -> None:
        self._open.pop(owner, None)
        self._heirs.pop(owner, None)

    def heir_died(self, process: WorkerProcess) -> None:
        self._heirs = {owner: heir for owner, heir in self._heirs.items() if heir is not process}

    def give_up(self) -> list[str]:
        """Nobody will adopt them any more."""
        owners = list(self._open)
        self._open, self._heirs = {}, {}
        return owners
