"""The events that the parts of a worker report to it.  `Worker` implements them; any thread may call them."""

from __future__ import annotations

from typing import Protocol

from onward.attempt.attempt import Attempt
from onward.backend import Renewal
from onward.worker.inflight import Work
from onward.worker.milestones import Milestones

__all__ = ["WorkerEvents"]


class WorkerEvents(Protocol):
    """The events of one worker, and the milestones that tests wait on."""

    milestones: Milestones

    def on_started(self, work: Work) -> None:
        """Record that a handler is about to be called."""

    def on_finished(self, work: Work, attempt: Attempt) -> None:
        """Settle an attempt in the next turn."""

    def on_cancel_requested(self, work: Work) -> None:
        """Give back a job that waits, or stop its handler."""

    def on_lease_lost(self, work: Work) -> None:
        """Tell the handler of a job that its lease is lost."""

    def on_renewal(self, owner: str, renewal: Renewal) -> None:
        """Act on what the store answered to a renewal."""

    def on_fresh(self) -> None:
        """Wake the threads that waited for the session to be renewed."""

    def on_died(self, error: BaseException) -> None:
        """End the worker: a thread of its engine has died."""
