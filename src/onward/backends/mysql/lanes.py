"""Claims by lanes: the walk of `onward.flow.walk` over a database, and the locks that keep limits exact.

Whatever bounds a queue, a job or a lane has a stripe, a row of a table that is always there.  A claim counts without a lock
first; where there seems to be room it locks the stripe and counts again, by a later statement, which sees all that was
committed before the stripe was free.  A stripe that another turn has is left to it, and its lane passed over.  The lanes of
a job whose own stripe is locked need none, and neither do lanes that nothing bounds.

The first stripe belongs to all limits together.  Claims share it, and so keep limits as they are until their commits; what
changes one locks it.  A claim that does not get it takes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from onward.backend import Claim
from onward.backends.damage import logger
from onward.backends.mysql.lane_view import OPEN, Head, MySQLView
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.limits import charge
from onward.flow.lanes import group_of
from onward.flow.room import FOREVER, Gate, LimitRoom, Scope
from onward.flow.walk import PLAIN, Cursors, Walk, Walked

__all__ = ["MOST_LOCKED", "STRIPES", "LockingView", "opens_at", "restore_stripes", "stripe_of", "walk_lanes"]

MOST_LOCKED = 32
STRIPES = 1_024
_LEFT_TO_OTHERS = Gate(shut_until=FOREVER)  # for this turn: no instant is known at which it opens


class LockingView(MySQLView):
    """The same for a claim: it locks what it hands out, and the stripes of what is bounded before it counts."""

    _heads_statement = "lane_heads"

    def __init__(self, tx: Transaction, now: int) -> None:
        super().__init__(tx, now)
        self.locked: set[Scope] = set()
        self._settled: set[Scope] = set()  # nothing about them will change in this walk
        self._kept = tx.ask("keep_limits")

    def rank_after(self, queue: str, rank: int | None) -> int | None:
        found = super().rank_after(queue, rank)
        if self._kept.rows():
            return found
        assert self.walk is not None
        if self._tx.ask("has_first_stripe").value():
            self.walk.stop()  # limits are changing: those that were read need not be what binds by now
        self.walk.ended = True
        return None

    def _look_at(self, scope: Scope) -> None:
        if scope in self._settled:
            return
        scopes = [each for each in self._asked_with(scope) if each not in self._settled]
        self._read([each for each in scopes if each not in self._gates])
        waiting = [each for each in scopes if self._needs_lock(each)]
        self._settled |= set(scopes) - set(waiting)
        if scope not in waiting:
            return
        if len(self.locked) < MOST_LOCKED:
            self._lock(waiting[: min(self._wanted, MOST_LOCKED - len(self.locked))])
        else:
            self._leave(scope)
            assert self.walk is not None
            self.walk.stop()

    def _needs_lock(self, scope: Scope) -> bool:
        """Return whether something bounds a scope, and leaves room as far as is known."""
        bounds, gate = self._bounds_of(scope), self._gates[scope]
        if not (bounds or gate.probes(self.now)) or self.is_guarded(scope):
            return False
        if gate.bucket.at > self.now:  # its bucket will be written
            return True
        return LimitRoom(bounds, gate, self.now, running=self._running.get(scope, 0)).is_open

    def is_guarded(self, scope: Scope) -> bool:
        """Return whether every other claim of a scope needs a stripe that this one has: its own, or that of its job."""
        return scope in self.locked or (scope.lane != PLAIN and Scope.of_lane(group_of(scope.lane)) in self.locked)

    def _lock(self, scopes: Sequence[Scope]) -> None:
        """Lock the stripes of scopes and count again; leave those whose stripe another turn has to it."""
        reply = self._tx.ask("lock_stripes", numbers=sorted({stripe_of(scope) for scope in scopes}))
        self._has_gates = True
        self._read(scopes)
        got = {number for (number,) in reply.rows()}
        self.locked |= {scope for scope in scopes if stripe_of(scope) in got}
        self._settled |= set(scopes)
        for scope in scopes:
            if scope not in self.locked:
                self._leave(scope)

    def _leave(self, scope: Scope) -> None:
        self._gates[scope] = _LEFT_TO_OTHERS
        self._settled.add(scope)

    def _is_ready(self, lane: str) -> bool:
        if lane in (PLAIN, group_of(lane)):
            return True
        scope = Scope.of_lane(lane)
        bounds, gate = self._bounds_of(scope), self._gates.get(scope, OPEN)
        if gate.is_shut(self.now) or (bounds and scope not in self._settled):
            return False
        return LimitRoom(bounds, gate, self.now, running=self._running.get(scope, 0)).is_open


def walk_lanes(
    tx: Transaction, cursors: Cursors, claim: Claim, *, queues: Sequence[str], released: Sequence[str], now: int
) -> Walked[Head]:
    """Choose what to claim, charge its tokens, and book what has none.  What it picks is locked."""
    view = LockingView(tx, now)
    walk = view.walk = Walk(view, cursors, limit=claim.limit, begins=claim.begins, released=released)
    for queue in queues:
        walk.queue(queue, claim.at_most.get(queue, claim.limit))
    found = walk.result()
    charge(tx, {scope: bucket for scope, bucket in found.charges.items() if view.is_guarded(scope)})
    if found.booked:
        tx.ask("book", booked=[(job.id, due) for job, due in sorted(found.booked)])
    return found


def opens_at(tx: Transaction, queue: str, now: int) -> int | None:
    """Return when a claim of this queue finds a job that is available: 0 if it would now, None if no instant is known."""
    view = MySQLView(tx, now)
    walk = view.walk = Walk(view, Cursors(), limit=1, bounded=False)
    walk.queue(queue, 1)
    found = walk.result()
    return 0 if found.picks else found.opens_at


def stripe_of(scope: Scope) -> int:
    """Return which row is locked for a scope."""
    return 1 + zlib.crc32(f"{scope.queue}\n{scope.lane}".encode()) % (STRIPES - 1)


def restore_stripes(tx: Transaction) -> bool:
    """Insert stripes that were removed by hand: limits without them let no job start.  Returns whether there are gates."""
    any_gate, missing = tx.ask("left_by_limits").rows()[0]
    if missing:
        tx.ask("restore_stripes")
        logger.critical("%d rows of onward_stripes were inserted again: without them limits let no job start", missing)
    return bool(any_gate)
