"""Schedules in memory, and the jobs that are booked for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

import msgspec

from onward.backend import Audit, Enqueued, Envelope, ScheduleChange, ScheduleRow, ScheduleRows
from onward.backends.memory.store import MemoryStore
from onward.backends.schedules import following
from onward.job.states import State

__all__ = ["MemorySchedules"]


class MemorySchedules:
    """The `Schedules` half of the backend."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    @abstractmethod
    def _add(self, envelope: Envelope, now: int, *, retried: bool = False) -> Enqueued: ...

    def schedules(self) -> ScheduleRows:
        with self._writing() as now:
            rows = self._store.schedules
            return ScheduleRows(now=now, rows=[rows[name] for name in sorted(rows)])

    def change_schedule(self, change: ScheduleChange, *, audit: Audit = ()) -> bool:
        with self._writing() as now:
            if not self._compare_and_set(change, now):
                return False
            _remove(self._store, change.take_back)
            for envelope in change.envelopes:
                self._add(envelope, now, retried=True)
            self._store.audit.add(audit, ())
            return True

    def take_back(self, ids: Sequence[str]) -> Sequence[str]:
        with self._writing():
            return _remove(self._store, ids)

    def schedules_seen(self, names: Sequence[str]) -> None:
        with self._writing() as now:
            for name in names:
                if (row := self._store.schedules.get(name)) is not None:
                    self._store.schedules[name] = msgspec.structs.replace(row, seen_at=now)

    def _compare_and_set(self, change: ScheduleChange, now: int) -> bool:
        stored = self._store.schedules.get(change.name)
        if (0 if stored is None else stored.version) != change.version:
            return False
        if change.row is None:
            del self._store.schedules[change.name]
        else:
            self._store.schedules[change.name] = _written(change.row, following(change.version), now)
        return True


def _remove(store: MemoryStore, ids: Sequence[str]) -> list[str]:
    removed = []
    for job_id in ids:
        job = store.live.get(job_id)
        if job is not None and job.state is not State.EXECUTING and job.delivery == 0:
            store.remove(job)
            store.notes.pop(job_id, None)
            store.audit.forget(job_id)
            removed.append(job_id)
    return removed


def _written(row: ScheduleRow, version: int, now: int) -> ScheduleRow:
    return msgspec.structs.replace(row, version=version, seen_at=now, damage=None)
