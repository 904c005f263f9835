"""A transaction in which a handler works and its job is completed.

The connection is a plain one of the driver, with the isolation level of Onward's own statements.  It is opened for the
handler and closed after it, so that settings of its session affect no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from itertools import chain, zip_longest
from typing import TypeVar

from onward.backends.mysql import errors
from onward.backends.mysql.connection import Connections, Result
from onward.backends.mysql.driver import pymysql
from onward.backends.mysql.joining import formatted
from onward.backends.mysql.literals import literal
from onward.backends.mysql.queries import CLOCK, Section, singly
from onward.backends.mysql.settling import Settling, classify
from onward.backends.mysql.transaction import Reply, Transaction
from onward.base.interruption import uninterrupted
from onward.contract.transactions import Rows, Statement, Steps, Style, run_steps
from onward.errors import TransactionError
from onward.job.settlement import Settled, Settlement, under

__all__ = ["MySQLCompletion", "OnCallersConnection", "settle_fenced"]

T = TypeVar("T")

_NO_SUCH_SAVEPOINT = 1305


class MySQLCompletion:
    """One open transaction."""

    exclusive = False

    def __init__(
        self,
        connections: Connections,
        sql: Mapping[str, Section],
        *,
        moved: int | None,
        wake: Callable[[], None],
        look: Callable[[Transaction], None],
    ) -> None:
        """``look``: what a transaction does last, if it has touched flows."""
        self._look = look
        self._connections = connections
        self._wake = wake
        self._place = connections.place
        with uninterrupted(), errors.translated(self._place):
            self._line = connections.for_handler()
        self.connection = self._line.raw
        self._tx = _Within(self._line, sql, moved)
        self._over = False

    def run(self, steps: Callable[[Style], Steps[T]]) -> T:
        return run_steps(steps("format"), self._execute)

    def check(self) -> None:
        """Do nothing: only its handler ends the transaction."""

    def settle(self, settlement: Settlement) -> Settled:
        with uninterrupted(), errors.translated(self._place):
            self._refuse_if_ended()
            return settle_fenced(self._tx, settlement, self._look)

    def commit(self) -> None:
        with uninterrupted(), errors.translated(self._place):
            try:
                self._line.send(b"COMMIT")
            finally:
                self._end()
        self._wake()

    def roll_back(self) -> None:
        if not self._over:
            with uninterrupted():
                with contextlib.suppress(*errors.DRIVERS):
                    self._line.send(b"ROLLBACK")
                self._end()

    def _refuse_if_ended(self) -> None:
        """Raise if a statement has ended the transaction: some commit implicitly what came before them."""
        try:
            self._line.send(b"RELEASE SAVEPOINT onward")
        except pymysql.err.MySQLError as error:
            if errors.code(error) != _NO_SUCH_SAVEPOINT:
                raise
            raise TransactionError(
                "a statement in the block has ended its transaction, so the job is not completed by it.  CREATE, ALTER, "
                "DROP, TRUNCATE, LOCK TABLES and COMMIT have committed what came before them: leave them out.  A deadlock "
                "has rolled it back: let that error leave the block"
            ) from error

    def _execute(self, statement: Statement) -> Rows:
        with self.connection.cursor() as cursor:
            cursor.execute(statement.sql, statement.values or None)
            rows: Rows = cursor.fetchall() if cursor.description else ()
            return rows

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._connections.discard(self._line)


def settle_fenced(tx: Transaction, settlement: Settlement, look: Callable[[Transaction], None]) -> Settled:
    """Settle under the owner that the lease has now: an adoption may have changed it."""
    lease = settlement.lease
    found = tx.ask("lease_owner", id=lease.envelope.id, token=lease.token).row()
    if found is None:
        return classify(tx, [settlement])[0]
    (owner,) = found
    (settled,) = Settling(tx, owner, [under(settlement, owner)], careful=True).answer()
    if tx.touched:
        look(tx)
    tx.ask("count_ended", slot=tx.slot(), number=tx.ended)
    tx.flush()
    return settled


class OnCallersConnection(Transaction):
    """Our own statements on the connection of a caller, whatever its driver is."""

    __slots__ = ("_run", "_slot")

    def __init__(
        self, run: Callable[[Statement], Rows], sql: Mapping[str, Section], moved: int | None, *, slot: int
    ) -> None:
        self._sql = sql
        self._unsent = []
        self.clock = CLOCK if moved is None else b"%d" % moved
        self._run = run
        self._slot = slot
        self.ended = 0
        self.wakes, self.woken, self.touched = set(), set(), set()

    def ask(self, name: str, **parameters: object) -> Reply:
        reply = Reply(self)
        results: list[Result] = []
        for single in singly(self._sql[name]):
            rows = self._run(formatted(single, parameters, self.clock.decode()))
            results.append(Result([tuple(row) for row in rows], 0))
        reply.arrived(results)
        return reply

    def slot(self) -> int:
        """Return where a caller counts what has ended: not where a worker does, which would wait for the caller's commit."""
        return self._slot


class _Within(Transaction):
    """Onward's own statements on a handler's connection, which takes one at a time."""

    __slots__ = ()

    def ask(self, name: str, **parameters: object) -> Reply:
        reply = Reply(self)
        results: list[Result] = []
        for texts, names, _ in singly(self._sql[name]):
            values = [self.clock if name == "now" else literal(parameters[name]) for name in names]
            results += self._connection.send(b"".join(chain.from_iterable(zip_longest(texts, values, fillvalue=b""))))
        reply.arrived(results)
        return reply
