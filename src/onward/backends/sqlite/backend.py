"""The contract's verbs on one SQLite file: each is one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar, Unpack

from onward.backend import (
    DURABLE,
    LOSSY,
    Audit,
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
    Settled,
    Settlement,
    StoredJob,
    Turn,
    TurnResult,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.options import Durability
from onward.backends.options import durability as checked_durability
from onward.backends.sql import sections
from onward.backends.sql.audit import created
from onward.backends.sql.damage import COLUMNS, SetsRowsAside
from onward.backends.sql.health import of_leases
from onward.backends.sql.limits import declare
from onward.backends.sql.rows import showing
from onward.backends.sql.sections import emptying, prefix_of
from onward.backends.sql.settling import FenceMismatch
from onward.backends.sql.statements import Named, NamedSteps, as_statements
from onward.backends.sqlite import claiming, enqueueing, health, library, maintenance, reaping, schema, settling
from onward.backends.sqlite.completing import CallersConnection, SqliteCompleted, SqliteCompletion, settle_fenced
from onward.backends.sqlite.connection import Connections
from onward.backends.sqlite.flows import SqliteFlows, SqliteFlowSteps
from onward.backends.sqlite.inspection import SqliteInspection
from onward.backends.sqlite.joining import at, check_file, foreign
from onward.backends.sqlite.lanes import LanesSeen, SqliteLimits
from onward.backends.sqlite.notes import SqliteNotes
from onward.backends.sqlite.schedules import SqliteSchedules
from onward.backends.sqlite.transaction import Transaction, Transactions
from onward.backends.sqlite.transfer import SqliteTransfer
from onward.backends.sqlite.url import Options, anchored, parse_url
from onward.backends.sqlite.wake import Sleeper, WakePipe
from onward.base.clock import SECOND, Clock, SystemClock
from onward.contract.transactions import Dialect, Rows, Statement, Steps, Style, in_the_way, waits_for_itself
from onward.errors import BackendMisconfigured

__all__ = ["SqliteBackend"]

Result = TypeVar("Result")

_LOOK_EVERY, _NEVER = 0.05, 1 << 62


class SqliteBackend(
    SqliteFlows,
    SetsRowsAside,
    SqliteLimits,
    SqliteInspection,
    SqliteNotes,
    SqliteSchedules,
    SqliteTransfer,
    SqliteCompleted,
    Backend,
):
    """Jobs in one file, for every process of this machine."""

    dialect: Dialect = "sqlite"
    exclusive = True
    claims_at_once = 1000  # a file has one writer at a time: the fewer turns, the less they wait for each other
    _damaged_columns = (*COLUMNS, "flow", "node")

    def __init__(self, connections: Connections, pipe: WakePipe, *, clock: Clock, prefix: str) -> None:
        super().__init__()
        self.clock = clock
        self.url = anchored("", connections.path)  # absolute, to open the file from any folder
        self._connections, self._pipe, self._prefix = connections, pipe, prefix
        self._sql = sections.load("onward.backends.sqlite", prefix)
        self._flow_steps = SqliteFlowSteps()
        wake, look = self._wake, self._look_at_flows
        self._transactions = Transactions(self, connections, self._sql, clock=clock, wake=wake, look=look)
        self._lanes = LanesSeen()
        self._expects_work = False  # whether the next claim will find a job, as far as is known here
        self._writing, self._reading = self._transactions.writing, self._transactions.reading

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        clock: Clock | None = None,
        namespace: str = "default",
        **options: Unpack[Options],
    ) -> SqliteBackend:
        """Open the file, and create it and its tables if they are not there."""
        backend = cls.at(path, clock=clock, namespace=namespace, **options)
        backend.connect()
        return backend

    @classmethod
    def at(
        cls,
        path: str | PathLike[str],
        *,
        clock: Clock | None = None,
        namespace: str = "default",
        durability: Durability = "full",
        busy_timeout: float = 30.0,
    ) -> SqliteBackend:
        """Make a backend for the file at this path, without opening or creating the file."""
        clock = clock or SystemClock()
        durable = checked_durability(durability) == "full"
        prefix = prefix_of(namespace)
        file = _checked(path)

        def prepare(connection: sqlite3.Connection) -> None:
            schema.migrate(connection, prefix, now=clock.micros())

        connections = Connections(file, durable=durable, busy_timeout=busy_timeout, prepare=prepare)
        pipe = WakePipe(file.with_name(f"{file.name}-wake" + ("" if namespace == "default" else f"-{namespace}")))
        return cls(connections, pipe, clock=clock, prefix=prefix)

    @classmethod
    def from_url(cls, url: str, *, clock: Clock | None = None, namespace: str = "default") -> SqliteBackend:
        """Make a backend for ``sqlite:///relative.db`` or ``sqlite:////absolute/path.db``, with options after a ``?``."""
        path, options = parse_url(url)
        backend = cls.at(path, clock=clock, namespace=namespace, **options)
        backend.url = anchored(url, Path(path).absolute())
        return backend

    @property
    def capabilities(self) -> Capabilities:
        return DURABLE if self._connections.durable else LOSSY

    def connect(self) -> None:
        self._connections.connect()

    @set_aside_and_repeat
    def enqueue(self, envelopes: Sequence[Envelope], *, retried: bool = False, audit: Audit = ()) -> list[Enqueued]:
        if not audit:
            return enqueueing.store(self._transactions, envelopes, retried=retried) if envelopes else []
        act = partial(enqueueing.enqueue, envelopes=envelopes, retried=retried)
        return self._write(self._audited(act, audit, created))

    @set_aside_and_repeat
    def open_session(self, session: Session, *, adopts: str | None = None) -> list[Lease] | None:
        with self._writing() as tx:
            if adopts is not None and not tx.value("either_session", (adopts, session.owner)):
                return None
            lease_for = round(session.lease_for.total_seconds() * SECOND)
            tx.run(
                "open_session",
                {
                    "owner": session.owner,
                    "expires_at": tx.now + lease_for,
                    "lease_for": lease_for,
                    "host": session.host,
                    "pid": session.pid,
                    "version": session.version,
                    "description": session.description,
                },
            )
            declare(tx, session.limits)
            if adopts is None:
                return []
            if adopts != session.owner:
                tx.ask("end_session", owner=adopts)
                tx.run("adopt", (adopts, session.owner))
            return claiming.adopted(tx, session.owner, tx.now + lease_for)

    @set_aside_and_repeat
    def turn(self, turn: Turn) -> TurnResult:
        """Settle, promote what is due, claim: one transaction, one answer per settlement."""
        expects_work = self._expects_work
        if turn.claim is not None:
            self._expects_work = False
        if not turn.settlements and not expects_work and (result := self._idle(turn)) is not None:
            return result
        try:
            return self._turn(turn, one_by_one=False)
        except FenceMismatch:  # rolled back; a savepoint in every turn would cost more than making this one twice
            return self._turn(turn, one_by_one=True)

    def _turn(self, turn: Turn, *, one_by_one: bool) -> TurnResult:
        with self._writing() as tx:
            session = tx.row("session", (turn.owner,))
            if session is None:
                settled = [settling.classify(tx, settlement) for settlement in turn.settlements]
                return TurnResult(settled=settled, leases=[], alive=False)
            expires_at, any_asked, any_keyed, any_paused = session
            settled = []
            if turn.settlements:
                settled = settling.settle(
                    tx,
                    turn.owner,
                    turn.settlements,
                    any_asked=any_asked,
                    any_keyed=any_keyed,
                    one_by_one=one_by_one,
                )
            leases: list[Lease] = []
            more = awaits_slots = False
            if turn.claim is not None and turn.claim.limit > 0:
                queues = claiming.open_queues(tx, turn.claim.queues, any_paused=any_paused)
                leases, more, awaits_slots = claiming.claim(
                    tx,
                    turn.claim,
                    queues,
                    settling.released(turn.settlements, settled),
                    self._lanes,
                    owner=turn.owner,
                    expires_at=expires_at,
                )
            if settling.frees_room(turn.settlements, () if leases else self._lanes.queues):
                tx.wakes = True
            # Under the lock no other process can ask.
            cancel_requested = _asked_to_cancel(tx, turn.owner) if any_asked else ()
            return TurnResult(
                settled=settled,
                leases=leases,
                promoted=tx.promoted,
                more=more,
                awaits_slots=awaits_slots,
                cancel_requested=cancel_requested,
                woken=tx.woken,
            )

    @set_aside_and_repeat
    def take(self, owner: str, ids: Sequence[str]) -> TurnResult:
        with self._writing() as tx:
            session = tx.row("session", (owner,))
            if session is None:
                return TurnResult(settled=[], leases=[], alive=False)
            leases = claiming.take(tx, ids, owner=owner, expires_at=session[0])
            return TurnResult(settled=[], leases=leases, cancel_requested=_asked_to_cancel(tx, owner))

    def paused(self) -> Sequence[str]:
        with self._reading() as tx:
            return [name for (name,) in tx.rows("paused_queues")]

    @set_aside_and_repeat
    def _renew(self, owner: str) -> Renewal:
        with self._writing() as tx:
            if not tx.run("renew_session", (owner, tx.now)):
                return Renewal(alive=False)
            return Renewal(alive=True, cancel_requested=_asked_to_cancel(tx, owner))

    @set_aside_and_repeat
    def reap(
        self,
        *,
        owner: str | None = None,
        queue: str | None = None,
        started: Sequence[Held] | None = None,
        cause: str | None = None,
    ) -> list[Reaped]:
        asked = self.clock.micros()
        with self._writing() as tx:
            reaped = reaping.reap(tx, owner=owner, queue=queue, started=started, cause=cause, expired_by=asked)
        if owner is None and queue is None:
            self._sweep_flows()
        return reaped

    def wait(self, queues: Sequence[str], timeout: float) -> None:
        """Sleep until woken, until the file changes or until a job falls due."""
        sleeper = Sleeper(self._pipe, timeout)
        seen: int | None = None
        due = _NEVER
        while not self._connections.closed:
            version = self._connections.version()
            if sleeper.woken or version != seen:
                seen, due = version, self._next_due(queues)
            until_due = (due - self.clock.micros()) / SECOND
            if sleeper.is_over(due, until_due):
                self._expects_work = until_due <= 0
                return
            sleeper.sleep(_LOOK_EVERY)

    def advice(self) -> Sequence[str]:
        complaint = library.complaint(sqlite3.sqlite_version_info)
        return [] if complaint is None else [complaint]

    def health(self) -> list[Check]:
        path = self._connections.path
        with self._connections.reading() as connection:
            tx = Transaction(connection, self._sql, self.clock.micros())
            return [
                health.of_library(),
                *health.of_file(path),
                *health.of_connection(connection, path, self._prefix),
                of_leases(tx.value("oldest_stranded", (tx.now,)), tx.now),
            ]

    # Transactions of callers

    def joining(self, envelopes: Sequence[Envelope], style: Style) -> Steps[list[Enqueued]]:
        now = self.clock.micros()
        steps = enqueueing.joining(envelopes, now, self._flow_steps)
        return as_statements(steps, lambda step: foreign(self._sql[step.name], at(now, step.parameters), style))

    def showing(self, job_id: str, style: Style) -> Steps[StoredJob | None]:
        return as_statements(showing(job_id), lambda step: foreign(self._sql[step.name], step.parameters, style))

    def settle_in(self, settlement: Settlement, style: Style, run: Callable[[Statement], Rows]) -> Settled:
        tx = Transaction(CallersConnection(run, style), self._sql, self.clock.micros())
        return settle_fenced(tx, settlement, self._look_at_flows)

    def recognizing(self, style: Style) -> Steps[None]:
        def look() -> NamedSteps[None]:
            check_file(self._connections.path, (yield Named("this_database", ())))

        return as_statements(look(), lambda step: foreign(self._sql[step.name], step.parameters, style))

    def begin(self, *, at_most: float) -> SqliteCompletion:
        if in_the_way.get() is self:
            raise waits_for_itself()
        clock, wake, look = self.clock, self._wake, self._look_at_flows
        return SqliteCompletion(self._connections, self._sql, clock=clock, at_most=at_most, wake=wake, look=look)

    def empty(self) -> None:
        with self._connections.writing() as connection:
            for statement in emptying(self._prefix, *schema.FLOW_TABLES):
                connection.execute(statement)

    def close(self) -> None:
        self._connections.close()
        self._pipe.close()

    def _repair_text(self) -> int:
        return maintenance.repair_text(self._connections, self._prefix)

    def _write(self, act: Callable[[Transaction], Result]) -> Result:
        with self._writing() as tx:
            return act(tx)

    def _read(self, act: Callable[[Transaction], Result]) -> Result:
        with self._reading() as tx:
            return act(tx)

    def _shrink(self) -> None:
        with self._connections.tidying() as connection:
            maintenance.tidy(connection, self._connections.path)

    def _wake(self) -> None:
        """Wake a worker: a transaction has made a job due, or has left one behind."""
        self._expects_work = True
        self._pipe.wake()

    def _idle(self, turn: Turn) -> TurnResult | None:
        """Return the answer to a turn that has nothing to write, without the write lock; None if it has something."""
        with self._reading() as tx:
            session = tx.row("session", (turn.owner,))
            if session is None:
                return TurnResult(settled=[], leases=[], alive=False)
            _, any_asked, _, any_paused = session
            awaits_slots: bool | None = False
            if turn.claim is not None and turn.claim.limit > 0:
                queues = claiming.open_queues(tx, turn.claim.queues, any_paused=any_paused)
                awaits_slots = claiming.nothing_to_do(tx, turn.claim, queues, self._lanes)
            if awaits_slots is None:
                return None
            asked = _asked_to_cancel(tx, turn.owner) if any_asked else ()
            return TurnResult(settled=[], leases=[], awaits_slots=awaits_slots, cancel_requested=asked)

    def _next_due(self, queues: Sequence[str]) -> int:
        """Return when there is work: 0 if a job is available, for which a process woke a worker; else the next due time."""
        with self._reading() as tx:
            due = [claiming.work_from(tx, queue) for queue in claiming.open_queues(tx, queues)]
            return min((at for at in due if at is not None), default=_NEVER)


def _asked_to_cancel(tx: Transaction, owner: str) -> tuple[Held, ...]:
    return tuple((job_id, token) for job_id, token, _ in tx.rows("asked_to_cancel", (owner,)))


def _checked(path: str | PathLike[str]) -> Path:
    """Return the file's absolute path: a daemon may change its folder before it connects again."""
    if str(path) in ("", ":memory:"):
        raise BackendMisconfigured("an SQLite database in memory is visible to one connection only: use memory://")
    library.check()
    return Path(path).absolute()
