"""Limits and gates: the `KeepsLimits` half of the backend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TypeVar

from onward.backend import Audit, Kind
from onward.backends.postgres.lanes import ScopeReader
from onward.backends.postgres.transaction import Transaction
from onward.backends.postgres.wake import EVERY_QUEUE
from onward.backends.sql.limits import SqlLimits, drop_idle_gates
from onward.flow.limits import Bounds
from onward.flow.room import Scope

__all__ = ["PostgresLimits"]

Result = TypeVar("Result")

_FIRST = Scope("", "")


class PostgresLimits(SqlLimits):
    """Keeps limits, and wakes workers when one may be wider than before."""

    _gates_after = _FIRST

    @abstractmethod
    def _write(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _count_claims_under_way(self, queue: str) -> None: ...

    @abstractmethod
    def _wake(self, queues: Collection[str]) -> None: ...

    def set_limit(self, kind: Kind, name: str, chosen: Bounds | None, *, new: bool = False, audit: Audit = ()) -> bool:
        is_set: bool = super().set_limit(kind, name, chosen, new=new, audit=audit)
        if is_set and kind == "queue" and chosen:
            self._count_claims_under_way(name)
        if is_set:
            self._wake([EVERY_QUEUE])
        return is_set

    def shut(self, lane: str, *, opened: bool = False, audit: Audit = ()) -> bool:
        changed: bool = super().shut(lane, opened=opened, audit=audit)
        if opened:
            self._wake([EVERY_QUEUE])
        return changed

    def _drop_idle_gates(self, tx: Transaction, limit: int) -> None:
        """Remove those of the next gates that are full and open; every batch of a prune goes on where the last one ended."""
        now = tx.ask("clock").value()
        self._gates_after = drop_idle_gates(tx, self._gates_after, now, limit=limit) or _FIRST

    def _lane_view(self, tx: Transaction) -> ScopeReader:
        return ScopeReader(tx)
