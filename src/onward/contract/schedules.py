"""The part of the contract for schedules: what is booked ahead, by any number of processes, each tick once.

A schedule is one row.  Its specification is sealed: the store keeps the bytes and reads none of them.  Every change of a row
compares its ``version`` and raises it in the same statement: of two processes that saw the same row, one changes it, and the
other finds that it came second and looks again.  A lost answer needs no care for the same reason.

    schedules         Return every row, and the instant at which the store read them.
    change_schedule   In one transaction: compare the version (0: there must be no such row), write or delete the row, remove
                      the jobs of ``take_back`` that have not begun, store ``envelopes`` as a repeated enqueue does (an id
                      that is known, live or finished, is not stored again).  False: the version is another; nothing is
                      written.
    take_back         Remove jobs that have not begun: no live job was ever claimed (delivery 0) and none is executing.
                      Removed, not cancelled: the same id may be stored again.  Returns the ids of those it removed.
    schedules_seen    Say that these rows are declared by a running process: moves ``seen_at`` to now, and no version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from onward.job.envelope import Envelope

__all__ = ["Origin", "ScheduleChange", "ScheduleRow", "ScheduleRows", "Schedules"]

Origin = Literal["code", "runtime"]


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as the store knows it, its specification still sealed.  Instants are microseconds UTC."""

    name: str
    sealed: bytes
    fingerprint: str
    origin: Origin
    declared_at: int  # when the process that declared it started
    booked_until: int  # every tick up to here is booked, or was missed
    version: int = 0  # counts the changes; what a change says of it is not looked at
    paused_at: int | None = None
    seen_at: int = 0  # when a running process declared it last
    missed: int = 0


class ScheduleRows(msgspec.Struct, frozen=True, kw_only=True):
    """All schedules, by name, and the store's clock when it read them."""

    now: int
    rows: list[ScheduleRow]


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one schedule, applied if its version is still the one that was seen."""

    name: str
    version: int  # the one that was seen; 0: there must be no such schedule
    row: ScheduleRow | None  # what it becomes; None: it is deleted
    take_back: Sequence[str] = ()
    envelopes: Sequence[Envelope] = ()


@runtime_checkable
class Schedules(Protocol):
    """A store that keeps schedules."""

    def schedules(self) -> ScheduleRows: ...

    def change_schedule(self, change: ScheduleChange) -> bool: ...

    def take_back(self, ids: Sequence[str]) -> Sequence[str]: ...

    def schedules_seen(self, names: Sequence[str]) -> None: ...
