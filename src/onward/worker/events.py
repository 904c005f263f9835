"""The events that the parts of a worker report to it, from any thread (`Worker` implements them); and a one-time event."""

from __future__ import annotations

import threading
from typing import Protocol

from onward.attempt.attempt import Attempt
from onward.telemetry import Milestones
from onward.worker.inflight import Work
from onward.worker.session import SessionEvents

__all__ = ["OneTimeEvent", "WorkerEvents"]


class WorkerEvents(SessionEvents, Protocol):
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


class OneTimeEvent:
    """An event that happens once.

    An `Event` is not enough: a signal handler that waits on it may have interrupted a thread that was about to wait on it
    too, and then waits for a lock that its own thread holds.
    """

    def __init__(self) -> None:
        self._turnstile = threading.Lock()  # held until it has happened
        self._turnstile.acquire()
        self._setting = threading.Lock()
        self._happened = False

    def is_set(self) -> bool:
        return self._happened

    def set(self) -> None:
        with self._setting:
            if not self._happened:
                self._happened = True
                self._turnstile.release()

    def wait(self, timeout: float) -> bool:
        """Wait until the event has happened, at most ``timeout`` seconds."""
        if not self._happened and self._turnstile.acquire(timeout=max(0.0, min(timeout, threading.TIMEOUT_MAX))):
            self._turnstile.release()
        return self._happened
