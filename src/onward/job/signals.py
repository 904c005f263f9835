"""What a handler may raise or return to say something else than "done" or "failed".

These are the user's words.  What becomes of them is decided in `onward.job.outcome`.
"""

from __future__ import annotations

from onward.base.durations import Duration, seconds
from onward.errors import revive

__all__ = ["Discard", "Retry", "Signal", "Snooze"]


class Signal(Exception):
    """Raise it or return it: both mean the same."""

    def __reduce__(self) -> tuple[object, ...]:
        # By default an exception is rebuilt from its message alone, which the constructors below take for a duration.
        return revive, (type(self), *self.args), self.__dict__


class Retry(Signal):
    """Try again after this long instead of the policy's delay.  It is a failed attempt and burns one.

    >>> Retry(after="10m").after
    600.0
    """

    def __init__(self, after: Duration, message: str = "asked to be retried") -> None:
        super().__init__(message)
        self.after = seconds(after, "Retry(after)")


class Snooze(Signal):
    """Come back later.  It burns no attempt; it lasts at least a second, so that a snoozing job cannot spin."""

    def __init__(self, delay: Duration, message: str = "snoozed") -> None:
        super().__init__(message)
        self.delay = max(1.0, seconds(delay, "Snooze(delay)"))


class Discard(Signal):
    """Give up now: dead-letter the job, whatever is left of its budget."""

    def __init__(self, reason: str = "discarded by its handler") -> None:
        super().__init__(reason)
        self.reason = str(reason)  # an exception is often passed on as the reason
