"""The audit trail in memory: entries by their numbers, and those of each job."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count, islice
from operator import attrgetter

import msgspec

from onward.backend import KEPT_FOR, Audit, AuditEntry, AuditQuery, entries_for
from onward.base.clock import SECOND

__all__ = ["AuditTable"]

_KEPT_FOR = round(KEPT_FOR.total_seconds() * SECOND)


class AuditTable:
    """Every entry."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._entries: dict[str, list[AuditEntry]] = {}  # by the id of their job, in the order in which they came

    def add(self, audit: Audit, changed: Collection[str] | None) -> None:
        """Store the entries of an act, by the ids of the jobs that it changed; None: it changed nothing."""
        for entry in entries_for(audit, changed):
            numbered = msgspec.structs.replace(entry, number=next(self._numbers))
            self._entries.setdefault(entry.job_id, []).append(numbered)

    def of(self, job_id: str) -> list[AuditEntry]:
        """Return the entries of a job, the oldest first."""
        return sorted(self._entries.get(job_id, ()), key=attrgetter("place"))

    def page(self, query: AuditQuery) -> list[AuditEntry]:
        """Return a page, the newest first."""
        jobs = self._entries if query.job_id is None else [query.job_id]
        found = (entry for job_id in jobs for entry in self._entries.get(job_id, ()) if query.takes(entry))
        return sorted(found, key=attrgetter("place"), reverse=True)[: query.limit]

    def forget(self, job_id: str) -> None:
        """Remove the entries of a job."""
        self._entries.pop(job_id, None)

    def drop_old(self, now: int, limit: int) -> None:
        """Remove entries of no job whose time is over."""
        kept = self._entries.get("", [])
        for entry in list(islice((each for each in kept if each.at <= now - _KEPT_FOR), limit)):
            kept.remove(entry)
