"""Limits and gates, where no database decides how: the statements are named alike in every dialect.

    limits          every limit: LIMIT_COLUMNS
    lock_limits     no claim by lanes is under way, and none takes a job until the commit
    declare_limit   kind, named, declared_…: makes the limit, or writes what is declared unless it was declared later
    choose_limit    kind, named, chosen_…: makes the limit, or writes what is chosen
    drop_limit      kind, named: removes it if neither anything declared nor anything chosen bounds it
    count_running   queue: gives each plain job that runs there the lane '', see below
    lock_gate       queue, lane: GATE_COLUMNS; a server makes the row if there is none, and locks it
    put_gate        GATE_COLUMNS: makes the gate or replaces it
    charge_gate     queue, lane, full_at, charged_at: makes the gate or writes its bucket
    gates           after_queue, after_lane, limit: GATE_COLUMNS of the next ones in the order of their keys
    drop_gate       GATE_COLUMNS: removes the gate if it is still like this

**Plain jobs of a limited queue.**  Executing rows are counted along an index that leaves out those whose lane is null, or
every queue would pay for it.  So a claim of a queue with a limit gives the plain jobs that it takes the lane `COUNTED`, and
so does the write that makes the limit to those that run.  It stays: a job with it waits in the plain line like one without a
lane (the index of plain jobs has both), and is shown without one (`lane_shown`).  No path that ends a lease has anything to
undo.

**The first limit of a job or a key.**  Claims that began before it was committed do not count by it, and other claims see
their leases only when they are committed.  So the write that makes it waits for the claims by lanes that are under way, and
keeps others from taking a job.

Locks: all limits, by what changes one; a gate, after those of a claim or of a settlement.  A claim by lanes keeps limits as
they are from before it reads them until its commit, or takes nothing.  Else it could charge a new bucket by an old rate; or
count a key under its job's lock while another, which knows of no limit of the job, has the key's lock.  It never waits for
that, and no renewal, settlement or plain claim asks: a claim that stands still may keep a limit from being changed, and jobs
with lanes from starting meanwhile, but no lease expires for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from onward.backend import Audit, Kind, LimitRow, LimitState
from onward.backends.damage import set_aside_and_repeat
from onward.backends.sql.audit import SqlAudit, whether
from onward.backends.sql.statements import SqlTransaction
from onward.contract.limits import UsageView, state_of
from onward.flow.lanes import group_of
from onward.flow.limits import Bounds, Rate
from onward.flow.room import FOREVER, Gate, Scope, is_bounded_by
from onward.flow.tokens import FULL, Bucket
from onward.job.settlement import GateChange

__all__ = [
    "COUNTED",
    "GATE_COLUMNS",
    "LIMIT_COLUMNS",
    "SqlLimits",
    "change_gate",
    "charge",
    "declare",
    "drop_idle_gates",
    "gate_of",
    "lane_shown",
    "limit_of",
    "limits_of",
]

Result = TypeVar("Result")
Limits = Mapping[tuple[Kind, str], LimitRow]

COUNTED = ""  # the lane of a plain job that was claimed from a queue with a limit
LIMIT_COLUMNS = (
    "kind",
    "name",
    "declared_at",
    "declared_running",
    "declared_tokens",
    "declared_period",
    "declared_burst",
    "chosen_running",
    "chosen_tokens",
    "chosen_period",
    "chosen_burst",
)
GATE_COLUMNS = ("queue", "lane", "full_at", "charged_at", "shut_until", "shut_for")
_OPEN = Gate()
_NO_BOUNDS = Bounds()
_PAGE = 500  # gates


class SqlLimits(SqlAudit):
    """The `KeepsLimits` half of a backend.  What a walk finds is for the dialect to say."""

    @abstractmethod
    def _read(self, act: Callable[[Any], Result]) -> Result:
        """Run it in one snapshot."""

    @abstractmethod
    def _write(self, act: Callable[[Any], Result]) -> Result:
        """Run it as one transaction."""

    @abstractmethod
    def _lane_view(self, tx: Any) -> UsageView:
        """Return what a walk would find now."""

    @set_aside_and_repeat
    def limits(self, *, at_most: int | None = None) -> Sequence[LimitState]:
        def look(tx: SqlTransaction) -> list[LimitState]:
            found, view = limits_of(tx), self._lane_view(tx)
            return [state_of(found[key], view) for key in sorted(found)[:at_most]]

        return self._read(look)

    @set_aside_and_repeat
    def set_limit(self, kind: Kind, name: str, chosen: Bounds | None, *, new: bool = False, audit: Audit = ()) -> bool:
        def act(tx: SqlTransaction) -> bool:
            tx.ask("lock_limits")
            before = limits_of(tx)
            is_there = (kind, name) in before
            if not is_there and (not new or chosen is None):
                return False
            if chosen is None:
                at = before[kind, name].declared_at
                tx.ask("declare_limit", kind=kind, named=name, declared_at=at, **_numbers("declared", _NO_BOUNDS))
            tx.ask("choose_limit", kind=kind, named=name, **_numbers("chosen", chosen or _NO_BOUNDS))
            _refill(tx, before, [(kind, name)])
            if kind == "queue" or chosen is None:
                tx.ask("drop_limit", kind=kind, named=name)
            if kind == "queue" and chosen and not is_there:
                tx.ask("count_running", queue=name)
            return True

        return self._write(self._audited(act, audit, whether))

    @set_aside_and_repeat
    def shut(self, lane: str, *, opened: bool = False, audit: Audit = ()) -> bool:
        def act(tx: SqlTransaction) -> bool:
            changed = _change(tx, lane, lambda gate: Gate(gate.bucket, 0 if opened else FOREVER, 0))
            for scope in _gates_of(tx, "key", lane[:-1]) if opened and lane == group_of(lane) else ():
                changed |= _change_gate(tx, scope, lambda gate: Gate(gate.bucket))
            return changed

        return self._write(self._audited(act, audit, whether))


def declare(tx: SqlTransaction, rows: Sequence[LimitRow]) -> list[str]:
    """Keep what the code of a session declares, unless a later deployment has declared it.

    Returns the queues that had no limit before.
    """
    new: list[str] = []
    before = limits_of(tx) if rows else {}
    rows = [row for row in rows if not row.only_ends or (row.kind, row.name) in before]
    if any(_changes(before.get((row.kind, row.name)), row) for row in rows):
        tx.ask("lock_limits")
        before = limits_of(tx)
    for row in sorted(
        rows, key=lambda row: (row.kind, row.name)
    ):  # two sessions that are opened at once cannot deadlock
        is_new = row.kind == "queue" and (row.kind, row.name) not in before
        declared = _numbers("declared", row.declared)
        tx.ask("declare_limit", kind=row.kind, named=row.name, declared_at=row.declared_at, **declared)
        if is_new:
            tx.ask("count_running", queue=row.name)
            new.append(row.name)
    _refill(tx, before, [(row.kind, row.name) for row in rows])
    return new


def _changes(before: LimitRow | None, row: LimitRow) -> bool:
    return before is None or before.declared != row.declared


def _refill(tx: SqlTransaction, before: Limits, written: Sequence[tuple[Kind, str]]) -> None:
    """Fill the buckets of rates that are others than before: what was taken says nothing about them."""
    rated = [key for key in sorted(set(written)) if key in before and before[key].bounds.rate is not None]
    after = limits_of(tx) if rated else {}
    for kind, name in rated:
        if after[kind, name].bounds.rate != before[kind, name].bounds.rate:
            for scope in _gates_of(tx, kind, name):
                _change_gate(tx, scope, lambda gate: Gate(FULL, gate.shut_until, gate.shut_for))


def _gates_of(tx: SqlTransaction, kind: Kind, name: str) -> Iterator[Scope]:
    """Yield the scopes of a limit that may have a gate, in the order of their keys."""
    if kind != "key":
        yield Scope.of_queue(name) if kind == "queue" else Scope.of_lane(f"{name}/")
        return
    after = Scope.of_lane(f"{name}/")
    while True:
        rows = tx.ask("gates", after_queue=after.queue, after_lane=after.lane, limit=_PAGE).rows()
        scopes = [gate_of(row)[0] for row in rows]
        found = [scope for scope in scopes if is_bounded_by(scope, kind, name)]
        yield from found
        if len(found) < _PAGE:
            return
        after = found[-1]


def change_gate(tx: SqlTransaction, change: GateChange, now: int) -> None:
    """Shut or open a lane.  One that was shut by hand stays so."""
    _change(tx, change.lane, lambda gate: gate.changed(change, now))


def charge(tx: SqlTransaction, charges: Mapping[Scope, Bucket]) -> None:
    """Write the buckets that a walk has taken tokens from."""
    for scope, bucket in sorted(charges.items()):
        tx.ask("charge_gate", queue=scope.queue, lane=scope.lane, full_at=bucket.full_at, charged_at=bucket.at)


def drop_idle_gates(tx: SqlTransaction, after: Scope, now: int, *, limit: int) -> Scope | None:
    """Remove those of the next gates that say nothing any more; return the last one looked at, None at the end."""
    rows = tx.ask("gates", after_queue=after.queue, after_lane=after.lane, limit=limit).rows()
    limits = limits_of(tx) if rows else {}
    for row in rows:
        scope, gate = gate_of(row)
        if gate.is_idle(_bounds_of(limits, scope), now):
            tx.ask("drop_gate", **_gate_values(scope, gate))
    return gate_of(rows[-1])[0] if len(rows) == limit else None


def limits_of(tx: SqlTransaction) -> dict[tuple[Kind, str], LimitRow]:
    """Return every limit; there is one row for each, never one for each key."""
    found = [limit_of(row) for row in tx.ask("limits").rows()]
    return {(row.kind, row.name): row for row in found}


def limit_of(row: Sequence[Any]) -> LimitRow:
    """Return a limit from its LIMIT_COLUMNS."""
    kind, name, declared_at, *numbers = row
    # Where a database keeps a name as bytes, it is read as bytes.
    name = name if isinstance(name, str) else bytes(name).decode()
    return LimitRow(
        kind=kind, name=name, declared=_bounds(*numbers[:4]), declared_at=declared_at, chosen=_bounds(*numbers[4:])
    )


def gate_of(row: Sequence[Any]) -> tuple[Scope, Gate]:
    """Return a gate from its GATE_COLUMNS."""
    queue, lane, full_at, charged_at, shut_until, shut_for = row
    lane = lane if isinstance(lane, str) else bytes(lane).decode()
    return Scope(queue, lane), Gate(Bucket(full_at, charged_at), shut_until, shut_for)


def lane_shown(lane: str | None) -> str | None:
    """Return the lane of a stored row: one that is only counted is plain.

    >>> lane_shown(COUNTED), lane_shown(None), lane_shown("render/")
    (None, None, 'render/')
    """
    return lane or None


def _change(tx: SqlTransaction, lane: str, changed: Callable[[Gate], Gate]) -> bool:
    return _change_gate(tx, Scope.of_lane(lane), changed)


def _change_gate(tx: SqlTransaction, scope: Scope, changed: Callable[[Gate], Gate]) -> bool:
    """Write a gate as it becomes; return whether that is another one than before."""
    rows = tx.ask("lock_gate", queue=scope.queue, lane=scope.lane).rows()
    gate = gate_of(rows[0])[1] if rows else _OPEN
    tx.ask("put_gate", **_gate_values(scope, changed(gate)))
    return changed(gate) != gate


def _gate_values(scope: Scope, gate: Gate) -> dict[str, object]:
    values = (scope.queue, scope.lane, gate.bucket.full_at, gate.bucket.at, gate.shut_until, gate.shut_for)
    return dict(zip(GATE_COLUMNS, values, strict=True))


def _bounds_of(limits: Limits, scope: Scope) -> Bounds:
    """Return what bounds the scope of a gate."""
    if scope.lane == "":
        row = limits.get(("queue", scope.queue))
    else:
        group = group_of(scope.lane)
        row = limits.get(("job" if scope.lane == group else "key", group[:-1]))
    return _NO_BOUNDS if row is None else row.bounds


def _numbers(prefix: str, bounds: Bounds) -> dict[str, int | None]:
    tokens, period, burst = msgspec.structs.astuple(bounds.rate) if bounds.rate is not None else (None, None, None)
    numbers = {"running": bounds.running, "tokens": tokens, "period": period, "burst": burst}
    return {f"{prefix}_{name}": number for name, number in numbers.items()}


def _bounds(running: int | None, tokens: int | None, period: int | None, burst: int | None) -> Bounds:
    if tokens is None or period is None or burst is None:
        return Bounds(running=running)
    return Bounds(running=running, rate=Rate(tokens=tokens, period=period, burst=burst))
