"""Rows that no worker wrote.  A job on whose row a statement fails is set aside: it becomes a dead letter, with its bytes.

A number that no worker could have written makes a claim overflow, and so the claim of every job beside it fails, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from onward.backends import damage
from onward.backends.damage import dead, logger, new_id, problems
from onward.backends.sql.statements import SqlTransaction
from onward.backends.sql.transfer import SqlTransfer, dead_row

__all__ = ["COLUMNS", "SetsRowsAside"]

COLUMNS = (
    "key",  # by which its row is found again
    "id",
    "queue",
    "job",
    "sealed",
    "state",
    "rank",
    "available_at",
    "expires_at",
    "enqueued_at",
    "started_at",
    "max_crashes",
    "delivery",
    "attempts",
    "crashes",
    "interruptions",
    "waits",
    "parked_since",
    "unique_key",
    "idempotency_key",
    "idempotency_ttl",
    "single_instance",
    "progress",
    "owner",
    "lane",
    "cost",
    "now",
)


class SetsRowsAside(damage.SetsAside, SqlTransfer):
    """A backend that can find and set aside damaged rows."""

    _damaged_columns: tuple[str, ...] = COLUMNS

    def _ended(self, tx: Any, row: Mapping[str, Any]) -> None:
        """Note that a job has ended, where stores keep flows."""

    def _repair_text(self) -> int:
        """Escape bytes that are no text, where a database accepts them in text columns; return how many rows had them."""
        return 0

    def _look_for_damage(self) -> int:
        return self._repair_text() + self._write(self._set_aside)

    def _set_aside(self, tx: SqlTransaction) -> int:
        damaged = [dict(zip(self._damaged_columns, row, strict=True)) for row in tx.ask("damaged_jobs").rows()]
        for row in damaged:
            self._set_aside_one(tx, row)
        sessions = tx.ask("damaged_sessions").rows()
        for (owner,) in sessions:
            tx.ask("end_session", owner=owner)
            logger.critical("session %s was ended: its row holds times that no worker writes", owner)
        return len(damaged) + len(sessions)

    def _set_aside_one(self, tx: SqlTransaction, row: Mapping[str, Any]) -> None:
        reason = f"set aside: {'; '.join(problems(row))}: no worker writes that"
        letter = dead(row, reason)
        if len(tx.ask("known", ids=[letter.id]).rows()) > 1:  # there is a finished job of this id as well
            letter = msgspec.structs.replace(letter, id=new_id())
        tx.ask("drop_damaged", key=row["key"])
        self._insert(tx, "restore_dead", [dead_row(letter)])
        self._ended(tx, row)
        logger.critical("job %s is discarded, %s", letter.id, reason)
