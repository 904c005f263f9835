"""One transaction: its statements by name, sent together when an answer is needed.

Statements that do not depend on each other's answers are sent together, and so are the last ones and the commit.  If one
fails, the server does not execute those after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, TypeVar

from onward.backends.mysql.connection import Connection, Result
from onward.backends.mysql.literals import literal
from onward.backends.mysql.queries import CLOCK, Section
from onward.backends.sql.flows import Touched
from onward.backends.sql.rows import Row
from onward.backends.sql.statements import Named, NamedSteps
from onward.contract.transactions import Rows, run_steps
from onward.errors import BackendRefused

__all__ = ["Reply", "Row", "Transaction"]

T = TypeVar("T")

# Steps whose answer is not read: each is sent with the next one.
_UNANSWERED = frozenset({"lock_flows", "change_nodes", "change_flows", "store_nodes", "count_added", "count_replayed"})


class Reply:
    """The answer to a statement, read when needed.  Of a section of several, the last one's, unless another is named."""

    __slots__ = ("_results", "_tx")

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._results: list[Result] = []

    def rows(self, which: int = -1) -> list[Row]:
        return self._answer(which).rows

    def row(self) -> Row | None:
        rows = self.rows()
        return rows[0] if rows else None

    def value(self) -> Any:
        """Return the one value of a statement that always gives one row."""
        return self.rows()[0][0]

    @property
    def count(self) -> int:
        """Return how many rows a write has matched."""
        return self._answer(-1).matched

    def arrived(self, results: list[Result]) -> None:
        self._results = results

    def _answer(self, which: int) -> Result:
        if not self._results:
            self._tx.flush()
        return self._results[which]


class Transaction:
    """One transaction, in which the verbs run their statements by name."""

    __slots__ = ("_connection", "_sql", "_unsent", "clock", "ended", "touched", "wakes", "woken")

    def __init__(self, connection: Connection, sql: Mapping[str, Section], moved: int | None) -> None:
        self._connection = connection
        self._sql = sql
        self._unsent: list[tuple[bytes, int, Reply]] = []
        self.clock = CLOCK if moved is None else b"%d" % moved  # where a test has put it, or the server's own
        self.ended = 0  # how many jobs have ended
        self.wakes: set[str] = set()  # queues in which a job became due: wake sleepers after the commit
        self.woken: set[str] = set()  # jobs that waited for a key or for their node, and are due now
        self.touched: Touched = set()

    @property
    def room(self) -> int:
        """The largest number of bytes that a statement may have."""
        return self._connection.room

    def ask(self, name: str, **parameters: object) -> Reply:
        """Send a statement, at once or with the next ones."""
        reply = Reply(self)
        self._send(self._written(name, parameters), self._sql[name].number, reply)
        return reply

    def run_steps(self, steps: NamedSteps[T]) -> T:
        """Run steps that could run on a caller's connection as well."""

        def run(step: Named) -> Rows:
            if step.name == "cancel_waiting":
                self.ended += len(step.parameters["cancelled"])
            reply = self.ask(step.name, **step.parameters)
            return () if step.name in _UNANSWERED else reply.rows()

        return run_steps(steps, run)

    def _written(self, name: str, parameters: Mapping[str, object]) -> bytes:
        texts, names, _ = self._sql[name]
        values = [self.clock if name == "now" else literal(parameters[name]) for name in names]
        return b"".join(chain.from_iterable(zip_longest(texts, values, fillvalue=b"")))

    def _send(self, sql: bytes, count: int, reply: Reply) -> None:
        if len(sql) > self.room:
            raise BackendRefused(
                f"{self._connection.place}: this needs a statement of {len(sql):,} bytes, and the server accepts "
                f"{self.room:,}: raise its max_allowed_packet; nothing of the call was applied"
            )
        self._unsent.append((sql, count, reply))

    def ask_each(self, name: str, each: Sequence[Mapping[str, object]]) -> Reply:
        """Send one statement: the union of what this SELECT finds with each of these parameters."""
        reply = Reply(self)
        self._send(b"(" + b") UNION ALL (".join(self._written(name, given) for given in each) + b")", 1, reply)
        return reply

    def flush(self) -> None:
        """Send all that was asked, and read the answers."""
        unsent, self._unsent = self._unsent, []
        while unsent:
            size, together = 0, 0
            for sql, _, _ in unsent:
                size += len(sql) + 1
                if together and size > self.room:
                    break
                together += 1
            sending, unsent = unsent[:together], unsent[together:]
            results = iter(self._connection.send(b";".join(sql for sql, _, _ in sending)))
            for _, count, reply in sending:
                reply.arrived([next(results) for _ in range(count)])

    def slot(self) -> int:
        """Return the row in which this connection counts ended jobs."""
        return self._connection.number % 64
