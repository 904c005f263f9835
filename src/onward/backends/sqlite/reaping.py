"""Taking leases back from sessions that are no more."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from onward.backend import Held, Reaped
from onward.backends.sqlite import holds
from onward.backends.sqlite.settlement_writes import Fence, Moves
from onward.backends.sqlite.transaction import Transaction
from onward.base.failure import Failure
from onward.base.logs import get_logger
from onward.base.wording import counted
from onward.job.lease import crash_pause
from onward.job.states import State

__all__ = ["Crash", "reap"]

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

    What counts is what had expired when this was asked.  Whoever held the write lock since then kept the living from
    renewing their sessions too.
    """
    if owner is None:
        tx.run("end_expired_sessions", (expired_by, queue))
        leases = [_Lease(*row) for row in tx.rows("orphans", (queue,))]
    else:
        tx.run("end_session", (owner,))
        leases = [_Lease(*row) for row in tx.rows("dead_leases", (owner, queue))]
    if not leases:
        return []
    why = cause or ("its session expired" if owner is None else "its process died")
    held = {(lease.id, lease.token) for lease in leases}
    crashed = held if started is None else held.intersection(started)
    tx.wakes = True
    try:
        with tx.savepoint():
            return _give_back(tx, leases, crashed, why)
    except sqlite3.IntegrityError:
        return [reaped for lease in leases for reaped in _give_back_alone(tx, lease, crashed, why)]


def _give_back_alone(tx: Transaction, lease: _Lease, crashed: Collection[Held], cause: str) -> Iterable[Reaped]:
    """One that the store refuses to give back must not keep the others: it stays an orphan for the next sweep."""
    try:
        with tx.savepoint():
            return _give_back(tx, [lease], crashed, cause)
    except sqlite3.IntegrityError as error:
        _logger.exception("job %s cannot be taken back: %s", lease.id, error)  # noqa: TRY401
        return []


def _give_back(tx: Transaction, leases: Sequence[_Lease], crashed: Collection[Held], cause: str) -> list[Reaped]:
    moves = Moves()
    reaped = [_plan(moves, lease, tx.now, cause, crashed=(lease.id, lease.token) in crashed) for lease in leases]
    matched = moves.apply(tx)
    assert matched  # the leases were read under this very lock
    holds.end(tx, [holds.Ended(keyed, confirmed=False) for lease in leases if (keyed := lease.keyed()) is not None])
    return reaped


class Crash(NamedTuple):
    """A run that ended with its process."""

    crashes: int  # this one counted
    max_crashes: int
    cause: str
    cancel_reason: str | None

    def plan(self, moves: Moves, fence: Fence, *, at: int) -> State:
        """Gather its writes; gives the state that it leads to."""
        if self.cancel_reason is not None:
            to, reason = State.CANCELLED, self.cancel_reason
        else:
            to = State.DISCARDED if self.crashes >= self.max_crashes else State.RETRYABLE
            reason = f"crashed {counted(self.crashes, 'time')}: {self.cause}"
        moves.record_run(fence, "crashed", to, Failure("Crash", self.cause), at=at)
        if to is State.RETRYABLE:
            moves.crash(fence, due=at + crash_pause(self.crashes))
        else:
            moves.finish(fence, to, at=at, crashes=1, reason=reason)
        return to


def _plan(moves: Moves, lease: _Lease, now: int, cause: str, *, crashed: bool) -> Reaped:
    fence = lease.id, lease.token, lease.owner
    crashes = lease.crashes + crashed
    if crashed:
        to = Crash(crashes, lease.max_crashes, cause, lease.cancel_reason).plan(moves, fence, at=now)
    elif lease.cancel_reason is not None:
        to = State.CANCELLED
        moves.finish(fence, to, at=now, interruptions=1, reason=lease.cancel_reason)
    else:
        to = State.AVAILABLE
        moves.release(fence)
    return Reaped(
        id=lease.id,
        queue=lease.queue,
        job=lease.job,
        token=lease.token,
        to=to,
        cause=cause,
        crashed=crashed,
        crashes=crashes,
    )
