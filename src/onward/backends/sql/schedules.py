"""Schedules, where no database decides how: the statements are named alike in every dialect.

Locks: the row of a schedule, then what an enqueue and a removal lock (unique keys, then jobs).  No other verb locks the row
of a schedule, so no transaction that holds a session, a job or a key waits for one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from onward.backend import Audit, Envelope, ScheduleChange, ScheduleRow, ScheduleRows
from onward.backends.damage import set_aside_and_repeat
from onward.backends.schedules import LAST_VERSION, following, readable
from onward.backends.sql.audit import SqlAudit, whether
from onward.backends.sql.rows import Row
from onward.backends.sql.statements import SqlTransaction

__all__ = ["SqlSchedules"]

Result = TypeVar("Result")

_COLUMNS = (
    "name",
    "version",
    "origin",
    "fingerprint",
    "declared_at",
    "booked_until",
    "paused_at",
    "seen_at",
    "missed",
    "sealed",
)


class SqlSchedules(SqlAudit):
    """The `Schedules` half of a backend.  How jobs are stored is for the dialect to say."""

    @abstractmethod
    def _read(self, act: Callable[[Any], Result]) -> Result:
        """Run it in one snapshot."""

    @abstractmethod
    def _write(self, act: Callable[[Any], Result]) -> Result:
        """Run it as one transaction."""

    @abstractmethod
    def _store_unknown(self, tx: Any, envelopes: Sequence[Envelope]) -> None:
        """Store those of them that are neither live nor finished."""

    @set_aside_and_repeat
    def schedules(self) -> ScheduleRows:
        found: list[Row] = self._read(lambda tx: tx.ask("schedules").rows())
        now = found[0][0]  # the clock is in every row, and there is one even if there is no schedule
        rows = [_row(columns) for _, *columns in found if columns[0] is not None]
        return ScheduleRows(now=now, rows=sorted(rows, key=lambda row: row.name))

    @set_aside_and_repeat
    def change_schedule(self, change: ScheduleChange, *, audit: Audit = ()) -> bool:
        def act(tx: SqlTransaction) -> bool:
            if not _compare_and_set(tx, change):
                return False
            if change.take_back:
                self._before_removing(tx, change)
                self._take_back(tx, change.take_back)
            if change.envelopes:
                self._store_unknown(tx, change.envelopes)
            return True

        return self._write(self._audited(act, audit, whether))

    @set_aside_and_repeat
    def take_back(self, ids: Sequence[str]) -> Sequence[str]:
        return self._write(lambda tx: self._take_back(tx, ids)) if ids else []

    @set_aside_and_repeat
    def schedules_seen(self, names: Sequence[str]) -> None:
        if names:
            # In their order: so two processes that see the same ones cannot deadlock.
            self._write(lambda tx: tx.ask("schedules_seen", names=sorted(set(names))).rows())

    def _before_removing(self, tx: Any, change: ScheduleChange) -> None:
        """Lock what must be locked before jobs are."""

    def _take_back(self, tx: SqlTransaction, ids: Sequence[str]) -> list[str]:
        removed = self._remove_unbegun(tx, sorted(set(ids)))
        if removed:
            tx.ask("forget_notes", ids=removed)
            tx.ask("forget_audit", ids=removed)
        return removed

    def _remove_unbegun(self, tx: Any, ids: list[str]) -> list[str]:
        """Remove those that were never claimed; return which."""
        return [job_id for (job_id,) in tx.ask("take_back", ids=ids).rows()]


def _compare_and_set(tx: SqlTransaction, change: ScheduleChange) -> bool:
    """Write the row if its version is the one that was seen; return whether it was."""
    seen = {"schedule": change.name, "version": change.version, "last": LAST_VERSION}
    if change.row is None:
        return bool(tx.ask("drop_schedule", **seen).rows())
    values = _values(change.row)
    if change.version == 0:
        return bool(tx.ask("put_schedule", schedule=change.name, **values).rows())
    return bool(tx.ask("change_schedule", **seen, following=following(change.version), **values).rows())


def _values(row: ScheduleRow) -> dict[str, object]:
    return {
        "origin": row.origin,
        "fingerprint": row.fingerprint,
        "declared_at": row.declared_at,
        "booked_until": row.booked_until,
        "paused_at": row.paused_at,
        "missed": row.missed,
        "sealed": row.sealed,
    }


def _row(columns: Sequence[Any]) -> ScheduleRow:
    row = dict(zip(_COLUMNS, columns, strict=True))
    # Where a database keeps any bytes as text, names are read as bytes: one that is no text would be shown under a name by
    # which no statement finds it.
    row["name"] = row["name"] if isinstance(row["name"], str) else bytes(row["name"]).decode()
    row["sealed"] = bytes(row["sealed"])
    return readable(row)
