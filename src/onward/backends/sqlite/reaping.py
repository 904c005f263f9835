"""Giving back the leases of ended sessions."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from onward.backend import Held, Reaped
from onward.backends.sql.deaths import workers_of
from onward.backends.sql.settling import Lost, why
from onward.backends.sqlite import holds
from onward.backends.sqlite.settling import Moves
from onward.backends.sqlite.transaction import Transaction
from onward.base.logs import get_logger
from onward.job.ran_by import RanBy
from onward.job.settlement import Leased

__all__ = ["reap"]

_logger = get_logger("onward.backend.sqlite")


class _Lease(NamedTuple):
    id: str
    token: int
    owner: str
    queue: str
    job: str
    crashes: int
    max_crashes: int
    cancel_reason: str | None
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None
    member: int
    by: RanBy | None = None  # the worker of the session

    def keyed(self) -> holds.Keyed | None:
        if self.idempotency_key is None and self.single_instance is None:
            return None
        return holds.Keyed(self.id, self.token, self.idempotency_key, self.idempotency_ttl, self.single_instance)


def reap(
    tx: Transaction,
    *,
    owner: str | None,
    queue: str | None,
    started: Collection[Held] | None,
    cause: str | None,
    expired_by: int,
) -> list[Reaped]:
    """End the session, or all that expired, and give back what they held.

    Only sessions that had expired when this was called count: a process that held the write lock since then kept the others
    from renewing theirs.
    """
    if owner is None:
        ended = tx.rows("end_expired_sessions", (expired_by, queue))
        leases = [_Lease(*row) for row in tx.rows("orphans", (queue,))]
    else:
        ended = tx.ask("end_session", owner=owner).rows()
        leases = [_Lease(*row) for row in tx.rows("dead_leases", (owner, queue))]
    if not leases:
        return []
    because, workers = why(owner, cause), workers_of(ended)
    leases = [lease._replace(by=workers.get(lease.owner)) for lease in leases]
    held = {(lease.id, lease.token) for lease in leases}
    crashed = held if started is None else held.intersection(started)
    tx.wakes = True
    try:
        with tx.savepoint():
            return _give_back(tx, leases, crashed, because)
    except sqlite3.IntegrityError:
        return [reaped for lease in leases for reaped in _give_back_alone(tx, lease, crashed, because)]


def _give_back_alone(tx: Transaction, lease: _Lease, crashed: Collection[Held], cause: str) -> Iterable[Reaped]:
    """Give back one lease.  A job that the store refuses does not keep the others: it stays an orphan for the next sweep."""
    try:
        with tx.savepoint():
            return _give_back(tx, [lease], crashed, cause)
    except sqlite3.IntegrityError as error:
        _logger.exception("job %s cannot be given back: %s", lease.id, error)  # noqa: TRY401
        return []


def _give_back(tx: Transaction, leases: Sequence[_Lease], crashed: Collection[Held], cause: str) -> list[Reaped]:
    moves = Moves()
    reaped = [_plan(moves, lease, tx.now, cause, crashed=(lease.id, lease.token) in crashed) for lease in leases]
    matched = moves.apply(tx)
    assert matched  # the leases were read under the same lock
    holds.end(tx, [holds.Ended(keyed, confirmed=False) for lease in leases if (keyed := lease.keyed()) is not None])
    return reaped


def _plan(moves: Moves, lease: _Lease, now: int, cause: str, *, crashed: bool) -> Reaped:
    lost = Lost(*lease[:6], by=lease.by)
    leased = Leased(lease.cancel_reason, lease.crashes, lease.max_crashes)
    settlement = lost.settlement(cause, crashed=crashed, member=bool(lease.member))
    to = moves.plan(settlement, leased, now=now)
    return lost.reaped(to, cause, crashed=crashed)
