"""Pausing calls of a store that fails: after five errors in a row the pump does not call it for a minute, then calls it
once.

Only a store that answers with errors opens the circuit.  A store that cannot be reached has no load that a pause could
reduce, and work should go on within seconds of its return, so reconnecting has a short back-off of its own.
Failures of handlers never count.
"""

from __future__ import annotations

from onward.base.backoff import doubling, jittered
from onward.errors import BackendError, BackendUnavailable

__all__ = ["StoreBreaker"]

_ERRORS, _OPEN_FOR = 5, 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class StoreBreaker:
    """Counts consecutive errors and says how long to wait before the next try."""

    def __init__(self, *, errors: int = _ERRORS, open_for: float = _OPEN_FOR) -> None:
        self._limit = errors
        self._open_for = open_for
        self._errors = 0
        self._outages = 0

    @property
    def open(self) -> bool:
        return self._errors >= self._limit

    def success(self) -> None:
        self._errors = self._outages = 0

    def failure(self, error: BackendError) -> float:
        """Count an error.  Returns the seconds until the next try, jittered: workers must not all try at the same moment."""
        if not isinstance(error, BackendUnavailable):
            self._errors += 1
            if self.open:
                return self._open_for
        self._outages += 1
        return jittered(doubling(_FIRST_PAUSE, self._outages, _LONGEST_PAUSE))
