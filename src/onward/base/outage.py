"""Logging an outage: a line when it begins, one a minute while it lasts, and one when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable

from onward.base.durations import spoken
from onward.base.logs import QuietLogger

__all__ = ["Outage"]

_EVERY = 60.0


class Outage:
    """Whether the store answers one thread, and what was logged about it."""

    def __init__(self, logger: QuietLogger, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger = logger
        self._clock = clock
        self._began: float | None = None
        self._told = 0.0

    @property
    def lasts(self) -> bool:
        return self._began is not None

    def failed(self, error: BaseException) -> None:
        """Log, if it is time: a call was not answered."""
        now = self._clock()
        kind = type(error).__name__
        if self._began is None:
            self._began = self._told = now
            self._logger.warning(
                "the store did not answer (%s: %s); trying again until it does",
                kind,
                error,
                extra={"event": "store.away"},
            )
        elif now - self._told >= _EVERY:
            self._told = now
            self._logger.warning(
                "the store has not answered for %s (%s: %s)",
                spoken(now - self._began),
                kind,
                error,
                extra={"event": "store.still_away"},
            )

    def over(self) -> None:
        """Log the end of the outage, if there was one: a call was answered."""
        if self._began is not None:
            length = self._clock() - self._began
            self._logger.warning("the store is back after %s", spoken(length), extra={"event": "store.back"})
            self._began = None
