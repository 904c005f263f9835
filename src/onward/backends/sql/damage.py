"""Rows that no worker wrote.  A job whose row a statement fails on is set aside: it becomes a dead letter, with its bytes.

Tables can be written by others than Onward: by hand, by a restored backup, by an attacker.  A number that no worker could
have written makes the next claim overflow, and with it the claim of every job beside it.  So a verb that the database
refuses, or whose answer cannot be read, looks for such rows, sets them aside and is called once more.  Where nothing is
wrong, nothing is looked for.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from onward.backends.sql.statements import SqlTransaction
from onward.backends.sql.transfer import SqlTransfer
from onward.base.clock import SystemClock
from onward.base.ids import IdMaker
from onward.base.logs import get_logger
from onward.contract.transfer import Parcel
from onward.errors import BackendError, BackendMisconfigured, BackendRefused, BackendUnavailable, Unsupported
from onward.job.lease import LARGEST_COUNT, LAST_INSTANT
from onward.job.states import LIVE, State

__all__ = ["SetsAside", "set_aside_and_repeat"]

logger = get_logger("onward.backend")

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AGAIN_AFTER = 10.0  # seconds after a look that found nothing: a store may refuse an item for other reasons, often
_HIGHEST_CLAMPED = 1 << 30  # leaves room for the deliveries of a job that is replayed
_COUNTS = ("delivery", "attempts", "crashes", "interruptions", "waits")
_INSTANTS = ("available_at", "expires_at", "enqueued_at", "started_at", "parked_since")
_COLUMNS = (
    "key",  # by which its row is found again
    "id",
    "queue",
    "job",
    "sealed",
    "state",
    "rank",
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
    "unique_key",
    "idempotency_key",
    "idempotency_ttl",
    "single_instance",
    "progress",
    "owner",
    "now",
)

_new_id = IdMaker(SystemClock())


class SetsAside(SqlTransfer):
    """A backend that can find and set aside damaged rows."""

    def __init__(self) -> None:
        self._one_looks = threading.Lock()
        self._found_nothing_at = -_LOOK_AGAIN_AFTER

    def _repair_text(self) -> int:
        """Escape text that is no text, where a database keeps such; return how many rows that were."""
        return 0

    def set_aside(self) -> int:
        """Make dead letters of the live jobs that no worker wrote so, drop such sessions; return how many there were."""
        with self._one_looks:
            if time.monotonic() - self._found_nothing_at < _LOOK_AGAIN_AFTER:
                return 0
            found = self._repair_text() + self._write(self._set_aside)
            if not found:
                self._found_nothing_at = time.monotonic()
            return found

    def _set_aside(self, tx: SqlTransaction) -> int:
        damaged = [dict(zip(_COLUMNS, row, strict=True)) for row in tx.ask("damaged_jobs").rows()]
        for row in damaged:
            self._set_aside_one(tx, row)
        sessions = tx.ask("damaged_sessions").rows()
        for (owner,) in sessions:
            tx.ask("end_session", owner=owner)
            logger.critical("session %s was ended: its row holds times that no worker writes", owner)
        return len(damaged) + len(sessions)

    def _set_aside_one(self, tx: SqlTransaction, row: Mapping[str, Any]) -> None:
        reason = f"set aside: {'; '.join(_problems(row))}: no worker writes that"
        parcel = _dead(row, reason)
        if len(tx.ask("known", ids=[parcel.id]).rows()) > 1:  # there is a finished job of this id as well
            parcel = msgspec.structs.replace(parcel, id=_new_id())
        tx.ask("drop_damaged", key=row["key"])
        self._store_parcels(tx, row["queue"], [], [parcel])
        logger.critical("job %s is discarded, %s", parcel.id, reason)


def set_aside_and_repeat(verb: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Call a verb of a backend; if it fails for what a row holds, once more without that row.

    Whatever else goes wrong while an answer is read is raised as a `BackendError`: callers know what to do about those.
    """

    @functools.wraps(verb)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return verb(self, *args, **kwargs)
        except (BackendUnavailable, BackendMisconfigured, Unsupported):
            raise
        except Exception as error:
            if not _set_aside_by(self):
                raise _as_backend_error(error) from error
        try:
            return verb(self, *args, **kwargs)
        except Exception as error:
            raise _as_backend_error(error) from error

    return call


def _set_aside_by(backend: SetsAside) -> int:
    """How many rows it could set aside; none where looking for them fails too, and the first error tells more."""
    try:
        return backend.set_aside()
    except BackendError:
        return 0


def _as_backend_error(error: Exception) -> BackendError:
    if isinstance(error, BackendError):
        return error
    return BackendRefused(f"the store's answer cannot be read: {type(error).__name__}: {error}")


def _problems(row: Mapping[str, Any]) -> Iterator[str]:
    if row["state"] not in LIVE:
        yield f"state is {row['state']!r:.60}"
    if row["state"] == State.EXECUTING and row["owner"] is None:
        yield "it is executing and has no owner"
    for column in _COUNTS:
        if not 0 <= row[column] < LARGEST_COUNT:
            yield f"{column} is {row[column]}"
    for column in _INSTANTS:
        if row[column] is not None and not 0 <= row[column] <= LAST_INSTANT:
            yield f"{column} is {row[column]}"
    if not -100 <= row["rank"] <= 100:
        yield f"rank is {row['rank']}"
    if not 1 <= row["max_crashes"] < LARGEST_COUNT:
        yield f"max_crashes is {row['max_crashes']}"
    if not 0 <= row["idempotency_ttl"] <= LAST_INSTANT:
        yield f"idempotency_ttl is {row['idempotency_ttl']}"


def _dead(row: Mapping[str, Any], reason: str) -> Parcel:
    now = row["now"]
    counts: dict[str, Any] = {column: min(max(row[column], 0), _HIGHEST_CLAMPED) for column in _COUNTS}
    instants: dict[str, Any] = {column: _instant(row[column]) for column in _INSTANTS}
    instants["available_at"] = instants["available_at"] or now
    instants["enqueued_at"] = instants["enqueued_at"] or now
    return Parcel(
        id=row["id"],
        job=row["job"],
        sealed=bytes(row["sealed"]),
        state=State.DISCARDED,
        priority=-min(max(row["rank"], -100), 100),
        max_crashes=min(max(row["max_crashes"], 1), 1000),
        spent=None,
        unique_key=row["unique_key"],
        key_held=False,
        idempotency_key=row["idempotency_key"],
        idempotency_ttl=min(max(row["idempotency_ttl"], 0), LAST_INSTANT),
        single_instance=row["single_instance"],
        progress=None if row["progress"] is None else bytes(row["progress"]),
        owner=row["owner"],
        finished_at=now,
        reason=reason,
        **counts,
        **instants,
    )


def _instant(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= LAST_INSTANT else None
