"""Transfer between stores: the rows of a file."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.sql.transfer import SqlTransfer
from onward.backends.sqlite.transaction import Row, Transaction
from onward.contract.transfer import Parcel

__all__ = ["SqliteTransfer"]


class SqliteTransfer(SqlTransfer):
    """The `Movable` half of the backend."""

    def _store_parcels(self, tx: Transaction, transit: str, live: Sequence[Parcel], dead: Sequence[Parcel]) -> None:
        tx.run_many("accept_live", [_live(each, transit) for each in live])
        tx.run_many("accept_dead", [_dead(each, transit) for each in dead])

    def _store_runs(self, tx: Transaction, parcels: Sequence[Parcel]) -> None:
        tx.run_many(
            "accept_run",
            [
                (
                    parcel.id,
                    run.token,
                    run.attempt,
                    run.move,
                    run.to.value,
                    run.at,
                    run.duration_ms,
                    run.owner,
                    run.failure.kind,
                    run.failure.message,
                    run.failure.traceback,
                )
                for parcel in parcels
                for run in parcel.runs
            ],
        )

    def _rouse(self, tx: Transaction, queue: str) -> None:
        tx.wakes = True


def _live(parcel: Parcel, queue: str) -> Row:
    return (
        *_common(parcel, queue),
        parcel.spent,
        parcel.unique_key,
        parcel.unique_key if parcel.key_held else None,
        *_keys(parcel),
    )


def _dead(parcel: Parcel, queue: str) -> Row:
    end = parcel.owner, parcel.finished_at, parcel.reason, parcel.result
    return (*_common(parcel, queue), parcel.unique_key, *_keys(parcel), *end)


def _common(parcel: Parcel, queue: str) -> Row:
    return (
        parcel.id,
        queue,
        parcel.job,
        parcel.sealed,
        parcel.state.value,
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
    )


def _keys(parcel: Parcel) -> Row:
    return parcel.idempotency_key, parcel.idempotency_ttl, parcel.single_instance, parcel.progress
