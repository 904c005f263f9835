"""Damage in a row: values that no worker writes, but another program, a person, a restored backup or a broken disk."""

from __future__ import annotations

from collections.abc import Iterator

from onward.backend import AWAITS_NODE, Run, StoredJob
from onward.job.lease import LARGEST_COUNT, LAST_INSTANT
from onward.job.states import FINISHED, LIVE, State

__all__ = ["damage_of"]

_COUNTS = ("attempts", "delivery", "crashes", "interruptions", "waits")
_INSTANTS = ("available_at", "enqueued_at", "started_at", "finished_at", "parked_since")


def damage_of(stored: StoredJob, result_error: str | None) -> str | None:
    """Return the damage of a stored job in words; None if there is none."""
    return "; ".join(_problems(stored, result_error)) or None


def _problems(stored: StoredJob, result_error: str | None) -> Iterator[str]:
    ended = stored.finished_at is not None
    if stored.state not in (FINISHED if ended else LIVE):
        yield f"state is {stored.state.value!r:.60} of a job that {'has ended' if ended else 'has not ended'}"
    if stored.state is State.EXECUTING and stored.owner is None:
        yield "it is executing and has no owner"
    for name in _COUNTS:
        if not _within(getattr(stored, name), LARGEST_COUNT):
            yield f"{name} is {getattr(stored, name)!r:.60}"
    for name in _INSTANTS:
        instant = getattr(stored, name)
        waits = name == "available_at" and stored.awaits == AWAITS_NODE
        if instant is not None and not _within(instant, LAST_INSTANT) and not waits:
            yield f"{name} is {instant!r:.60}"
    for run in stored.runs:
        yield from _problems_of_run(run)
    if result_error is not None:
        yield f"its result cannot be read: {result_error}"


def _problems_of_run(run: Run) -> Iterator[str]:
    for name, largest in (("token", LARGEST_COUNT), ("attempt", LARGEST_COUNT), ("at", LAST_INSTANT)):
        if not _within(getattr(run, name), largest):
            yield f"{name} of a run is {getattr(run, name)!r:.60}"


def _within(value: object, largest: int) -> bool:
    return isinstance(value, int) and 0 <= value <= largest
