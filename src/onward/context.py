"""What a handler may know about its run, and the few things it may say while it runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

__all__ = ["JobContext"]


class JobContext:
    """Filled in for a handler whose first parameter asks for it.

    ``delivery`` is the fencing token: it grows with every claim of this job, so a system downstream that remembers the
    highest it has seen can refuse a worker that woke up late.
    """

    __slots__ = (
        "_cancelled",
        "_lost",
        "_payload",
        "_report",
        "attempt",
        "deadline",
        "delivery",
        "id",
        "job",
        "max_retries",
        "meta",
        "name",
        "queue",
    )

    def __init__(
        self,
        *,
        id: str,  # noqa: A002  the word users know
        job: str,
        name: str,
        queue: str,
        attempt: int,
        max_retries: int,
        payload: bytes | msgspec.Raw,
        meta: dict[str, Any],
        delivery: int,
        deadline: datetime | None = None,
        report: Callable[[float, str | None], bool] | None = None,
    ) -> None:
        self.id = id
        self.job = job
        self.name = name
        self.queue = queue
        self.attempt = attempt
        self.max_retries = max_retries
        self._payload = payload
        self.meta = meta
        self.delivery = delivery
        self.deadline = deadline
        self._report = report
        self._cancelled = False
        self._lost = False

    @property
    def payload(self) -> Any:
        """The arguments as plain data, by parameter name."""
        return msgspec.json.decode(self._payload)

    @property
    def is_last_attempt(self) -> bool:
        """Whether a failure now would dead-letter the job."""
        return self.attempt > self.max_retries

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for this run to stop, or it can no longer be settled: wind up and return."""
        return self._cancelled or self._lost

    @property
    def lost(self) -> bool:
        """Whether this run's lease is known to be lost: another worker may be running the job."""
        return self._lost

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Note how far the run has come, between 0 and 1.  Everybody who looks at the job can see it."""
        if not 0 <= fraction <= 1:
            raise ValueError(f"progress must lie between 0 and 1, not {fraction!r}")
        if self._report is not None and not self._report(fraction, note):
            self._lost = True

    def ask_to_stop(self) -> None:
        """Told by the worker: the job was cancelled."""
        self._cancelled = True

    def lose(self) -> None:
        """Told by the worker: the lease is lost."""
        self._lost = True

    def __repr__(self) -> str:
        return f"<JobContext {self.name} {self.id} attempt {self.attempt}>"
