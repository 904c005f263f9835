"""When a job is not started because the other side is away: what users write, and the pure rule of one process.

Breaker(failures=5, of=20, pause=30, longest=600, on=(ConnectionError, TimeoutError))

    runs go on ──five of the last twenty failed──▶ shut for 30 s ──▶ one run at a time probes ──succeeds──▶ runs go on
                                                        ▲                      │
                                                        └──fails: twice as long, at most 600 s

Each process counts its own runs; that a job is shut is known to the store, so it holds for the whole fleet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from onward.base.clock import SECOND
from onward.base.durations import Duration, seconds
from onward.errors import InvalidLimit, InvalidTime
from onward.job.outcome import is_listed
from onward.job.signals import Retry, Signal

__all__ = ["Breaker", "RecentRuns", "Verdict", "breaker_of"]

_MOST_RUNS = 1_000
_MOST_ERRORS = 1_000  # of a group
_SHORTEST, _LONGEST = 0.1, 86_400.0  # seconds


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """Shuts a job in the whole fleet when too many of its last runs have failed, and probes until one succeeds.

    >>> Breaker(failures=3, of=10, pause="1m", longest="10m", on=ConnectionError).lengths
    (60.0, 600.0)
    """

    failures: int = 5
    """So many failed runs shut the job."""
    of: int = 20
    """Of the last so many runs that ended in one process."""
    pause: Duration = 30
    """How long it is shut the first time; then one run probes."""
    longest: Duration = 600
    """A probe that fails shuts it for twice as long as before, but not longer than this."""
    on: type[BaseException] | tuple[type[BaseException], ...] = Exception
    """The exceptions that count. A run that fails with another one counts like a success: the other side was there."""

    def __post_init__(self) -> None:
        _whole(self.of, "of")
        _whole(self.failures, "failures")
        if self.failures > self.of:
            raise InvalidLimit(
                f"Breaker(failures={self.failures}, of={self.of}) can never shut: give it of={self.failures} or more"
            )
        pause, longest = self.lengths
        if pause > longest:
            raise InvalidLimit(f"Breaker(pause={pause:g}, longest={longest:g}): longest is at least as long as pause")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise InvalidLimit(f"on must be an exception class or a tuple of them, not {self.on!r:.60}")

    @property
    def lengths(self) -> tuple[float, float]:
        """The seconds of ``pause`` and ``longest``."""
        return _length(self.pause, "pause"), _length(self.longest, "longest")

    def blames(self, error: BaseException | None) -> bool:
        """Return whether a run that ended with this error failed because of the other side.

        A `Retry` is judged by its cause, and a group by each error in it; any other signal is the handler's own decision.
        """
        if error is not None and issubclass(type(error), Retry):
            error = error.__cause__
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        return any(is_listed(each, kinds) for each in islice(_with_parts(error), _MOST_ERRORS))


class Verdict(NamedTuple):
    """What follows from one run."""

    shut_for: float | None = None  # seconds; 0: open it
    snooze: float | None = None  # seconds until it opens: the run counts for nothing

    @property
    def opens(self) -> bool:
        return self.shut_for == 0


_NOTHING = Verdict()


class RecentRuns:
    """The last runs of one job in one process, and until when the job is known to be shut."""

    def __init__(self, breaker: Breaker) -> None:
        self.breaker = breaker
        self.shut_until = 0
        self._pause, self._longest = breaker.lengths
        self._failed: deque[bool] = deque(maxlen=breaker.of)

    def judge(self, *, blamed: bool, probe: float, now: int) -> Verdict:
        """Count a run that has ended.  ``probe``: the seconds for which the job was shut before it, if it was a probe."""
        if probe:
            return self._shut(min(2 * probe, self._longest), now) if blamed else self._open()
        if blamed and self.shut_until > now:
            return Verdict(snooze=(self.shut_until - now) / SECOND)
        self._failed.append(blamed)
        if blamed and sum(self._failed) >= self.breaker.failures:
            return self._shut(self._pause, now)
        return _NOTHING

    def _shut(self, length: float, now: int) -> Verdict:
        self._failed.clear()
        self.shut_until = now + round(length * SECOND)
        return Verdict(shut_for=length)

    def _open(self) -> Verdict:
        self._failed.clear()
        self.shut_until = 0
        return Verdict(shut_for=0)


def breaker_of(given: Any, job: str) -> Breaker:
    """Return what ``breaker=`` was given, or raise."""
    if not isinstance(given, Breaker):
        raise InvalidLimit(f"{job}: breaker takes Breaker(failures=…, of=…, pause=…), not {given!r:.60}")
    return given


def _with_parts(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and, if it is a group, all that it is made of; without signals."""
    left = [] if error is None else [error]
    while left:
        each = left.pop()
        if not issubclass(type(each), Signal):
            yield each
        if issubclass(type(each), BaseExceptionGroup):
            left += reversed(each.exceptions)  # type: ignore[attr-defined]


def _whole(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_RUNS:
        raise InvalidLimit(f"{what} must be a whole number from 1 to {_MOST_RUNS:,}, not {value!r:.60}")


def _length(value: Any, what: str) -> float:
    try:
        length = seconds(value, what)
    except InvalidTime as error:
        raise InvalidLimit(str(error)) from None
    if not _SHORTEST <= length <= _LONGEST:
        raise InvalidLimit(f"{what} must be from {_SHORTEST:g} s to a day, not {value!r:.60}")
    return length
