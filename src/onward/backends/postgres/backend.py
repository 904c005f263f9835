"""The contract's verbs on a PostgreSQL database: each is one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from math import inf
from typing import TypeVar

from onward.backend import (
    Audit,
    Enqueued,
    Envelope,
    Held,
    Lease,
    RanBy,
    Renewal,
    Settled,
    Settlement,
    Turn,
    TurnResult,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.postgres import claiming, enqueueing, errors, health, lanes, queries, reaping, settling, tables
from onward.backends.postgres.completing import Lender, OnCallersConnection, PostgresCompletion, settle_fenced
from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.flows import FLOW_TABLES, PostgresFlows, PostgresFlowSteps
from onward.backends.postgres.inspection import PostgresInspection
from onward.backends.postgres.joining import foreign
from onward.backends.postgres.lanes import LaneClaims
from onward.backends.postgres.limits import PostgresLimits
from onward.backends.postgres.queue_marks import QueueMarks
from onward.backends.postgres.schedules import PostgresSchedules
from onward.backends.postgres.settling import Settling
from onward.backends.postgres.transaction import Reply, Transaction
from onward.backends.postgres.transfer import PostgresTransfer
from onward.backends.postgres.url import parse_url
from onward.backends.postgres.wake import EVERY_QUEUE, PostgresWaiting, named
from onward.backends.sql.audit import created
from onward.backends.sql.damage import COLUMNS
from onward.backends.sql.enqueueing import due_queues, is_simple
from onward.backends.sql.flow_members import leave_to_completed
from onward.backends.sql.flows import touch
from onward.backends.sql.notes import ServerNotes
from onward.backends.sql.sections import emptying, prefix_of
from onward.backends.sql.server import ServerBackend, SessionLost
from onward.backends.sql.settling import FenceMismatch
from onward.backends.sql.statements import NamedSteps, as_statements
from onward.base import forks
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure
from onward.base.ids import random_owner
from onward.contract.transactions import Dialect, Rows, Statement, Steps, Style
from onward.errors import BackendRefused, BackendUnavailable

__all__ = ["PostgresBackend"]

T = TypeVar("T")
Result = TypeVar("Result")

_UNTIL_UNLOCKED = (0.002, 0.008)  # seconds after which another turn may have given up its locks


class PostgresBackend(
    PostgresFlows,
    ServerBackend,
    PostgresLimits,
    PostgresInspection,
    ServerNotes,
    PostgresSchedules,
    PostgresTransfer,
):
    """Jobs in one database, for every process that can reach it."""

    exclusive = False
    dialect: Dialect = "postgresql"
    _claiming, _errors, _health, _reaping, _settling = claiming, errors, health, reaping, settling
    _driver_error = psycopg.Error
    _connections: Connections
    _waiting: PostgresWaiting
    _settles_singly_after = (FenceMismatch, BackendRefused)
    _damaged_columns = (*COLUMNS, "flow", "node")

    def __init__(self, connections: Connections, *, clock: Clock | None, prefix: str) -> None:
        super().__init__(connections, clock=clock, prefix=prefix)
        self._sql = queries.load(prefix)
        self._marks = QueueMarks()
        self._flow_steps = PostgresFlowSteps()
        self._lanes = LaneClaims(prefix)
        self._is_waited_for = False  # at the latest enqueue a worker was idle
        self._contended = False  # the latest claim got nothing, because another turn had the locks
        self._lender = Lender(connections)
        self._take_name()
        forks.call_in_child(self._take_name)
        self._waiting = PostgresWaiting(connections, self._sql["listen"], self._look)

    def _take_name(self) -> None:
        self._name = random_owner()  # of the row of this process in the table of idle workers

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None, namespace: str = "default") -> PostgresBackend:
        """Make a backend for ``postgresql://user@host/database``; its first use creates the tables."""
        address, options = parse_url(url)
        prefix = prefix_of(namespace)
        prepare = tables.preparation(prefix, None if clock is None else clock.micros())
        return cls(Connections(address, options, prepare=prepare), clock=clock, prefix=prefix)

    @set_aside_and_repeat
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        if not envelopes:
            return []
        if audit or not is_simple(envelopes, retried=retried):
            act = partial(enqueueing.enqueue, envelopes=envelopes, retried=retried)
            return self._write(self._audited(act, audit, created))
        rejected = self._with_retries(lambda connection: self._store(connection, envelopes))
        return enqueueing.created(envelopes, rejected)

    @set_aside_and_repeat
    def _renew(self, owner: str) -> Renewal:
        renewed = self._ask("renew_session", owner=owner)
        return Renewal(alive=True, cancel_requested=_held(*renewed[0])) if renewed else Renewal(alive=False)

    def begin(self, *, at_most: float) -> PostgresCompletion:
        """Open a transaction for a handler.  No other process has to wait for it, so it has no time limit."""
        return PostgresCompletion(
            self._lender,
            self._sql,
            place=self._connections.place,
            moved=self._moved,
            wake=self._wake,
            look=self._look_joined,
        )

    def completed(self, lease: Lease) -> bool:
        fence = {"id": lease.envelope.id, "token": lease.token}

        def look(tx: Transaction) -> bool:
            if tx.ask("lease_owner", **fence).rows():
                return False
            found: bool = tx.ask("is_completed", **fence).value()
            if found and lease.member:  # the transaction has left its flow to this look
                touch(tx.touched, tx.ask("place_of", id=lease.envelope.id).rows())
            return found

        return self._write(look, pipelined=False)

    def note_after_completion(
        self, lease: Lease, failure: Failure, *, duration_ms: int, by: RanBy | None = None
    ) -> bool:
        return bool(
            self._ask(
                "note_after_completion",
                id=lease.envelope.id,
                token=lease.token,
                duration_ms=duration_ms,
                kind=failure.kind,
                message=failure.message,
                traceback=failure.traceback,
                fingerprint=failure.fingerprint,
                ran_by=None if by is None else by.encoded(),
            )
        )

    def empty(self) -> None:
        def run(connection: Connection) -> None:
            with connection.transaction():
                for statement in emptying(self._prefix, *FLOW_TABLES):
                    connection.execute(statement.encode())

        self._with_retries(run)

    def close(self) -> None:
        self._connections.close()
        self._lender.close()
        self._waiting.close()

    def joining(self, envelopes: Sequence[Envelope], style: Style) -> Steps[list[Enqueued]]:
        return self._for_caller(enqueueing.joining(envelopes, self._flow_steps.joined), style)

    def settle_in(self, settlement: Settlement, style: Style, run: Callable[[Statement], Rows]) -> Settled:
        tx = Transaction(OnCallersConnection(run, style), self._sql, self._moved)
        return settle_fenced(tx, settlement, leave_to_completed)

    # The parts of `ServerBackend` that depend on the dialect

    def _count_claims_under_way(self, queue: str) -> None:
        # A claim that began before the limit was committed gave its jobs no lane, and its leases were not there yet to be
        # counted.  Each locks the row of its session first; later claims see the limit.
        self._await_claims()
        self._write(lambda tx: tx.ask("count_running", queue=queue))

    def _turn(self, tx: Transaction, turn: Turn, released: Sequence[str], *, careful: bool = False) -> TurnResult:
        """Make a turn.  Sends all statements that do not depend on an answer before it reads the first answer."""
        session = tx.ask("lock_session", owner=turn.owner)
        claim = turn.claim if turn.claim is not None and turn.claim.limit > 0 else None
        claimed = () if claim is None else claim.queues
        settlements = Settling(tx, turn.owner, turn.settlements, claimed=claimed, careful=careful)
        if not settlements.is_plain:
            _alive(session)
            settlements.answer()
        given_back = [*released, *settlements.released]
        asked = None
        if claim is not None:
            ended = settlements.certain if self._lanes.counts else ()
            asked = claiming.ask(
                tx, claim, self._marks, self._lanes, owner=turn.owner, released=given_back, ended=ended
            )
        expires_at, now, to_cancel = _alive(session)
        settled = settlements.answer()
        got = claiming.Claimed([])
        promoted = 0
        if asked is not None:
            promoted = settlements.promoted + asked.promoted.value()
            holder = claiming.Holder(turn.owner, expires_at, now)
            got = claiming.claimed(tx, asked, self._marks, self._lanes, holder)
        if self._lanes.counts:
            self._wake_for_slots(tx, turn.settlements, settled, got.leases)
        self._contended = got.contended and not got.leases
        if tx.touched:
            self._look_at_flows(tx)
        cancel_requested = tuple(held for held in to_cancel if held not in settlements.ended) if to_cancel else ()
        return TurnResult(
            settled=settled,
            leases=got.leases,
            promoted=promoted,
            more=got.more,
            awaits_slots=got.awaits_slots,
            cancel_requested=cancel_requested,
            woken=sorted(tx.woken) if tx.woken else (),
        )

    def _made(self, turn: Turn, released: Sequence[str] = ()) -> TurnResult:
        result = super()._made(turn, released)
        if self._contended and result.more and not result.leases:
            time.sleep(random.uniform(*_UNTIL_UNLOCKED))  # another turn had what this one could have claimed from
        return result

    def _wake_for_slots(
        self, tx: Transaction, settlements: Sequence[Settlement], settled: Sequence[Settled], leases: Sequence[Lease]
    ) -> None:
        """Wake others for slots that this turn has freed and does not use itself."""
        slots = lanes.freed(settlements, settled, self._lanes)
        slots.subtract(lease.envelope.queue for lease in leases)
        if any(number > 0 for number in slots.values()):
            tx.wakes.add(EVERY_QUEUE)  # the limit of a job counts over all queues

    def _take(self, tx: Transaction, owner: str, ids: list[str]) -> TurnResult:
        session = tx.ask("lock_session", owner=owner)
        claimed = tx.ask("claim_among", ids=ids, owner=owner)
        expires_at, now, to_cancel = _alive(session)
        leases = claiming.taken(tx, claimed, ids, owner=owner, expires_at=expires_at, now=now)
        return TurnResult(settled=[], leases=leases, cancel_requested=to_cancel)

    def _for_caller(self, steps: NamedSteps[T], style: Style) -> Steps[T]:
        now = {"now": self._moved}
        return as_statements(steps, lambda step: foreign(self._sql[step.name], {**now, **step.parameters}, style))

    def _may_repeat(self, failures: Sequence[Exception]) -> bool:
        if errors.is_pooler(failures[-1]):
            self._connections.stop_preparing()
            return True
        return errors.is_transient(failures[-1])

    # Transactions

    def _write(self, act: Callable[[Transaction], Result], *, pipelined: bool = True) -> Result:
        """Run ``act`` as one transaction, which is durable when this returns, and rolled back if it raises."""
        return self._with_retries(lambda connection: self._written(connection, act, pipelined=pipelined))

    def _written(
        self, connection: Connection, act: Callable[[Transaction], Result], *, pipelined: bool = True
    ) -> Result:
        tx = self._transaction(connection)
        done: tuple[Result, Reply] | None = None
        try:
            with connection.wire.pipeline() if pipelined else nullcontext():
                tx.ask("begin")
                if self._connections.pooled:
                    tx.ask("configure")
                result = act(tx)
                if tx.touched:
                    self._look_at_flows(tx)
                done = result, tx.commit()
                if tx.wakes:
                    tx.ask("wake_apart", queues=named(tx.wakes))
        except psycopg.Error:
            if done is None or done[1].status != "COMMIT":
                self._roll_back(tx, connection)
                raise
            # Only the notification is lost: idle workers also poll.
        except BaseException:
            self._roll_back(tx, connection)
            raise
        assert done is not None
        if done[1].status != "COMMIT":
            raise BackendUnavailable(f"{self._connections.place}: the server answered COMMIT with {done[1].status}")
        return done[0]

    def _read(self, act: Callable[[Transaction], Result]) -> Result:
        """Run ``act`` in one snapshot, whatever is written meanwhile."""

        def run(connection: Connection) -> Result:
            tx = self._transaction(connection)
            try:
                with connection.wire.pipeline():
                    tx.ask("begin_reading")
                    result = act(tx)
                    tx.ask("commit")
            except BaseException:
                self._roll_back(tx, connection)
                raise
            return result

        return self._with_retries(run)

    def _store(self, connection: Connection, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store by one statement, and notify after its commit if a worker is idle; return what was not stored."""
        if self._is_waited_for and (queues := due_queues(envelopes)):
            with suppress(psycopg.errors.UniqueViolation):
                return self._store_and_notify(connection, envelopes, queues)
        tx = self._transaction(connection)
        rejected, self._is_waited_for = enqueueing.answer(enqueueing.store(tx, envelopes), envelopes)
        if self._is_waited_for and (queues := due_queues(envelopes)):
            with suppress(psycopg.Error):  # the jobs are stored, and idle workers also poll
                tx.ask("wake_apart", queues=named(queues))
        return rejected

    def _store_and_notify(
        self, connection: Connection, envelopes: Sequence[Envelope], queues: Collection[str]
    ) -> list[Envelope]:
        """Do the same where a worker was idle at the latest enqueue: the notification does not wait for the answer."""

        def store(tx: Transaction) -> Callable[[], Rows]:
            tx.wakes.update(queues)
            return enqueueing.storing(tx, envelopes)

        rows = self._written(connection, store)
        rejected, self._is_waited_for = enqueueing.answer(rows(), envelopes)
        return rejected

    def _wake(self, queues: Collection[str]) -> None:
        if queues:
            self._ask("wake_apart", queues=named(queues))

    def _transaction(self, connection: Connection) -> Transaction:
        return Transaction(connection.wire, self._sql, self._moved)

    def _roll_back(self, tx: Transaction, connection: Connection) -> None:
        with suppress(psycopg.Error):  # a connection that is gone has rolled back, too
            if connection.pgconn.transaction_status in _UNDER_WAY:
                tx.ask("rollback")

    def _look(self, queues: Sequence[str], sleeps: float | None) -> tuple[float, int]:
        """Return the seconds until one of these queues has work, and how many other idle workers wait for it.

        ``sleeps``: for how many seconds this process is to be notified; None: it does not listen.
        """
        wanted = list(dict.fromkeys(queues))
        begin = self._marks.for_look(wanted)
        until = None if sleeps is None else round(sleeps * SECOND)
        ((due, rivals, walked),) = self._ask("next_due", **begin, queues=wanted, waiter=self._name, sleeps=until)
        if walked and (due is None or due > 0):
            opens = self._read(lambda tx: lanes.opens_in(tx, walked, self._marks.lanes))
            due = opens if due is None or (opens is not None and opens < due) else due
        return inf if due is None else due / SECOND, rivals


def _alive(session: Reply) -> tuple[int, int, tuple[Held, ...]]:
    """Return when the session expires, the time, and its leases that were asked to cancel."""
    found = session.row()
    if found is None:
        raise SessionLost
    expires_at, now, *asked = found
    return expires_at, now, _held(*asked)


def _held(ids: Sequence[str], tokens: Sequence[int]) -> tuple[Held, ...]:
    return tuple(zip(ids, tokens, strict=True))


_UNDER_WAY = (psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR)
