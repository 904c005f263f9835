"""How long the store has answered without a gap: when a worker may start a lease, and which process may reap others.

A lease may be started only while the contact is *fresh*: the last answered renewal is younger than a lease less a margin, on
a clock that also runs while the machine sleeps, and no call has failed since.

Only a process in contact for one whole lease may give back what dead workers held.  After an outage, a suspended machine or
a step of the clock every session has expired by the store's clock, and the first process to come back would reap processes
that still run.  So a failed call, a pause of this process and a step of its clock each start that lease anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

from onward.base.clock import boottime

__all__ = ["StoreContact", "StoreSweep"]

_NEVER = float("-inf")


class StoreContact:
    """Since when the store has answered, and until when that counts."""

    def __init__(
        self, length: float, *, clock: Callable[[], float] = boottime, wall: Callable[[], float] = time.time
    ) -> None:
        self.length = length
        self.clock = clock
        self.fresh_until = _NEVER
        self.failed_at = _NEVER
        self._margin = min(5.0, length / 6)
        self._wall = wall
        self._since: float | None = None
        self._ahead = wall() - clock()  # how far the wall clock is ahead: a change is a step of it

    def answered(self, asked: float) -> None:
        """Count a call from when it was asked: the answer may have been long on its way."""
        ahead = self._wall() - self.clock()
        paused = asked > self.fresh_until + self._margin  # for longer than a lease
        if self._since is None or paused or abs(ahead - self._ahead) > self._margin:
            self._since = asked
        self._ahead = ahead
        self.fresh_until = max(self.fresh_until, asked + self.length - self._margin)

    def failed(self) -> None:
        """Start nothing, and declare no worker dead, until the store answers again."""
        self.fresh_until = _NEVER
        self.failed_at = self.clock()
        self._since = None

    def stale(self) -> None:
        """Start nothing: the session is dead, but the store does answer."""
        self.fresh_until = _NEVER

    def may_reap(self) -> bool:
        """Return whether a session that has expired by the store's clock is dead."""
        now = self.clock()
        return self._since is not None and now < self.fresh_until and now - self._since >= self.length


class StoreSweep:
    """The sweep that one process does for all workers: it gives back what dead workers held, removes jobs past retention.

    It reaps at most every quarter of a lease and prunes once a minute, while the contact with the store allows it.
    """

    def __init__(
        self,
        contact: StoreContact,
        *,
        reap: Callable[[], object],
        prune: Callable[[], Iterable[object]],
        prune_every: float = 60.0,
    ) -> None:
        self._contact = contact
        self._reap = reap
        self._prune = prune
        self._prune_every = prune_every
        self._next_reap = self._next_prune = 0.0

    def run(self) -> Iterator[None]:
        """Reap and prune if that is due.  Yields between two batches, so that the caller can renew sessions in time."""
        now = self._contact.clock()
        if now >= self._next_reap and self._contact.may_reap():
            self._next_reap = now + self._contact.length / 4  # callers look every third
            self._reap()
        if now >= self._next_prune and self._contact.may_reap():
            self._next_prune = now + self._prune_every
            for _ in self._prune():
                yield
