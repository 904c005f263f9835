"""The backend of a database server: the verbs that PostgreSQL and MySQL share.

Each verb is one transaction.  The backend runs it again if the server rolled it back because of a conflict.
"""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar

from onward.backend import (
    DURABLE,
    LOSSY,
    Backend,
    Capabilities,
    Check,
    Held,
    Lease,
    Reaped,
    Session,
    StoredJob,
    Turn,
    TurnResult,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.sql.damage import SetsRowsAside
from onward.backends.sql.enqueueing import StartOver
from onward.backends.sql.limits import declare
from onward.backends.sql.rows import Row, showing
from onward.backends.sql.samples import SqlSamples
from onward.backends.sql.settling import singly, why
from onward.backends.sql.statements import NamedSteps, ask
from onward.backends.sql.turns import in_two, is_parted
from onward.backends.sql.waiting import Waiting
from onward.base.clock import SECOND, Clock
from onward.contract.transactions import Steps, Style
from onward.errors import BackendError, BackendRefused, BackendUnavailable, TransactionError

__all__ = ["ServerBackend", "SessionLost"]

T = TypeVar("T")
Result = TypeVar("Result")

_TRIES = 10  # how often a transaction is run that is rolled back by conflicts


class SessionLost(Exception):
    """There is no such session: its transaction is rolled back."""


class ServerBackend(SetsRowsAside, SqlSamples[Any], Backend):
    """The verbs that use a dialect only through its modules, which have the same names in every dialect."""

    _claiming: ModuleType
    _errors: ModuleType
    _health: ModuleType
    _reaping: ModuleType
    _settling: ModuleType
    _waiting: Waiting
    _driver_error: type[Exception]
    _settles_singly_after: tuple[type[Exception], ...]  # after these a turn is made again, reading each lease first

    def __init__(self, connections: Any, *, clock: Clock | None, prefix: str) -> None:
        super().__init__()
        self._clock = clock
        self._connections = connections
        self._prefix = prefix
        self._database: Row | None = None  # where the tables are, once that was read

    @abstractmethod
    def _transaction(self, connection: Any) -> Any:
        """Return a transaction that runs statements by name on this connection."""

    @abstractmethod
    def _may_repeat(self, failures: Sequence[Exception]) -> bool:
        """Return whether a transaction with these failures, the latest last, may be run once more."""

    @abstractmethod
    def _turn(self, tx: Any, turn: Turn, released: Sequence[str], *, careful: bool = False) -> TurnResult:
        """Make a turn; raise `SessionLost` if its session is gone.  ``careful``: read each lease before settling it."""

    @abstractmethod
    def _take(self, tx: Any, owner: str, ids: list[str]) -> TurnResult:
        """Claim these jobs; raise `SessionLost` if the session is gone."""

    def _count_claims_under_way(self, queue: str) -> None:
        """Count leases of a queue whose claims began before it had a limit, and have been committed since."""

    @abstractmethod
    def _for_caller(self, steps: NamedSteps[T], style: Style) -> Steps[T]:
        """Turn steps into statements for the connection of a caller."""

    # The verbs

    @property
    def capabilities(self) -> Capabilities:
        return DURABLE if self._connections.durable else LOSSY

    def connect(self) -> None:
        (self._database,) = self._ask("this_database")

    @set_aside_and_repeat
    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        lease_for = round(session.lease_for.total_seconds() * SECOND)
        new_limits: list[str] = []

        def opened(tx: Any) -> Any:
            new_limits.extend(declare(tx, session.limits))
            return tx.ask(
                "open_session",
                owner=session.owner,
                lease_for=lease_for,
                host=session.host,
                pid=session.pid,
                version=session.version,
                description=session.description,
            )

        def adopt(tx: Any, adopts: str) -> list[Lease] | None:
            if not tx.ask("lock_sessions", owners=sorted({session.owner, adopts})).rows():
                return None
            reply = opened(tx)
            if adopts != session.owner:
                tx.ask("end_session", owner=adopts)
                self._claiming.adopt(tx, adopts, owner=session.owner)
            expires_at = reply.value()
            now = expires_at - lease_for
            leases: list[Lease] = self._claiming.adopted(tx, owner=session.owner, expires_at=expires_at, now=now)
            return leases

        leases = [] if adopts is None else self._write(lambda tx: adopt(tx, adopts))
        if adopts is None:
            self._write(opened)
        for queue in new_limits:
            self._count_claims_under_way(queue)
        return leases

    @set_aside_and_repeat
    def turn(self, turn: Turn) -> TurnResult:
        """Settle, promote what is due, claim: one answer per settlement, and one transaction if it ends no key."""
        self._waiting.turn_begins()
        result = in_two(turn, self._made) if is_parted(turn) else self._made(turn)
        if result.leases:
            self._waiting.claimed()
        return result

    def _made(self, turn: Turn, released: Sequence[str] = ()) -> TurnResult:
        try:
            try:
                return self._write(lambda tx: self._turn(tx, turn, released))
            except self._settles_singly_after:
                return self._write(lambda tx: self._turn(tx, turn, released, careful=True))
        except SessionLost:
            settled = self._read(lambda tx: self._settling.classify(tx, turn.settlements)) if turn.settlements else []
            return TurnResult(settled=settled, leases=[], alive=False)

    @set_aside_and_repeat
    def take(self, owner: str, ids: Sequence[str]) -> TurnResult:
        try:
            return self._write(lambda tx: self._take(tx, owner, list(dict.fromkeys(ids))))
        except SessionLost:
            return TurnResult(settled=[], leases=[], alive=False)

    @set_aside_and_repeat
    def paused(self) -> Sequence[str]:
        return [name for (name,) in self._ask("paused_queues")]

    @set_aside_and_repeat
    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        reason = why(owner, cause)

        def reap(tx: Any) -> list[Reaped]:
            lost = self._reaping.end(tx, owner, queue)
            reaped: list[Reaped] = self._reaping.give_back(tx, lost, started, reason) if lost else []
            return reaped

        try:
            reaped = self._write(reap)
        except (
            BackendRefused
        ):  # a job that the store refuses must not keep the others: each in a transaction of its own
            lost = self._write(lambda tx: self._reaping.end(tx, owner, queue))
            reaped = singly(lost, self._write, lambda tx, leases: self._reaping.give_back(tx, leases, started, reason))
        if owner is None and queue is None:
            self._sweep_flows()
        return reaped

    def _sweep_flows(self) -> None:
        """Look at flows that should have gone on, where a store keeps them."""

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Sleep until there is work, a job falls due or the time is up."""
        try:
            self._waiting.wait(queues, time.monotonic() + timeout)
        except BackendError:
            if not self._connections.closed:  # closing the backend ends the sleep of its workers
                raise

    def health(self) -> list[Check]:
        with self._errors.translated(self._connections.place), self._connections.borrowed() as connection:
            tx = self._transaction(connection)
            found: list[Check] = self._health.checks(connection, self._connections, self._prefix, tx)
            return found

    # Transactions of callers

    def showing(self, job_id: str, style: Style) -> Steps[StoredJob | None]:
        return self._for_caller(showing(job_id), style)

    def recognizing(self, style: Style) -> Steps[None]:
        if self._database is None:
            self.connect()
        return self._for_caller(_same_database(self._database), style)

    # Running

    @property
    def _moved(self) -> int | None:
        """The time that a test has set; None: the server's clock."""
        return None if self._clock is None else self._clock.micros()

    def _ask(self, name: str, **parameters: object) -> Sequence[Row]:
        """Run one statement, which is a transaction by itself."""
        rows: Sequence[Row] = self._with_retries(
            lambda connection: self._transaction(connection).ask(name, **parameters).rows()
        )
        return rows

    def _with_retries(self, run: Callable[[Any], Result]) -> Result:
        """Run a function on a connection; again, if a conflict with another transaction rolled it back."""
        failures: list[Exception] = []
        with self._errors.translated(self._connections.place):
            while len(failures) < _TRIES:
                try:
                    with self._connections.borrowed() as connection:
                        return run(connection)
                except StartOver as error:
                    failures.append(error)
                except self._driver_error as error:
                    failures.append(error)
                    if not self._may_repeat(failures):
                        raise
                time.sleep(random.uniform(0, 0.02))
        raise BackendUnavailable(f"{self._connections.place}: rolled back {_TRIES} times by conflicts: try again")


def _same_database(ours: Sequence[Any] | None) -> NamedSteps[None]:
    """Refuse another database, and one of the same name on another server or in another schema."""
    if ours is None:
        return
    ((theirs, since),) = yield from ask("this_database")
    if (theirs, since) != tuple(ours):
        raise TransactionError(
            f"this connection finds other tables (in the database {theirs}) than those of the jobs (in {ours[0]}): a job "
            f"can only join a transaction of the database that it is stored in, on the same server and in the same schema"
        )
