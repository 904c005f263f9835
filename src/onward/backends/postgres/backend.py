"""The contract's verbs on a PostgreSQL database: each is one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
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
from onward.backends.postgres import claiming, enqueueing, errors, health, queries, reaping, tables
from onward.backends.postgres.completing import Lender, PostgresCompletion
from onward.backends.postgres.connection import Connection, Connections
from onward.backends.postgres.driver import psycopg
from onward.backends.postgres.inspection import PostgresInspection
from onward.backends.postgres.joining import foreign
from onward.backends.postgres.queue_marks import Marks
from onward.backends.postgres.settling import LeaseNotHeld, Settling, classify
from onward.backends.postgres.transaction import Reply, Row, Transaction
from onward.backends.postgres.transfer import PostgresTransfer
from onward.backends.postgres.url import parse_url
from onward.backends.postgres.wake import OVERLAP, Ear, Patience, named, pauses
from onward.backends.sql.damage import SqlSetsAside
from onward.backends.sql.enqueueing import StartOver, due_queues, is_simple
from onward.backends.sql.reaping import singly
from onward.backends.sql.same_database import same_home
from onward.backends.sql.sections import prefix_of
from onward.backends.sql.settling import why
from onward.backends.sql.statements import as_statements
from onward.backends.sql.tables import emptying
from onward.backends.sql.turns import in_two, is_parted
from onward.base.clock import SECOND, Clock
from onward.base.failure import Failure
from onward.base.ids import random_owner
from onward.contract.transactions import Dialect, Steps, Style
from onward.errors import BackendError, BackendRefused, BackendUnavailable

__all__ = ["PostgresBackend"]

Result = TypeVar("Result")

_TRIES = 10  # how often a transaction is run again that was undone for another's sake


class PostgresBackend(SqlSetsAside, PostgresInspection, PostgresTransfer, Backend):
    """Jobs in one database, for every process that can reach it."""

    dialect: Dialect = "postgresql"

    def __init__(self, connections: Connections, *, clock: Clock | None, prefix: str) -> None:
        super().__init__()
        self._clock = clock
        self._connections = connections
        self._prefix = prefix
        self._sql = queries.load(prefix)
        self._marks = Marks()
        self._ear = Ear(connections, self._sql["listen"])
        self._lender = Lender(connections)
        self._patience = Patience()
        self._sent_for_work = False
        self._name = random_owner()  # as a sleeper
        self._home: Row | None = None  # where our tables are, once we have looked

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None, namespace: str = "default") -> PostgresBackend:
        """For ``postgresql://user@host/database``; whoever is first to use it creates the tables."""
        address, options = parse_url(url)
        prefix = prefix_of(namespace)
        prepare = tables.preparation(prefix, None if clock is None else clock.micros())
        return cls(Connections(address, options, prepare=prepare), clock=clock, prefix=prefix)

    @property
    def capabilities(self) -> Capabilities:
        return DURABLE if self._connections.durable else LOSSY

    def connect(self) -> None:
        (self._home,) = self._ask("home")

    @set_aside_and_repeat
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False) -> list[Enqueued]:
        if not envelopes:
            return []
        if not is_simple(envelopes, retried=retried):
            return self._write(lambda tx: enqueueing.enqueue(tx, envelopes, retried=retried))
        rejected = self._again(lambda connection: self._store(connection, envelopes))
        return enqueueing.created(envelopes, rejected)

    @set_aside_and_repeat
    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        lease_for = round(session.lease_for.total_seconds() * SECOND)
        asked = {
            "owner": session.owner,
            "lease_for": lease_for,
            "host": session.host,
            "pid": session.pid,
            "version": session.version,
        }
        if adopts is None:
            self._ask("open_session", **asked)
            return []

        def adopt(tx: Transaction) -> list[Lease] | None:
            if not tx.ask("lock_sessions", owners=sorted({session.owner, adopts})).rows():
                return None
            opened = tx.ask("open_session", **asked)
            if adopts != session.owner:
                tx.ask("end_session", owner=adopts)
                tx.ask("adopt", adopted=adopts, owner=session.owner)
            expires_at = opened.value()
            return claiming.adopted(tx, owner=session.owner, expires_at=expires_at, now=expires_at - lease_for)

        return self._write(adopt)

    @set_aside_and_repeat
    def turn(self, turn: Turn) -> TurnResult:
        """Settle, promote what is due, claim: one answer per settlement, and one transaction if it ends no key."""
        self._ear.empty()
        result = in_two(turn, self._made) if is_parted(turn) else self._made(turn)
        if result.leases:
            self._sent_for_work = False
            self._patience.found_work()
        return result

    def _made(self, turn: Turn, released: Sequence[str] = ()) -> TurnResult:
        try:
            try:
                return self._write(lambda tx: _turn(tx, turn, self._marks, released))
            except (LeaseNotHeld, BackendRefused):
                return self._write(lambda tx: _turn(tx, turn, self._marks, released, careful=True))
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
        return [name for (name,) in self._ask("paused_queues")]

    @set_aside_and_repeat
    def extend(self, owner: str) -> Renewal:
        renewed = self._ask("renew_session", owner=owner)
        return Renewal(alive=True, cancel_requested=_held(*renewed[0])) if renewed else Renewal(alive=False)

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
        """Sleep until somebody says that there is work, a job falls due or it is time to look."""
        try:
            self._wait(queues, time.monotonic() + timeout)
        except BackendError:
            if not self._connections.closed:  # whoever closes it lets its sleepers go
                raise

    def _wait(self, queues: Sequence[str], deadline: float) -> None:
        if self._sent_for_work:  # and it claimed nothing
            time.sleep(max(0.0, min(self._patience.rest(), deadline - time.monotonic())))
        heard = False
        for pause in pauses(self._ear):
            due, self._patience.rivals = self._look(queues, pause)
            if due <= 0 or self._connections.closed:
                self._sent_for_work = due <= 0
                return
            if heard:
                self._patience.came_in_vain()
            heard = self._sleep(queues, min(deadline, time.monotonic() + min(pause, due)))
            if heard:
                moment = self._patience.moment()
                if not moment and not self._ear.deaf:  # nobody else is expected: to claim is the quickest look
                    self._sent_for_work = True
                    return
                time.sleep(moment)
            elif time.monotonic() >= deadline or self._connections.closed:
                return

    def health(self) -> list[Check]:
        with errors.translated(self._connections.place), self._connections.borrowed() as connection:
            return health.checks(connection, self._connections, self._prefix, self._transaction(connection))

    # Transactions of others

    def joining(self, envelopes: Sequence[Envelope], style: Style) -> Steps[list[Enqueued]]:
        now = {"now": None if self._clock is None else self._clock.micros()}
        return as_statements(
            enqueueing.joining(envelopes),
            lambda step: foreign(self._sql[step.name], {**now, **step.parameters}, style),
        )

    def recognizing(self, style: Style) -> Steps[None]:
        if self._home is None:
            self.connect()
        return as_statements(same_home(self._home), lambda step: foreign(self._sql[step.name], {}, style))

    def begin(self, *, at_most: float) -> PostgresCompletion:
        """Nobody else has to wait for it, so it may take its time."""
        return PostgresCompletion(
            self._lender,
            self._sql,
            place=self._connections.place,
            moved=None if self._clock is None else self._clock.micros(),
            wake=self._wake,
        )

    def completed(self, lease: Lease) -> bool:
        fence = {"id": lease.envelope.id, "token": lease.token}

        def look(tx: Transaction) -> bool:
            if tx.ask("lease_owner", **fence).rows():
                return False
            found: bool = tx.ask("is_completed", **fence).value()
            return found

        return self._write(look, pipelined=False)

    def note_after_completion(self, lease: Lease, failure: Failure, *, duration_ms: int) -> bool:
        return bool(
            self._ask(
                "note_after_completion",
                id=lease.envelope.id,
                token=lease.token,
                duration_ms=duration_ms,
                kind=failure.kind,
                message=failure.message,
                traceback=failure.traceback,
            )
        )

    def empty(self) -> None:
        def run(connection: Connection) -> None:
            with connection.transaction():
                for statement in emptying(self._prefix):
                    connection.execute(statement.encode())

        self._again(run)

    def close(self) -> None:
        self._connections.close()
        self._lender.close()
        self._ear.close()

    # Transactions

    def _write(self, act: Callable[[Transaction], Result], *, pipelined: bool = True) -> Result:
        """Run it as one transaction, which is durable when this ends well, and gone if it does not."""

        def run(connection: Connection) -> Result:
            tx = self._transaction(connection)
            done: tuple[Result, Reply] | None = None
            try:
                with connection.wire.pipeline() if pipelined else nullcontext():
                    tx.ask("begin")
                    if self._connections.pooled:
                        tx.ask("configure")
                    done = act(tx), tx.ask("commit")
                    if tx.wakes:
                        tx.ask("wake_apart", queues=named(tx.wakes))
            except psycopg.Error:
                if done is None or done[1].status != "COMMIT":
                    self._roll_back(tx, connection)
                    raise
                # Only the hint got lost: who sleeps looks now and then.
            except BaseException:
                self._roll_back(tx, connection)
                raise
            assert done is not None
            if done[1].status != "COMMIT":
                raise BackendUnavailable(f"{self._connections.place}: asked to commit, it answered {done[1].status}")
            return done[0]

        return self._again(run)

    def _read(self, act: Callable[[Transaction], Result]) -> Result:
        """One snapshot, whatever is written meanwhile."""

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

        return self._again(run)

    def _ask(self, name: str, **parameters: object) -> Sequence[Row]:
        """One statement, which is a transaction by itself."""
        return self._again(lambda connection: self._transaction(connection).ask(name, **parameters).rows())

    def _store(self, connection: Connection, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """One statement, and a notification after its commit if somebody waits for one; gives what was not stored."""
        tx = self._transaction(connection)
        rejected, somebody_waits = enqueueing.answer(enqueueing.store(tx, envelopes), envelopes)
        if somebody_waits and (queues := due_queues(envelopes)):
            with suppress(psycopg.Error):  # it is stored, and who sleeps looks now and then
                tx.ask("wake_apart", queues=named(queues))
        return rejected

    def _wake(self, queues: Collection[str]) -> None:
        if queues:
            self._ask("wake_apart", queues=named(queues))

    def _again(self, run: Callable[[Connection], Result]) -> Result:
        """Run it on a connection; again, if it was undone for another's sake."""
        with errors.translated(self._connections.place):
            for _ in range(_TRIES):
                try:
                    with self._connections.borrowed() as connection:
                        return run(connection)
                except StartOver:
                    pass
                except psycopg.Error as error:
                    if errors.is_pooler(error):
                        self._connections.stop_preparing()
                    elif not errors.is_transient(error):
                        raise
                time.sleep(random.uniform(0, 0.02))
        raise BackendUnavailable(f"{self._connections.place}: rolled back {_TRIES} times by conflicts: try again")

    def _transaction(self, connection: Connection) -> Transaction:
        return Transaction(connection.wire, self._sql, None if self._clock is None else self._clock.micros())

    def _roll_back(self, tx: Transaction, connection: Connection) -> None:
        with suppress(psycopg.Error):  # a connection that is gone has undone it, too
            if connection.pgconn.transaction_status in _UNDER_WAY:
                tx.ask("rollback")

    def _look(self, queues: Sequence[str], pause: float) -> tuple[float, int]:
        """Seconds until one of these queues has work, and how many others wait for it."""
        sleeps = round((pause + OVERLAP) * SECOND) if self._ear.listens else None
        wanted = list(dict.fromkeys(queues))
        begin = self._marks.for_look(wanted)
        ((due, rivals),) = self._ask("next_due", **begin, queues=wanted, waiter=self._name, sleeps=sleeps)
        return inf if due is None else due / SECOND, rivals

    def _sleep(self, queues: Sequence[str], until: float) -> bool:
        while not self._connections.closed and (seconds := until - time.monotonic()) > 0:
            if self._ear.sleep(queues, seconds):
                return True
        return False


def _turn(tx: Transaction, turn: Turn, marks: Marks, released: Sequence[str], *, careful: bool = False) -> TurnResult:
    """What does not need an answer is asked before the first one is read."""
    session = tx.ask("lock_session", owner=turn.owner)
    claim = turn.claim if turn.claim is not None and turn.claim.limit > 0 else None
    claimed = () if claim is None else claim.queues
    settling = Settling(tx, turn.owner, turn.settlements, claimed=claimed, careful=careful)
    if not settling.is_plain:
        _alive(session)
        settling.answer()
    given_back = [*released, *settling.released]
    asked = None if claim is None else claiming.ask(tx, claim, marks, owner=turn.owner, released=given_back)
    expires_at, now, to_cancel = _alive(session)
    settled = settling.answer()
    leases: list[Lease] = []
    promoted = 0
    if asked is not None:
        promoted = settling.promoted + asked.promoted.value()
        leases = claiming.leases(tx, asked, marks, owner=turn.owner, expires_at=expires_at, now=now)
    cancel_requested = tuple(held for held in to_cancel if held not in settling.ended) if to_cancel else ()
    return TurnResult(
        settled=settled,
        leases=leases,
        promoted=promoted,
        cancel_requested=cancel_requested,
        woken=sorted(tx.woken) if tx.woken else (),
    )


def _take(tx: Transaction, owner: str, ids: list[str]) -> TurnResult:
    session = tx.ask("lock_session", owner=owner)
    claimed = tx.ask("claim_among", ids=ids, owner=owner)
    expires_at, now, to_cancel = _alive(session)
    leases = claiming.taken(tx, claimed, ids, owner=owner, expires_at=expires_at, now=now)
    return TurnResult(settled=[], leases=leases, cancel_requested=to_cancel)


def _alive(session: Reply) -> tuple[int, int, tuple[Held, ...]]:
    """When the session expires, the time, and what it holds that was asked to cancel."""
    found = session.row()
    if found is None:
        raise _SessionLost
    expires_at, now, *asked = found
    return expires_at, now, _held(*asked)


def _held(ids: Sequence[str], tokens: Sequence[int]) -> tuple[Held, ...]:
    return tuple(zip(ids, tokens, strict=True))


class _SessionLost(Exception):
    """There is no such session: whatever was done in its name is undone."""


_UNDER_WAY = (psycopg.pq.TransactionStatus.INTRANS, psycopg.pq.TransactionStatus.INERROR)
