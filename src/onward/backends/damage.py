"""Rows that no worker wrote: how a store recognises them, and what becomes of them.

A person, a restored backup or an attacker may have written a row.  So when the store refuses a verb, or its answer cannot be
read, the backend looks for damaged rows, sets them aside and calls the verb once more.  Where nothing fails, nothing is
searched.  A job that is set aside becomes a dead letter, with its bytes.
"""

from __future__ import annotations

import functools
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from onward.base.clock import SystemClock
from onward.base.ids import IdMaker
from onward.base.logs import get_logger
from onward.contract.values import StoredJob
from onward.errors import (
    BackendError,
    BackendMisconfigured,
    BackendRefused,
    BackendUnavailable,
    QueueReserved,
    Unsupported,
)
from onward.flow.lanes import is_lane
from onward.flow.limits import LARGEST_COST
from onward.job.lease import LARGEST_COUNT, LAST_INSTANT
from onward.job.states import LIVE, State

__all__ = ["SetsAside", "dead", "logger", "new_id", "problems", "set_aside_and_repeat"]

logger = get_logger("onward.backend")

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_AGAIN_AFTER = 10.0  # seconds after a look that found nothing: a store may refuse an item for other reasons, often
_HIGHEST_CLAMPED = 1 << 30  # leaves room for the deliveries of a job that is replayed
_COUNTS = ("delivery", "attempts", "crashes", "interruptions", "waits")
_INSTANTS = ("available_at", "expires_at", "enqueued_at", "started_at", "parked_since")

new_id = IdMaker(SystemClock())


class SetsAside:
    """A backend that can find and set aside damaged rows."""

    _not_damage: tuple[type[BackendError], ...] = ()  # errors of the caller's values, not of stored ones

    def __init__(self) -> None:
        self._looking = threading.Lock()
        self._found_nothing_at = -_LOOK_AGAIN_AFTER
        self._looks = 0

    @abstractmethod
    def _look_for_damage(self) -> int:
        """Set aside all damaged rows.  Returns how many there were."""

    def set_aside(self) -> int:
        """Make dead letters of damaged live jobs, and drop damaged sessions.  Returns how many there were."""
        with self._looking:
            if time.monotonic() - self._found_nothing_at < _LOOK_AGAIN_AFTER:
                return 0
            found = self._look_for_damage()
            self._looks += 1
            if not found:
                self._found_nothing_at = time.monotonic()
            return found

    def set_aside_if_it_can(self) -> int:
        """Set aside what can be.  Returns how many rows; 0 where the search fails too: the first error says more."""
        try:
            return self.set_aside()
        except BackendError:
            return 0
        except Exception as error:  # noqa: BLE001  whatever a store holds, callers know what to do about a `BackendError`
            logger.critical("the search for damaged rows failed: %s: %s", type(error).__name__, error)
            return 0


def set_aside_and_repeat(verb: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Call a verb of a backend; if a damaged row makes it fail, set that row aside and call it once more.

    A look that finds nothing counts, too: another thread or process may have set the row aside meanwhile.  Any other error
    while an answer is read is raised as a `BackendError`, which callers handle.
    """

    @functools.wraps(verb)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        looks = self._looks
        try:
            return verb(self, *args, **kwargs)
        except (BackendUnavailable, BackendMisconfigured, QueueReserved, Unsupported):
            raise
        except Exception as error:
            if isinstance(error, self._not_damage):
                raise
            self.set_aside_if_it_can()
            if self._looks == looks:
                raise _as_backend_error(error) from error
        try:
            return verb(self, *args, **kwargs)
        except Exception as error:
            raise _as_backend_error(error) from error

    return call


def _as_backend_error(error: Exception) -> BackendError:
    if isinstance(error, BackendError):
        return error
    return BackendRefused(f"the store's answer cannot be read: {type(error).__name__}: {error}")


def problems(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the values of a live job's row that no worker writes, in words."""
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
    yield from _problems_of_lane(row)


def _problems_of_lane(row: Mapping[str, Any]) -> Iterator[str]:
    if row.get("lane") and _lane(row) is None:
        yield f"lane is {row['lane']!r:.60}"
    if row.get("cost") is not None and _cost(row) is None:
        yield f"cost is {row['cost']}"


def dead(row: Mapping[str, Any], reason: str) -> StoredJob:
    """Return the dead letter that a row becomes."""
    now = row["now"]
    counts: dict[str, Any] = {column: min(max(row[column], 0), _HIGHEST_CLAMPED) for column in _COUNTS}
    instants: dict[str, Any] = {column: _instant(row[column]) for column in _INSTANTS}
    instants["available_at"] = instants["available_at"] or now
    instants["enqueued_at"] = instants["enqueued_at"] or now
    return StoredJob(
        id=row["id"],
        queue=row["queue"],
        job=row["job"],
        data=bytes(row["sealed"]),
        state=State.DISCARDED,
        priority=-min(max(row["rank"], -100), 100),
        max_crashes=min(max(row["max_crashes"], 1), 1000),
        unique_key=row["unique_key"],
        idempotency_key=row["idempotency_key"],
        idempotency_ttl=min(max(row["idempotency_ttl"], 0), LAST_INSTANT),
        single_instance=row["single_instance"],
        lane=_lane(row),
        cost=_cost(row),
        flow=row.get("flow"),
        node=row.get("node"),
        progress=None if row["progress"] is None else bytes(row["progress"]),
        owner=row["owner"],
        finished_at=now,
        reason=reason,
        **counts,
        **instants,
    )


def _lane(row: Mapping[str, Any]) -> str | None:
    lane: str | None = row.get("lane")
    return lane if lane and is_lane(lane) else None


def _cost(row: Mapping[str, Any]) -> int | None:
    cost: int | None = row.get("cost")
    return cost if cost is not None and 1 <= cost <= LARGEST_COST else None


def _instant(value: int | None) -> int | None:
    return value if value is not None and 0 <= value <= LAST_INSTANT else None
