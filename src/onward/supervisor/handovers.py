"""Sessions of processes that were killed with overdue jobs, until another process has adopted them.

Only a worker process knows what a failed attempt of a job leads to: a retry after a while, or a dead letter.  So the
session of the jobs that ignored their time-out is handed over to another process, which settles them as failed.  If that
process dies before it reports the adoption, the next one gets the session; if none will come any more, its jobs go back as
interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Held
from onward.supervisor.messages import AdoptSession
from onward.supervisor.pending_messages import PendingMessages

__all__ = ["SessionHandovers"]


class SessionHandovers(PendingMessages[str]):
    """Sessions to adopt, by the names of their owners.  Until they are adopted, the store thread renews them."""

    def hand_over(self, owners: Sequence[str], overdue: list[Held], interrupted: list[Held]) -> None:
        for owner in owners:
            self.add(owner, AdoptSession(owner=owner, overdue=overdue, interrupted=interrupted))
