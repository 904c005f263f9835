"""Dead jobs in memory, in the order of name, fingerprint and id."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

from onward.contract.deaths import DEATH_GROUPS, Death, DeathGroup

__all__ = ["MemoryDeaths"]


class MemoryDeaths:
    """The ids of dead jobs by group."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], list[str]] = {}
        self._order: list[tuple[str, str]] = []
        self._group_of: dict[str, tuple[str, str]] = {}

    def add(self, job_id: str, job: str, fingerprint: str) -> None:
        """Add a dead job; it leaves the group in which an earlier job of its id died."""
        self.remove(job_id)
        group = job, fingerprint
        if group not in self._groups:
            self._groups[group] = []
            insort(self._order, group)
        insort(self._groups[group], job_id)
        self._group_of[job_id] = group

    def remove(self, job_id: str) -> None:
        """Remove a job, if it is here."""
        group = self._group_of.pop(job_id, None)
        if group is None:
            return
        ids = self._groups[group]
        del ids[bisect_left(ids, job_id)]
        if not ids:
            del self._groups[group]
            del self._order[bisect_left(self._order, group)]

    def fingerprint_of(self, job_id: str) -> str | None:
        """Return the fingerprint of a dead job; None if it is not dead."""
        group = self._group_of.get(job_id)
        return None if group is None else group[1]

    def look(self, at_most: int, died_at: Callable[[str], int]) -> list[DeathGroup]:
        """Return the first groups, each counted up to a limit."""
        return [
            DeathGroup(
                job=job,
                fingerprint=fingerprint,
                count=min(len(ids), at_most),
                first=Death(ids[0], died_at(ids[0])),
                last=Death(ids[-1], died_at(ids[-1])),
            )
            for job, fingerprint in self._order[:DEATH_GROUPS]
            if (ids := self._groups[job, fingerprint])
        ]
