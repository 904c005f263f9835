"""The schedules of the model: a dictionary of rows, and the jobs that are booked and taken back with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from msgspec.structs import replace

from onward.backend import Enqueued, Note, ScheduleChange, ScheduleRow, ScheduleRows
from onward.job.envelope import Envelope
from onward.testing.machine.model_job import ModelJob

__all__ = ["ModelSchedules"]


class ModelSchedules:
    """The verbs of `Schedules`, for the model."""

    live: dict[str, ModelJob]
    written: dict[str, dict[str, Note]]

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, ScheduleRow] = {}

    @property
    @abstractmethod
    def now(self) -> int: ...

    @abstractmethod
    def _add(self, envelope: Envelope, *, retried: bool = False) -> Enqueued: ...

    def schedules(self) -> ScheduleRows:
        return ScheduleRows(now=self.now, rows=[row for _, row in sorted(self.rows.items())])

    def change_schedule(self, change: ScheduleChange) -> bool:
        if self.version_of(change.name) != change.version:
            return False
        if change.row is None:
            del self.rows[change.name]
        else:
            self.rows[change.name] = replace(change.row, version=change.version + 1, seen_at=self.now)
        self.take_back(change.take_back)
        for envelope in change.envelopes:
            self._add(envelope, retried=True)
        return True

    def version_of(self, name: str) -> int:
        return self.rows[name].version if name in self.rows else 0

    def take_back(self, ids: Sequence[str]) -> Sequence[str]:
        removed = []
        for job_id in ids:
            if job_id in self.live and self.live[job_id].waiting and self.live[job_id].delivery == 0:
                del self.live[job_id]
                self.written.pop(job_id, None)
                removed.append(job_id)
        return removed

    def schedules_seen(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.rows:
                self.rows[name] = replace(self.rows[name], seen_at=self.now)
