"""Transfer between stores: the rows of a database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onward.backends.mysql.literals import Literal, literal
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.transfer import Columns, SqlTransfer

__all__ = ["MySQLTransfer"]

_STATEMENT = 8_000  # bytes of a statement without its values, and more


class MySQLTransfer(SqlTransfer):
    """The `Transferable` half of the backend."""

    def _insert(self, tx: Transaction, name: str, rows: Sequence[Columns]) -> None:
        for values in _portions([row | _derived(name, row) for row in rows], tx.room):
            tx.ask(name, rows=values)


def _derived(name: str, row: Columns) -> Columns:
    """Return the columns that only indexes of this database are made of."""
    if name == "restore_live":
        return {"waiting": row["waits"] > 0 and row["parked_since"] is None}
    return {"tombstone": False} if name == "restore_dead" else {}


def _portions(rows: Sequence[Columns], room: int) -> Iterator[Literal]:
    """Cut rows into as many statements as the server's limit makes necessary; mostly one."""
    if not rows:
        return
    names = b"(" + b", ".join(b"`%b`" % name.encode() for name in rows[0]) + b") VALUES "
    portion: list[bytes] = []
    size = _STATEMENT
    for row in rows:
        values = b"(" + b", ".join(map(literal, row.values())) + b")"
        if portion and size + len(values) > room:
            yield Literal(names + b", ".join(portion))
            portion, size = [], _STATEMENT
        portion.append(values)
        size += len(values) + 2
    yield Literal(names + b", ".join(portion))
