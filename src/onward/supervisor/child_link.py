"""The worker process's end of the channel: what it reports to its supervisor, and how it obeys.

When the supervisor is gone, its end of the channel is closed.  Then the worker process claims nothing more, gives back what
has not begun, renews its session by itself while it finishes its jobs, and exits at the shutdown time-out in any case.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from onward.backend import Held, Reaped, Renewal
from onward.base.ipc import IpcChannel, IpcMessage
from onward.base.logs import get_logger
from onward.errors import JobTimeout
from onward.supervisor.messages import AdoptSession, Draining, Renewed, Rescued, RescueReported, SessionAdopted, Stop
from onward.supervisor.options import ENGINE_FAILED
from onward.worker.recovery import SessionHandover
from onward.worker.worker import Worker

__all__ = ["Supervised"]

logger = get_logger("onward.worker")


class Supervised:
    """Runs a worker under a supervisor until it has ended."""

    def __init__(self, worker: Worker, channel: IpcChannel, *, rescued: Callable[[Sequence[Reaped]], None]) -> None:
        self._worker = worker
        self._channel = channel
        self._rescued = rescued
        self._told = False
        worker.quota.reached = self._on_quota

    def run(self) -> int:
        """Run the worker.  Returns the exit code."""
        self._worker.start()
        threading.Thread(target=self._listen, name="onward-messages", daemon=True).start()
        self._worker.wait()
        if self._worker.cause_of_death is not None:
            os._exit(ENGINE_FAILED)  # without waiting: handlers still run, and no thread will settle them
        return 0

    def _listen(self) -> None:
        for message in self._channel.messages():
            self._obey(message)
        self._orphaned()

    def _obey(self, message: IpcMessage) -> None:
        match message:
            case Renewed(owner=owner, asked=asked):
                alive, asked_to_stop = message.alive, message.cancel_requested
                renewal = Renewal(alive=alive, cancel_requested=asked_to_stop, sampler=message.sampler)
                self._worker.renewed(owner, asked, renewal)
            case Stop():
                self._worker.drain()
            case Rescued(number=number, reaped=reaped):
                try:
                    self._rescued(reaped)
                except Exception:
                    logger.exception("jobs of a dead process were given back, but not reported: %d", len(reaped))
                self._channel.send(RescueReported(number))
            case AdoptSession():
                self._take_over(message)

    def _take_over(self, message: AdoptSession) -> None:
        late = JobTimeout("the job ignored its time-out, and its process was killed")
        verdicts: dict[Held, JobTimeout | None] = dict.fromkeys(message.interrupted)
        verdicts |= dict.fromkeys(message.overdue, late)
        self._worker.take_over(
            SessionHandover(message.owner, verdicts, adopted=lambda: self._channel.send(SessionAdopted(message.owner)))
        )

    def _on_quota(self, reason: str, done: bool) -> None:
        if not self._told:
            self._told = True
            self._channel.send(Draining(reason, done))
            self._worker.drain()

    def _orphaned(self) -> None:
        timeout = self._worker.options.shutdown_timeout
        logger.warning("the supervisor is gone: this process finishes its jobs and exits within %g s", timeout)
        self._worker.drain()
        if not self._worker.wait(timeout):
            os._exit(0)
