"""Transfer between stores, where no database decides how: the statements are named alike in every dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from onward.backend import Query
from onward.backends.sql.inspection import page
from onward.backends.sql.rows import Row, runs_by_job
from onward.backends.sql.statements import SqlTransaction
from onward.contract.transfer import MOVABLE, Accepted, Confirmed, Parcel
from onward.job.states import state_named

__all__ = ["SqlTransfer"]

Result = TypeVar("Result")

_encode = msgspec.json.Encoder().encode


class SqlTransfer:
    """The `Movable` half of a backend.  How rows are inserted is for the dialect to say."""

    @abstractmethod
    def _read(self, act: Callable[[Any], Result]) -> Result:
        """Run it in one snapshot."""

    @abstractmethod
    def _write(self, act: Callable[[Any], Result]) -> Result:
        """Run it as one transaction."""

    @abstractmethod
    def _store_parcels(self, tx: Any, transit: str, live: Sequence[Parcel], dead: Sequence[Parcel]) -> None:
        """Store them; leave out those whose id or unique key is taken."""

    @abstractmethod
    def _store_runs(self, tx: Any, parcels: Sequence[Parcel]) -> None:
        """Store the records of their runs; those that are there are replaced."""

    @abstractmethod
    def _rouse(self, tx: Any, queue: str) -> None:
        """Wake sleepers after the commit: there may be work."""

    def withhold(self, queue: str, transit: str, *, after: str = "", limit: int = 500) -> Sequence[str]:
        def act(tx: SqlTransaction) -> Sequence[str]:
            if queue not in {name for (name,) in tx.ask("paused_queues").rows()}:
                return []
            ids = page(tx, Query(queue=queue, after=after, limit=limit), MOVABLE)
            _requeue(tx, ids, queue, transit)
            return ids

        return self._write(act)

    def export(self, transit: str, ids: Sequence[str]) -> Sequence[Parcel]:
        def look(tx: SqlTransaction) -> Sequence[Parcel]:
            found, runs = tx.ask("moving", ids=list(ids), queue=transit), tx.ask("runs_of", ids=list(ids))
            runs_of = runs_by_job(runs.rows())
            return [_parcel(row, runs_of) for row in sorted(found.rows(), key=lambda row: str(row[0]))]

        return self._read(look) if ids else []

    def accept(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[Accepted]:
        def act(tx: SqlTransaction) -> Sequence[Accepted]:
            ids = [parcel.id for parcel in parcels]
            staged = _staged(tx, ids, transit)
            _drop(tx, staged, staged, transit)
            there = {job_id for (job_id,) in tx.ask("known", ids=ids).rows()}
            # In the order of the keys: so two batches with the same keys cannot deadlock.
            new = sorted((each for each in parcels if each.id not in there), key=lambda each: each.unique_key or "")
            live, dead = [each for each in new if not each.is_dead], [each for each in new if each.is_dead]
            self._store_parcels(tx, transit, live, dead)
            stored = set(_staged(tx, ids, transit))
            self._store_runs(tx, [each for each in new if each.id in stored and each.runs])
            _confirm(tx, [each for each in new if each.id in stored])
            keys = sorted({each.unique_key for each in new if each.unique_key is not None and each.id not in stored})
            holders: dict[str, str] = dict(tx.ask("key_holders", keys=keys).rows()) if keys else {}
            return [_accepted(each, stored, there, holders) for each in parcels]

        return self._write(act) if parcels else []

    def forget(self, transit: str, parcels: Sequence[Parcel]) -> Sequence[str]:
        def act(tx: SqlTransaction) -> Sequence[str]:
            live = _lock(tx, "lock_moving_live", transit, [each for each in parcels if not each.is_dead])
            dead = _lock(tx, "lock_moving_dead", transit, [each for each in parcels if each.is_dead])
            _drop(tx, live, dead, transit)
            return [*live, *dead]

        return self._write(act) if parcels else []

    def admit(self, transit: str, queue: str, ids: Sequence[str]) -> int:
        def act(tx: SqlTransaction) -> int:
            staged = _staged(tx, ids, transit)
            _requeue(tx, staged, transit, queue)
            self._rouse(tx, queue)
            return len(staged)

        return self._write(act) if ids else 0


def _staged(tx: SqlTransaction, ids: Sequence[str], transit: str) -> list[str]:
    """Those of them that are at rest there."""
    return sorted({job_id for (job_id,) in tx.ask("staged", ids=list(ids), queue=transit).rows()})


def _requeue(tx: SqlTransaction, ids: Sequence[str], queue: str, onto: str) -> None:
    if ids:
        tx.ask("requeue_live", ids=list(ids), queue=queue, onto=onto)
        tx.ask("requeue_dead", ids=list(ids), queue=queue, onto=onto)


def _lock(tx: SqlTransaction, name: str, transit: str, parcels: Sequence[Parcel]) -> list[str]:
    """Which of them still are what these parcels say; they are ours until the commit."""
    if not parcels:
        return []
    seen = [
        (
            each.id,
            each.state,
            each.delivery,
            each.attempts,
            each.crashes,
            each.interruptions,
            each.finished_at if each.is_dead else each.available_at,
        )
        for each in parcels
    ]
    return [job_id for (job_id,) in tx.ask(name, seen=_encode(seen).decode(), queue=transit).rows()]


def _drop(tx: SqlTransaction, live: Sequence[str], dead: Sequence[str], transit: str) -> None:
    if live:
        tx.ask("drop_moving_live", ids=list(live), queue=transit)
    if dead:
        tx.ask("drop_moving_dead", ids=list(dead), queue=transit)
    if ids := sorted({*live, *dead}):
        tx.ask("forget_runs", ids=ids)


def _confirm(tx: SqlTransaction, parcels: Sequence[Parcel]) -> None:
    """A key that a success confirmed in the old store counts here, too, as long as it would have there."""
    found = {
        each.idempotency_key: (each.idempotency_key, each.confirmed.job_id, each.confirmed.token, each.confirmed.until)
        for each in parcels
        if each.confirmed is not None
    }
    if found:
        tx.ask("accept_holds", confirmed=_encode(sorted(found.values())).decode())


def _accepted(parcel: Parcel, stored: set[str], there: set[str], holders: dict[str, str]) -> Accepted:
    if parcel.id in stored and parcel.id not in there:
        return Accepted(parcel.id)
    holder = None if parcel.id in there else holders.get(parcel.unique_key or "")
    # Neither known nor kept out by a key: another process stored it at the same time.
    return Accepted(parcel.id, stored=False, there=holder is None, holder=holder)


def _parcel(row: Row, runs_of: dict[str, Any]) -> Parcel:
    *columns, confirmed_by, confirmed_token, confirmed_until = row
    values = dict(zip(_COLUMNS, columns, strict=True))
    values["state"] = state_named(values["state"])
    values["key_held"] = bool(values["key_held"])
    if confirmed_until is not None:
        values["confirmed"] = Confirmed(confirmed_by, confirmed_token, confirmed_until)
    return Parcel(**values, runs=tuple(runs_of.get(values["id"], ())))


_COLUMNS = (
    "id",
    "job",
    "sealed",
    "state",
    "priority",
    "available_at",
    "expires_at",
    "enqueued_at",
    "started_at",
    "max_crashes",
    "delivery",
    "attempts",
    "crashes",
    "interruptions",
    "waits",
    "parked_since",
    "spent",
    "unique_key",
    "key_held",
    "idempotency_key",
    "idempotency_ttl",
    "single_instance",
    "progress",
    "owner",
    "finished_at",
    "reason",
    "result",
)
