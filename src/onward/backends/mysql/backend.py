"""The contract's verbs on a MySQL or MariaDB database: each is one transaction."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import TypeVar

import msgspec

from onward.backend import (
    Audit,
    Enqueued,
    Envelope,
    Held,
    Lease,
    RanBy,
    Reaped,
    Renewal,
    Session,
    Settled,
    Settlement,
    Turn,
    TurnResult,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.mysql import claiming, enqueueing, errors, health, queries, reaping, schema, settling
from onward.backends.mysql.completing import MySQLCompletion, OnCallersConnection, settle_fenced
from onward.backends.mysql.connection import Connection, Connections
from onward.backends.mysql.driver import pymysql
from onward.backends.mysql.flows import MySQLFlows, MySQLFlowSteps
from onward.backends.mysql.inspection import MySQLInspection
from onward.backends.mysql.joining import foreign, joining
from onward.backends.mysql.lane_view import MySQLView
from onward.backends.mysql.lanes import restore_stripes
from onward.backends.mysql.literals import literal
from onward.backends.mysql.schedules import MySQLSchedules
from onward.backends.mysql.settling import Settling
from onward.backends.mysql.tables import preparation
from onward.backends.mysql.transaction import Reply, Transaction
from onward.backends.mysql.transfer import MySQLTransfer
from onward.backends.mysql.url import parse_url
from onward.backends.mysql.wake import MySQLWaiting
from onward.backends.sql import text
from onward.backends.sql.audit import created
from onward.backends.sql.damage import COLUMNS
from onward.backends.sql.enqueueing import due_queues, is_simple
from onward.backends.sql.flow_members import leave_to_completed
from onward.backends.sql.flows import touch
from onward.backends.sql.limits import SqlLimits
from onward.backends.sql.notes import ServerNotes
from onward.backends.sql.sections import emptying, prefix_of
from onward.backends.sql.server import ServerBackend, SessionLost
from onward.backends.sql.settling import FenceMismatch
from onward.backends.sql.statements import NamedSteps
from onward.base.clock import Clock
from onward.base.failure import Failure
from onward.contract.snapshot import LOOK_SECONDS
from onward.contract.transactions import Dialect, Rows, Statement, Steps, Style

__all__ = ["MySQLBackend"]

T = TypeVar("T")
Result = TypeVar("Result")

_AS_BYTES = "CAST({} AS BINARY)"
_CALLERS_SLOTS = 64  # where callers count what has ended: behind the places of as many connections of our own
_UNTIL_UNLOCKED = (0.002, 0.008)  # seconds after which another turn may have given up its locks
_LATE = 2  # how often a lock may time out: each time a transaction has waited long already


class MySQLBackend(MySQLFlows, ServerBackend, MySQLInspection, SqlLimits, ServerNotes, MySQLSchedules, MySQLTransfer):
    """Jobs in one database, for every process that can reach it."""

    exclusive = False
    claims_at_once = 1000  # what a statement costs whatever it finds is shared by more jobs
    dialect: Dialect = "mysql"
    _claiming, _errors, _health, _reaping, _settling = claiming, errors, health, reaping, settling
    _driver_error = pymysql.err.MySQLError
    _connections: Connections
    _waiting: MySQLWaiting
    _settles_singly_after = (FenceMismatch,)
    _damaged_columns = (*COLUMNS, "flow", "node")

    def __init__(self, connections: Connections, *, clock: Clock | None, prefix: str) -> None:
        super().__init__(connections, clock=clock, prefix=prefix)
        self._sql = queries.load(prefix)
        self._walks = claiming.Walks()
        self._flow_steps = MySQLFlowSteps()
        self._waiting = MySQLWaiting(connections, self._until_work)

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None, namespace: str = "default") -> MySQLBackend:
        """Make a backend for ``mysql://user@host/database``; its first use creates the tables."""
        address, options = parse_url(url)
        prefix = prefix_of(namespace)
        prepare = preparation(prefix, None if clock is None else clock.micros())
        return cls(Connections(address, options, prepare=prepare), clock=clock, prefix=prefix)

    @set_aside_and_repeat
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        if not envelopes:
            return []
        if not audit and is_simple(envelopes, retried=retried) and self._store(envelopes):
            return [Enqueued(envelope.id) for envelope in envelopes]
        act = partial(enqueueing.enqueue, envelopes=envelopes, retried=retried)
        return self._write(self._audited(act, audit, created))

    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        leases = super().open_session(session, adopts=adopts)
        if session.limits:
            self._write(restore_stripes)
        return leases

    @set_aside_and_repeat
    def _renew(self, owner: str) -> Renewal:
        def renew(tx: Transaction) -> Renewal:
            renewed, asked = tx.ask("renew_session", owner=owner), tx.ask("asked_to_cancel", owner=owner)
            if not renewed.rows(0):
                return Renewal(alive=False)
            return Renewal(alive=True, cancel_requested=_held(asked))

        return self._write(renew)

    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        if owner is None and queue is None:
            self._sweep_flows()
        return super().reap(owner=owner, queue=queue, started=started, cause=cause)

    def begin(self, *, at_most: float) -> MySQLCompletion:
        """Open a transaction for a handler.  No other process has to wait for it, so it has no time limit."""
        return MySQLCompletion(
            self._connections, self._sql, moved=self._moved, wake=self._waiting.wake, look=self._look_at_flows
        )

    def completed(self, lease: Lease) -> bool:
        fence = {"id": lease.envelope.id, "token": lease.token}

        def look(tx: Transaction) -> bool:
            if tx.ask("lease_owner", **fence).rows() or not tx.ask("is_completed", **fence).value():
                return False
            if lease.member:  # a caller's transaction has left its flow to this look
                touch(tx.touched, tx.ask("end_members", ids=[lease.envelope.id]).rows())
            return True

        return self._write(look)

    def note_after_completion(
        self, lease: Lease, failure: Failure, *, duration_ms: int, by: RanBy | None = None
    ) -> bool:
        told = msgspec.structs.asdict(failure) | {"ran_by": None if by is None else by.encoded()}
        fence = {"id": lease.envelope.id, "token": lease.token}
        return self._write(
            lambda tx: tx.ask("note_after_completion", **fence, **told, duration_ms=duration_ms).count > 0
        )

    def empty(self) -> None:
        whole = "; ".join(["BEGIN", *emptying(self._prefix, *schema.FLOW_TABLES), "COMMIT"]).encode()
        self._with_retries(lambda connection: connection.send(whole))

    def close(self) -> None:
        self._connections.close()
        self._waiting.close()

    def joining(self, envelopes: Sequence[Envelope], style: Style) -> Steps[list[Enqueued]]:
        return self._for_caller(joining(envelopes, self._flow_steps), style)

    def settle_in(self, settlement: Settlement, style: Style, run: Callable[[Statement], Rows]) -> Settled:
        slot = _CALLERS_SLOTS + zlib.crc32(settlement.lease.envelope.id.encode()) % _CALLERS_SLOTS
        tx = OnCallersConnection(run, self._sql, self._moved, slot=slot)
        return settle_fenced(tx, settlement, leave_to_completed)

    # The parts of `ServerBackend` that depend on the dialect

    def _turn(self, tx: Transaction, turn: Turn, released: Sequence[str], *, careful: bool = False) -> TurnResult:
        """Make a turn.  Sends all statements that do not depend on an answer before it reads the first answer."""
        session, to_cancel = tx.ask("lock_session", owner=turn.owner), tx.ask("asked_to_cancel", owner=turn.owner)
        settlements = Settling(tx, turn.owner, turn.settlements, careful=careful)
        if not settlements.plain:
            _alive(session)
            settlements.answer()
        claim = turn.claim if turn.claim is not None and turn.claim.limit > 0 else None
        asked = (
            None if claim is None else claiming.ask(tx, claim, self._walks, released=[*released, *settlements.released])
        )
        expires_at, now = _alive(session)
        settled = settlements.answer()
        claimed = claiming.Claimed(0, [])
        if asked is not None:
            claimed = claiming.hand_out(tx, asked, self._walks, owner=turn.owner, expires_at=expires_at, now=now)
        ended = settlements.ended
        if tx.touched:  # last: it locks rows of flows
            self._look_at_flows(tx)
        cancel_requested = tuple(held for held in _held(to_cancel) if held not in ended)
        return TurnResult(
            settled=settled,
            leases=claimed.leases,
            promoted=claimed.promoted,
            more=claimed.more,
            awaits_slots=claimed.awaits_slots,
            cancel_requested=cancel_requested,
            woken=sorted(tx.woken) if tx.woken else (),
        )

    def _take(self, tx: Transaction, owner: str, ids: list[str]) -> TurnResult:
        session, to_cancel = tx.ask("lock_session", owner=owner), tx.ask("asked_to_cancel", owner=owner)
        found = tx.ask("candidates_among", ids=ids)
        expires_at, now = _alive(session)
        leases = claiming.take(tx, found, owner=owner, expires_at=expires_at, now=now)
        return TurnResult(settled=[], leases=leases, cancel_requested=_held(to_cancel))

    def _for_caller(self, steps: NamedSteps[T], style: Style) -> Steps[T]:
        return foreign(self._sql, steps, self._moved)

    def _made(self, turn: Turn, released: Sequence[str] = ()) -> TurnResult:
        result = super()._made(turn, released)
        if result.more and not result.leases:
            time.sleep(
                random.uniform(*_UNTIL_UNLOCKED)
            )  # another transaction may have what this one could have claimed
        return result

    def _may_repeat(self, failures: Sequence[Exception]) -> bool:
        # A duplicate is an id or a key that was free when this transaction looked.
        repeatable = errors.is_transient(failures[-1]) or errors.is_duplicate(failures[-1])
        return repeatable and sum(map(errors.is_late, failures)) < _LATE

    def _lane_view(self, tx: Transaction) -> MySQLView:
        return MySQLView(tx, tx.ask("clock").value())

    def _transaction(self, connection: Connection) -> Transaction:
        return Transaction(connection, self._sql, self._moved)

    # Transactions

    def _write(self, act: Callable[[Transaction], Result]) -> Result:
        """Run ``act`` as one transaction, which is durable when this returns, and rolled back if it raises."""
        result, wakes = self._with_retries(lambda connection: self._run(connection, "begin", act))
        if wakes:
            self._waiting.wake()
        return result

    @set_aside_and_repeat
    def _read(self, act: Callable[[Transaction], Result]) -> Result:
        """Run ``act`` in one snapshot, whatever is written meanwhile."""
        return self._with_retries(lambda connection: self._run(connection, "begin_reading", act))[0]

    def _read_briefly(self, act: Callable[[Transaction], Result], seconds: float = LOOK_SECONDS) -> Result:
        def limited(tx: Transaction) -> Result:
            tx.ask("limit_reading", milliseconds=round(seconds * 1000))
            result = act(tx)
            tx.ask("unlimit_reading")
            return result

        def run(connection: Connection) -> Result:
            try:
                return self._run(connection, "begin_reading", limited)[0]
            except errors.DRIVERS:
                with suppress(*errors.DRIVERS):  # of a connection that is gone, the limit is gone too
                    tx = self._transaction(connection)
                    tx.ask("unlimit_reading")
                    tx.flush()
                raise

        return self._with_retries(run)

    def _run(self, connection: Connection, begin: str, act: Callable[[Transaction], Result]) -> tuple[Result, bool]:
        """Run it as one transaction.  Returns also whether a worker is to be woken."""
        tx = self._transaction(connection)
        try:
            tx.ask(begin)
            result = act(tx)
            if tx.touched:
                self._look_at_flows(tx)
            if tx.ended:  # last, so that no transaction waits for it longer than for the disk
                tx.ask("count_ended", slot=tx.slot(), number=tx.ended)
            tx.ask("commit")
            tx.flush()
        except BaseException:
            _roll_back(connection)
            raise
        return result, bool(tx.wakes)

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

        return self._with_retries(repair)

    def _store(self, envelopes: Sequence[Envelope]) -> bool:
        """Store envelopes by one statement, which is a transaction by itself; return False if that is not possible."""

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

        stored = self._with_retries(run)
        if stored and due_queues(envelopes):
            self._waiting.wake()
        return stored

    def _until_work(self, queues: Sequence[str]) -> float:
        """Return the seconds until one of these queues has work; 0 if one has some now."""

        def look(connection: Connection) -> list[float]:
            tx = self._transaction(connection)
            replies = {queue: tx.ask("next_due", queue=queue) for queue in dict.fromkeys(queues)}
            return [claiming.until_due(tx, queue, reply) for queue, reply in replies.items()]

        return min(self._with_retries(look), default=inf)


def _alive(session: Reply) -> tuple[int, int]:
    """Return when the session expires, and the store's time."""
    found = session.row()
    if found is None:
        raise SessionLost
    expires_at, now = found
    return expires_at, now


def _held(reply: Reply) -> tuple[Held, ...]:
    return tuple((job_id, token) for job_id, token in reply.rows())


def _roll_back(connection: Connection) -> None:
    if connection.in_step and connection.is_in_transaction:
        with suppress(*errors.DRIVERS):  # a connection that is gone has rolled back, too
            connection.send(b"ROLLBACK")
