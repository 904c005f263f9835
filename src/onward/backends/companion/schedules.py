"""Schedules of a broker with a companion store: the store keeps them, and the broker gets messages about what they book.

The store is written first.  A process that dies before the messages are put leaves jobs without a message, which the sweep
finds.  The message about a job that was taken back stays in the broker.  The process that receives it removes it: the store
does not know the job, and its letter says that a schedule booked it.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Audit, ScheduleChange, ScheduleRows, Schedules
from onward.backends.companion.putting import Putter
from onward.base.interruption import uninterrupted
from onward.contract.companion import CompanionStore
from onward.errors import Unsupported

__all__ = ["CompanionSchedules"]


class CompanionSchedules:
    """The `Schedules` half of the backend."""

    store: CompanionStore
    _putter: Putter

    def schedules(self) -> ScheduleRows:
        return self._scheduling.schedules()

    def change_schedule(self, change: ScheduleChange, *, audit: Audit = ()) -> bool:
        """Change it in the store, then put the messages.  If the broker cannot be reached, a sweep puts them."""
        with uninterrupted():
            changed = self._scheduling.change_schedule(change, audit=audit)
            if changed:
                self._putter.put_waiting(envelope.id for envelope in change.envelopes)
            return changed

    def take_back(self, ids: Sequence[str]) -> Sequence[str]:
        return self._scheduling.take_back(ids)

    def schedules_seen(self, names: Sequence[str]) -> None:
        self._scheduling.schedules_seen(names)

    @property
    def _scheduling(self) -> Schedules:
        if not isinstance(self.store, Schedules):
            raise Unsupported(
                f"the store beside the broker, {type(self.store).__name__}, keeps no schedules: use another"
            )
        return self.store
