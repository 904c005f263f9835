"""The sweep that one process does for all workers: it gives back what dead workers held, and removes jobs past retention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from onward.worker.store_contact import StoreContact

__all__ = ["StoreSweep"]


class StoreSweep:
    """Reaps at most every quarter of a lease and prunes once a minute, while the contact with the store allows it."""

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
