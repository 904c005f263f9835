"""The contract's verbs on a MySQL or MariaDB database: each is one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from typing import TypeVar

from onward.backend import (
    DURABLE,
    LOSSY,
    Backend,
    Capabilities,
    Check,
    Enqueued,
    Envelope,
    Held,
    Lease,
    Reaped,
    Renewal,
    Session,
    Turn,
    TurnResult,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.mysql import claiming, enqueueing, errors, health, queries, reaping, schema
from onward.backends.mysql.completing import MySQLCompletion
from onward.backends.mysql.connection import Connection, Connections
from onward.backends.mysql.driver import pymysql
from onward.backends.mysql.inspection import MySQLInspection
from onward.backends.mysql.joining import foreign, joining
from onward.backends.mysql.literals import literal
from onward.backends.mysql.settling import LeaseNotHeld, Settling, classify
from onward.backends.mysql.tables import preparation
from onward.backends.mysql.transaction import Reply, Transaction
from onward.backends.mysql.transfer import MySQLTransfer
from onward.backends.mysql.url import parse_url
from onward.backends.mysql.wake import Bell, Rest, pauses
from onward.backends.sql import text
from onward.backends.sql.damage import SqlSetsAside
from onward.backends.sql.enqueueing import StartOver, due_queues, is_simple
from onward.backends.sql.reaping import singly
from onward.backends.sql.rows import Row
from onward.backends.sql.same_database import same_home
from onward.backends.sql.sections import prefix_of
from onward.backends.sql.settling import why
from onward.backends.sql.tables import emptying
from onward.backends.sql.turns import in_two, is_parted
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure
from onward.contract.transactions import Dialect, Steps, Style
from onward.errors import BackendError, BackendRefused, BackendUnavailable

__all__ = ["MySQLBackend"]

Result = TypeVar("Result")

_AS_BYTES = "CAST({} AS BINARY)"
_TRIES = 10  # how often a transaction is run again that was undone for another's sake
_LATE = 2  # and if that was because a lock came too late, for which it has waited long already


class MySQLBackend(SqlSetsAside, MySQLInspection, MySQLTransfer, Backend):
    """Jobs in one database, for every process that can reach it."""

    dialect: Dialect = "mysql"

    def __init__(self, connections: Connections, *, clock: Clock | None, prefix: str) -> None:
        super().__init__()
        self._clock = clock
        self._connections = connections
        self._prefix = prefix
        self._sql = queries.load(prefix)
        self._bell = Bell()
        self._rest = Rest()
        self._home: Row | None = None  # where our tables are, once we have looked

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None, namespace: str = "default") -> MySQLBackend:
        """For ``mysql://user@host/database``; whoever is first to use it creates the tables."""
        address, options = parse_url(url)
        prefix = prefix_of(namespace)
        prepare = preparation(prefix, None if clock is None else clock.micros())
        return cls(Connections(address, options, prepare=prepare), clock=clock, prefix=prefix)

    @property
    def capabilities(self) -> Capabilities:
        return DURABLE if self._connections.durable else LOSSY

    def connect(self) -> None:
        self._home = self._again(lambda connection: self._transaction(connection).ask("home").row())

    @set_aside_and_repeat
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
        if not envelopes:
            return []
        if is_simple(envelopes, retried=retried) and self._store(envelopes):
            return [Enqueued(envelope.id) for envelope in envelopes]
        return self._write(lambda tx: enqueueing.enqueue(tx, envelopes, retried=retried))

    @set_aside_and_repeat
    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        lease_for = round(session.lease_for.total_seconds() * SECOND)

        def opened(tx: Transaction) -> Reply:
            return tx.ask(
                "open_session",
                owner=session.owner,
                lease_for=lease_for,
                host=session.host,
                pid=session.pid,
                version=session.version,
            )

        def adopt(tx: Transaction, adopts: str) -> list[Lease] | None:
            if not tx.ask("lock_sessions", owners=sorted({session.owner, adopts})).rows():
                return None
            reply = opened(tx)
            if adopts != session.owner:
                tx.ask("end_session", owner=adopts)
                held = [row[0] for row in tx.ask("leases_of", owner=adopts).rows()]
                tx.ask("adopt", ids=held, adopted=adopts, owner=session.owner)
            expires_at = reply.value()
            return claiming.adopted(tx, owner=session.owner, expires_at=expires_at, now=expires_at - lease_for)

        if adopts is not None:
            return self._write(lambda tx: adopt(tx, adopts))
        self._write(opened)
        return []

    @set_aside_and_repeat
    def turn(self, turn: Turn) -> TurnResult:
        """Settle, promote what is due, claim: one answer per settlement, and one transaction if it ends no key."""
        result = in_two(turn, self._made) if is_parted(turn) else self._made(turn)
        if result.leases:
            self._rest.found_work()
        return result

    def _made(self, turn: Turn, released: Sequence[str] = ()) -> TurnResult:
        try:
            try:
                return self._write(lambda tx: _turn(tx, turn, released))
            except LeaseNotHeld:
                return self._write(lambda tx: _turn(tx, turn, released, careful=True))
        except _SessionLost:
            settled = self._read(lambda tx: classify(tx, turn.settlements)) if turn.settlements else []
            return TurnResult(settled=settled, leases=[], alive=False)

    @set_aside_and_repeat
    def take(self, owner: str, ids: Sequence[str]) -> TurnResult:
        try:
            return self._write(lambda tx: _take(tx, owner, list(dict.fromkeys(ids))))
        except _SessionLost:
            return TurnResult(settled=[], leases=[], alive=False)

    def paused(self) -> Sequence[str]:
        return self._read(lambda tx: [name for (name,) in tx.ask("paused_queues").rows()])

    @set_aside_and_repeat
    def extend(self, owner: str) -> Renewal:
        def renew(tx: Transaction) -> Renewal:
            renewed, asked = tx.ask("renew_session", owner=owner), tx.ask("asked_to_cancel", owner=owner)
            if not renewed.rows(0):
                return Renewal(alive=False)
            return Renewal(alive=True, cancel_requested=_held(asked))

        return self._write(renew)

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

        def reap(tx: Transaction) -> list[Reaped]:
            lost = reaping.end(tx, owner, queue)
            return reaping.give_back(tx, lost, started, reason) if lost else []

        try:
            return self._write(reap)
        except BackendRefused:  # one that the store refuses must not keep the others: each in a transaction of its own
            lost = self._write(lambda tx: reaping.end(tx, owner, queue))
            return singly(lost, self._write, lambda tx, leases: reaping.give_back(tx, leases, started, reason))

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Sleep until there is work here, a job falls due or it is time to look."""
        try:
            self._wait(queues, time.monotonic() + timeout)
        except BackendError:
            if not self._connections.closed:  # whoever closes it lets its sleepers go
                raise

    def _wait(self, queues: Sequence[str], deadline: float) -> None:
        self._rest.take(deadline - time.monotonic())
        for pause in pauses():
            rung = self._bell.rung
            due = self._look(queues)
            self._rest.sent(for_work=due <= 0)
            if due <= 0 or self._connections.closed:
                return
            self._bell.sleep(rung, min(pause, due, deadline - time.monotonic()))
            if time.monotonic() >= deadline or self._connections.closed:
                return

    def health(self) -> list[Check]:
        with errors.translated(self._connections.place), self._connections.borrowed() as connection:
            return health.checks(connection, self._connections, self._prefix, self._transaction(connection))

    # Transactions of others

    def joining(self, envelopes: Sequence[Envelope], style: Style) -> Steps[list[Enqueued]]:
        return foreign(self._sql, joining(envelopes), self._moved)

    def recognizing(self, style: Style) -> Steps[None]:
        if self._home is None:
            self.connect()
        return foreign(self._sql, same_home(self._home), self._moved)

    def begin(self, *, at_most: float) -> MySQLCompletion:
        """Nobody else has to wait for it, so it may take its time."""
        return MySQLCompletion(self._connections, self._sql, moved=self._moved, wake=self._bell.ring)

    def completed(self, lease: Lease) -> bool:
        fence = {"id": lease.envelope.id, "token": lease.token}

        def look(tx: Transaction) -> bool:
            return not tx.ask("lease_owner", **fence).rows() and bool(tx.ask("is_completed", **fence).value())

        return self._write(look)

    def note_after_completion(self, lease: Lease, failure: Failure, *, duration_ms: int) -> bool:
        told = {"kind": failure.kind, "message": failure.message, "traceback": failure.traceback}
        fence = {"id": lease.envelope.id, "token": lease.token}
        return self._write(
            lambda tx: tx.ask("note_after_completion", **fence, **told, duration_ms=duration_ms).count > 0
        )

    def empty(self) -> None:
        whole = "; ".join(["BEGIN", *emptying(self._prefix), "COMMIT"]).encode()
        self._again(lambda connection: connection.send(whole))

    def close(self) -> None:
        self._connections.close()
        self._bell.ring()

    # Transactions

    def _write(self, act: Callable[[Transaction], Result]) -> Result:
        """Run it as one transaction, which is durable when this ends well, and gone if it does not."""

        def run(connection: Connection) -> tuple[Result, bool]:
            tx = self._transaction(connection)
            try:
                tx.ask("begin")
                result = act(tx)
                if tx.ended:  # last, so that nobody waits for it longer than for the disk
                    tx.ask("count_ended", slot=tx.slot(), number=tx.ended)
                tx.ask("commit")
                tx.flush()
            except BaseException:
                _roll_back(connection)
                raise
            return result, bool(tx.wakes)

        result, wakes = self._again(run)
        if wakes:
            self._bell.ring()
        return result

    def _repair_text(self) -> int:
        def repair(connection: Connection) -> int:
            repaired = 0
            for columns in list(schema.text_columns(connection, self._prefix)):
                (found,) = connection.send(columns.select(_AS_BYTES).encode())
                for row in list(text.unreadable(columns, found.rows)):
                    statement, values = row.update(_AS_BYTES, "%s", if_taken="IGNORE")
                    connection.send(statement.encode() % tuple(literal(value) for value in values))
                    repaired += 1
            return repaired

        return self._again(repair)

    @set_aside_and_repeat
    def _read(self, act: Callable[[Transaction], Result]) -> Result:
        """One snapshot, whatever is written meanwhile."""

        def run(connection: Connection) -> Result:
            tx = self._transaction(connection)
            try:
                tx.ask("begin_reading")
                result = act(tx)
                tx.ask("commit")
                tx.flush()
            except BaseException:
                _roll_back(connection)
                raise
            return result

        return self._again(run)

    def _store(self, envelopes: Sequence[Envelope]) -> bool:
        """Store them by one statement, which is a transaction by itself.  False if that is not possible."""

        def run(connection: Connection) -> bool:
            tx = self._transaction(connection)
            if len(list(enqueueing.portions(envelopes, tx.room))) > 1:
                return False
            enqueueing.store(tx, envelopes)
            try:
                tx.flush()
            except pymysql.err.IntegrityError as error:
                if errors.is_duplicate(error):
                    return False
                raise
            return True

        stored = self._again(run)
        if stored and due_queues(envelopes):
            self._bell.ring()
        return stored

    def _again(self, run: Callable[[Connection], Result]) -> Result:
        """Run it on a connection; again, if it was undone for another's sake."""
        with errors.translated(self._connections.place):
            late = 0
            for _ in range(_TRIES):
                try:
                    with self._connections.borrowed() as connection:
                        return run(connection)
                except StartOver:
                    pass
                except pymysql.err.MySQLError as error:
                    # An id or a key that was free when we looked.
                    late += errors.is_late(error)
                    if late == _LATE or not (errors.is_transient(error) or errors.is_duplicate(error)):
                        raise
                time.sleep(random.uniform(0, 0.02))
        raise BackendUnavailable(f"{self._connections.place}: rolled back {_TRIES} times by conflicts: try again")

    def _transaction(self, connection: Connection) -> Transaction:
        return Transaction(connection, self._sql, self._moved)

    @property
    def _moved(self) -> int | None:
        """Where a test has put the clock; None: the server tells the time."""
        return None if self._clock is None else self._clock.micros()

    def _look(self, queues: Sequence[str]) -> float:
        """Seconds until one of these queues has work."""

        def look(connection: Connection) -> list[tuple[int | None, int]]:
            tx = self._transaction(connection)
            replies = [tx.ask("next_due", queue=queue) for queue in dict.fromkeys(queues)]
            return [(due, now) for reply in replies for due, now in reply.rows()]

        return min(
            ((due - now) / SECOND if due else due for due, now in self._again(look) if due is not None), default=inf
        )


