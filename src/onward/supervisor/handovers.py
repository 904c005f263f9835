"""Sessions of processes that were killed with overdue jobs, until another process has adopted them.

Only a worker process knows what a failed attempt of a job leads to: a retry after a while, or a dead letter.  So the jobs
that ignored their time-out are not given back but left to an heir, who settles them as failed.  If the heir dies before it
says that it has them, they wait for the next one; if nobody will come any more, they go back as interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Held
from onward.supervisor.messages import AdoptSession
from onward.supervisor.pending_messages import PendingMessages

__all__ = ["SessionHandovers"]


class SessionHandovers(PendingMessages[str]):
    """By the names of their owners.  Until they are adopted, these sessions have to be kept alive."""

    def leave(self, owners: Sequence[str], overdue: list[Held], interrupted: list[Held]) -> None:
        for owner in owners:
            self.add(owner, AdoptSession(owner=owner, overdue=overdue, interrupted=interrupted))
