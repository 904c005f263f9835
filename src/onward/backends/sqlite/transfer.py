"""Transfer between stores: the rows of a file."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.sql.statements import SqlTransaction
from onward.backends.sql.transfer import Columns, SqlTransfer
from onward.backends.sqlite.transaction import Transaction

__all__ = ["SqliteTransfer"]


class SqliteTransfer(SqlTransfer):
    """The `Transferable` half of the backend."""

    def _insert(self, tx: Transaction, name: str, rows: Sequence[Columns]) -> None:
        tx.insert(name, rows)

    # A file has one writer at a time.

    def _await_claims(self) -> None: ...

    def _lock(self, tx: SqlTransaction, ids: Sequence[str]) -> None: ...
