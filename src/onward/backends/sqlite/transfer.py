"""Moving house with the jobs of a file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from onward.backends.sql.transfer import SqlMoving
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.contract.transfer import Parcel

__all__ = ["SqliteMoving"]

Result = TypeVar("Result")


class SqliteMoving(SqlMoving):
    """The `Movable` half of the backend."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Transaction]: ...

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Transaction]: ...

    def _looking(self, act: Callable[[Any], Result]) -> Result:
        with self._reading() as tx:
            return act(_Asking(tx))

    def _moving(self, act: Callable[[Any], Result]) -> Result:
        with self._writing() as tx:
            return act(_Asking(tx))

    def _store_parcels(self, tx: _Asking, transit: str, live: Sequence[Parcel], dead: Sequence[Parcel]) -> None:
        tx.tx.run_many("accept_live", [_live(each, transit) for each in live])
        tx.tx.run_many("accept_dead", [_dead(each, transit) for each in dead])

    def _store_runs(self, tx: _Asking, parcels: Sequence[Parcel]) -> None:
        tx.tx.run_many(
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
                    run.failure.kind,
                    run.failure.message,
                    run.failure.traceback,
                )
                for parcel in parcels
                for run in parcel.runs
            ],
        )

    def _rouse(self, tx: _Asking, queue: str) -> None:
        tx.tx.wakes = True


class _Asking:
    """A transaction as shared code asks it: lists travel as JSON."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx

    def ask(self, name: str, **parameters: object) -> _Answer:
        values = {key: as_json(value) if isinstance(value, list) else value for key, value in parameters.items()}
        if self.tx.is_named(name):
            return _Answer(self.tx.rows(name, {**values, "now": self.tx.now}))
        return _Answer(self.tx.rows(name, tuple(values.values())))


class _Answer:
    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def rows(self) -> list[Row]:
        return self._rows

    def value(self) -> Any:
        return self._rows[0][0]


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
