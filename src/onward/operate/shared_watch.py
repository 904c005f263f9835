"""One watch of a store for all people in a process who watch it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from onward.base import forks
from onward.errors import OnwardError
from onward.operate.watching import StoreWatch, WatchedApplication, WatchedStore

__all__ = ["SharedLook", "SharedWatch"]

_COUNTED = 10_000  # of one state in one queue; "or more" beyond
_OLDEST = 10.0  # seconds: what was seen before that is not shown while a new look is made


class SharedLook(NamedTuple):
    """What was seen last, and what has kept a newer look from being made."""

    seen: WatchedStore | None  # None: no look has succeeded yet
    number: int  # how many looks have succeeded: a reader that has this number lacks nothing
    error: OnwardError | OSError | None = None  # why the last look failed
    at: float = float("-inf")  # when a look last succeeded, by the clock of the watch


class SharedWatch:
    """Looks when a person asks, at most once in ``interval`` seconds, however many ask; nobody asks: no look is made.

    Any thread may ask.  One of them looks; the others get what was seen before, and wait only if that is old.  A look that
    fails is told to all until the next one is due: a store in trouble is not asked more often than one that is well.
    """

    def __init__(
        self, app: WatchedApplication, *, interval: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._watch = StoreWatch(app, at_most=_COUNTED, checks_store=True)
        self._interval = interval
        self._clock = clock
        self._last: SharedLook | None = None
        self._next_at = 0.0
        self._begin_anew()
        forks.call_in_child(self._begin_anew)

    def _begin_anew(self) -> None:
        """Make the lock: after a fork, a thread that the child does not have may hold it."""
        self._looking = threading.Lock()

    def look(self) -> SharedLook:
        """Return what was seen last; look, if that is due."""
        last = self._last
        if last is not None and (self._clock() < self._next_at or (self._looking.locked() and self._is_recent(last))):
            return last
        with self._looking:
            if self._last is None or self._clock() >= self._next_at:
                self._last = self._looked()
                self._next_at = self._clock() + self._watch.pause(self._interval)
            return self._last

    def _is_recent(self, last: SharedLook) -> bool:
        return self._clock() - last.at < _OLDEST

    def forget(self) -> None:
        """Look again when the next person asks: an act has changed something."""
        self._watch.forget()
        self._next_at = 0.0

    def _looked(self) -> SharedLook:
        before = self._last or SharedLook(None, 0)
        try:
            return SharedLook(self._watch.look(), before.number + 1, at=self._clock())
        except (OnwardError, OSError) as error:
            return before._replace(error=error)