def _turn(tx: Transaction, turn: Turn, released: Sequence[str], *, careful: bool = False) -> TurnResult:
    """What does not need an answer is asked before the first one is read."""
    session, to_cancel = tx.ask("lock_session", owner=turn.owner), tx.ask("asked_to_cancel", owner=turn.owner)
    settling = Settling(tx, turn.owner, turn.settlements, careful=careful)
    if not settling.plain:
        _alive(session)
        settling.answer()
    claim = turn.claim if turn.claim is not None and turn.claim.limit > 0 else None
    asked = None if claim is None else claiming.ask(tx, claim, released=[*released, *settling.released])
    expires_at, now = _alive(session)
    settled = settling.answer()
    promoted = 0
    leases: list[Lease] = []
    if asked is not None:
        promoted, leases = claiming.hand_out(tx, asked, owner=turn.owner, expires_at=expires_at, now=now)
    ended = settling.ended
    cancel_requested = tuple(held for held in _held(to_cancel) if held not in ended)
    return TurnResult(
        settled=settled,
        leases=leases,
        promoted=promoted,
        cancel_requested=cancel_requested,
        woken=sorted(tx.woken) if tx.woken else (),
    )


def _take(tx: Transaction, owner: str, ids: list[str]) -> TurnResult:
    session, to_cancel = tx.ask("lock_session", owner=owner), tx.ask("asked_to_cancel", owner=owner)
    found = tx.ask("candidates_among", ids=ids)
    expires_at, now = _alive(session)
    leases = claiming.take(tx, found, owner=owner, expires_at=expires_at, now=now)
    return TurnResult(settled=[], leases=leases, cancel_requested=_held(to_cancel))


def _alive(session: Reply) -> tuple[int, int]:
    """When the session expires, and the time."""
    found = session.row()
    if found is None:
        raise _SessionLost
    expires_at, now = found
    return expires_at, now


def _held(reply: Reply) -> tuple[Held, ...]:
    return tuple((job_id, token) for job_id, token in reply.rows())


def _roll_back(connection: Connection) -> None:
    if connection.in_step and connection.is_in_transaction:
        with suppress(*errors.DRIVERS):  # a connection that is gone has undone it, too
            connection.send(b"ROLLBACK")


class _SessionLost(Exception):
    """There is no such session: whatever was done in its name is undone."""
