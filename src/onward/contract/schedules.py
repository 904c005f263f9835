"""The part of the contract for schedules: what is booked ahead, by any number of processes, each tick once.

A schedule is one row.  Its specification is sealed: the store keeps the bytes and reads none of them.  Every change of a row
compares its ``version`` and raises it in the same statement: of two processes that saw the same row, one changes it, and the
other finds that it came second and looks again.  A lost answer needs no care for the same reason.

    schedules         Return every row, by name, and the instant at which the store read them.
    change_schedule   In one transaction: compare the version (0: there must be no such row), write or delete the row, remove
                      the jobs of ``take_back`` that have not begun, store ``envelopes`` as a repeated enqueue does (an id
                      that is known, live or finished, is not stored again).  False: the version is another; nothing is
                      written.
    take_back         Remove jobs that have not begun: they wait, and none was ever claimed (delivery 0).  Removed, not
                      cancelled: the same id may be stored again.  Returns the ids of those it removed.
    schedules_seen    Say that these rows are declared by a running process: moves ``seen_at`` to now, and no version.

Every change that writes a row moves its ``seen_at`` to the store's now, too: a row that was just declared is not removed as
one that no process declares.  A name is any text of at most 200 characters without control characters.

Damage.  A row that holds what no process writes is still listed, with what of it is readable, and says in ``damage`` what is
wrong.  Callers show it, and book nothing for it.  A version that no process wrote is listed as `DAMAGED_VERSION`, and a
change that says so meets it: so such a row can be replaced and deleted, by one process, like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from onward.contract.audit import Audit
from onward.job.envelope import Envelope

__all__ = ["DAMAGED_VERSION", "Origin", "ScheduleChange", "ScheduleRow", "ScheduleRows", "Schedules"]

Origin = Literal["code", "runtime"]

DAMAGED_VERSION = -1


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
    seen_at: int = 0  # when a running process declared or changed it last; what a change says of it is not looked at
    missed: int = 0
    damage: str | None = None  # what of the row no process wrote; what a change says of it is not looked at


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

    def __post_init__(self) -> None:
        if self.row is None and self.version == 0:
            raise ValueError(
                f"the schedule {self.name!r} cannot be deleted by version 0, which says that there is none"
            )
        if self.row is not None and self.row.name != self.name:
            raise ValueError(
                f"a change of the schedule {self.name!r} cannot make it {self.row.name!r}: names do not change"
            )


@runtime_checkable
class Schedules(Protocol):
    """A store that keeps schedules."""

    def schedules(self) -> ScheduleRows: ...

    def change_schedule(self, change: ScheduleChange, *, audit: Audit = ()) -> bool: ...

    def take_back(self, ids: Sequence[str]) -> Sequence[str]: ...

    def schedules_seen(self, names: Sequence[str]) -> None: ...
