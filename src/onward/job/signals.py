"""Signals that a handler may raise or return to say something other than "done" or "failed".

Users write them.  `onward.job.outcome` decides what becomes of a job that did.
"""

from __future__ import annotations

from onward.base.durations import Duration, seconds
from onward.errors import revive

__all__ = ["Discard", "Retry", "Signal", "Snooze", "Throttle"]


class Signal(Exception):
    """The base of all signals.  A handler may raise one or return it: both mean the same."""

    told_by_its_message = True  # not by its place: see `onward.base.fingerprint`

    def __reduce__(self) -> tuple[object, ...]:
        # By default pickle rebuilds an exception from its message alone, which the constructors below take for a duration.
        return revive, (type(self), *self.args), self.__dict__


class Retry(Signal):
    """Try the job again after this long instead of the policy's delay.  The run counts as a failed attempt.

    >>> Retry(after="10m").after
    600.0
    """

    def __init__(self, after: Duration, message: str = "asked to be retried") -> None:
        super().__init__(message)
        self.after: float = seconds(after, "Retry(after)")


class Snooze(Signal):
    """Run the job again later.  It uses up no attempt, and waits at least a second, so that it cannot run all the time."""

    def __init__(self, delay: Duration, message: str = "snoozed") -> None:
        super().__init__(message)
        self.delay: float = max(1.0, seconds(delay, "Snooze(delay)"))


class Throttle(Snooze):
    """Run the job again later, and start no other of its lane until then, in the whole fleet: "too many requests".

    The lane is that of the job's key, if its `Limit` has one, else all of the job.  A job without a limit is only snoozed.

    >>> Throttle(after="1m").delay
    60.0
    """

    def __init__(self, after: Duration, message: str = "throttled") -> None:
        super().__init__(seconds(after, "Throttle(after)"), message)


class Discard(Signal):
    """Give the job up now: it becomes a dead letter, whatever is left of its budget."""

    def __init__(self, reason: str = "discarded by its handler") -> None:
        super().__init__(reason)
        self.reason: str = str(reason)  # an exception is often passed on as the reason
