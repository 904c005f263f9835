"""Transfer between stores: the rows of a database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from onward.backends.mysql.literals import as_json
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.transfer import SqlTransfer
from onward.contract.transfer import Parcel

__all__ = ["MySQLTransfer"]

Item = TypeVar("Item")

_STATEMENT = 8_000  # bytes of a statement without its values, and more


class MySQLTransfer(SqlTransfer):
    """The `Movable` half of the backend."""

    def _store_parcels(self, tx: Transaction, transit: str, live: Sequence[Parcel], dead: Sequence[Parcel]) -> None:
        for name, parcels in (("accept_live", live), ("accept_dead", dead)):
            for portion in _portions(parcels, tx.room, _weight):
                tx.ask(name, queue=transit, **_columns(portion))

    def _store_runs(self, tx: Transaction, parcels: Sequence[Parcel]) -> None:
        runs = [
            (
                parcel.id,
                run.token,
                run.at,
                run.duration_ms,
                run.attempt,
                run.move,
                run.to,
                run.owner,
                run.failure.kind,
                run.failure.message,
                run.failure.traceback,
            )
            for parcel in parcels
            for run in parcel.runs
        ]
        for portion in _portions(runs, tx.room, lambda run: 2 * len(as_json(run))):
            tx.ask("record_runs", runs=portion)

    def _rouse(self, tx: Transaction, queue: str) -> None:
        tx.wakes.add(queue)


def _portions(items: Sequence[Item], room: int, weight: Callable[[Item], int]) -> Iterator[list[Item]]:
    """As many statements as the server's limit makes necessary; mostly one."""
    portion: list[Item] = []
    size = _STATEMENT
    for item in items:
        takes = weight(item)
        if portion and size + takes > room:
            yield portion
            portion, size = [], _STATEMENT
        portion.append(item)
        size += takes
    if portion:
        yield portion


def _weight(parcel: Parcel) -> int:
    """Bytes in a statement, if every one of them had to be doubled."""
    blobs = len(parcel.sealed) + len(parcel.progress or b"") + len(parcel.result or b"")
    return 2 * (blobs + len(as_json(_values(parcel))) + 100)


def _columns(parcels: Sequence[Parcel]) -> dict[str, Any]:
    """Rows as JSON; bytes, which JSON cannot carry, end to end, and each row says where its own lie."""
    heap: list[bytes] = []
    start = 1  # SQL counts from one
    rows = []
    for parcel in parcels:
        places: list[tuple[int | None, int | None]] = []
        for blob in (parcel.sealed, parcel.progress, parcel.result):
            if blob is None:
                places.append((None, None))
                continue
            places.append((start, len(blob)))
            heap.append(blob)
            start += len(blob)
        sealed, progress, result = places
        common = (*_values(parcel), *sealed, *progress)
        if parcel.is_dead:
            rows.append((*common, parcel.owner, parcel.finished_at, parcel.reason, *result))
        else:
            rows.append((*common, parcel.spent, parcel.unique_key if parcel.key_held else None))
    return {"parcels": rows, "bytes": b"".join(heap)}


def _values(parcel: Parcel) -> tuple[object, ...]:
    return (
        parcel.id,
        parcel.job,
        parcel.state,
        -parcel.priority,
        parcel.available_at,
        parcel.expires_at,
        parcel.enqueued_at,
        parcel.started_at,
        parcel.max_crashes,
        parcel.delivery,
        parcel.attempts,
        parcel.crashes,
        parcel.interruptions,
        parcel.waits,
        parcel.parked_since,
        parcel.unique_key,
        parcel.idempotency_key,
        parcel.idempotency_ttl,
        parcel.single_instance,
    )
