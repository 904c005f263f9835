"""Transfer between stores: rows go to the server as JSON, by the names of their columns."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onward.backends.postgres.enqueueing import rivalry
from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.transfer import Columns, SqlTransfer

__all__ = ["PostgresTransfer"]

_encode = msgspec.json.Encoder().encode


class PostgresTransfer(SqlTransfer):
    """The `Transferable` half of the backend."""

    def _insert(self, tx: Transaction, name: str, rows: Sequence[Columns]) -> None:
        if rivals := rivalry(row.get("key_held") for row in rows):
            tx.ask("lock_unique_keys", numbers=rivals)
        if rows:
            tx.ask(name, rows=_encode([{key: _as_text(value) for key, value in row.items()} for row in rows]).decode())


def _as_text(value: object) -> object:
    return f"\\x{value.hex()}" if isinstance(value, bytes) else value
