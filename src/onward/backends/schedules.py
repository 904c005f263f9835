"""What stores do alike for schedules: the next version, and rows that hold what no process writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onward.backend import DAMAGED_VERSION, ScheduleRow
from onward.job.lease import LAST_INSTANT

__all__ = ["LAST_VERSION", "following", "readable"]

LAST_VERSION = 1 << 53  # the largest that every store counts up to exactly

_INSTANTS = ("declared_at", "booked_until", "seen_at")
_ORIGINS = ("code", "runtime")


def following(version: int) -> int:
    """Return the version after this one.

    >>> following(0), following(7), following(DAMAGED_VERSION)
    (1, 8, 1)
    """
    return version + 1 if 0 <= version < LAST_VERSION else 1


def readable(row: Mapping[str, Any]) -> ScheduleRow:
    """Return a stored row; one that is damaged with what can be read of it, and with what is wrong."""
    wrong = "; ".join(_problems(row))
    if not wrong:
        return ScheduleRow(**row)
    paused_at = row["paused_at"]
    return ScheduleRow(
        name=row["name"],
        sealed=row["sealed"],
        fingerprint=row["fingerprint"],
        origin=row["origin"] if row["origin"] in _ORIGINS else "runtime",
        version=row["version"] if _is_version(row["version"]) else DAMAGED_VERSION,
        paused_at=paused_at if paused_at is None or _is_instant(paused_at) else 0,
        missed=row["missed"] if _is_count(row["missed"]) else 0,
        damage=f"{wrong}: no process writes that",
        **{name: row[name] if _is_instant(row[name]) else 0 for name in _INSTANTS},
    )


def _problems(row: Mapping[str, Any]) -> Iterator[str]:
    if not _is_version(row["version"]):
        yield f"version is {row['version']}"
    if row["origin"] not in _ORIGINS:
        yield f"origin is {row['origin']!r:.60}"
    for name in _INSTANTS:
        if not _is_instant(row[name]):
            yield f"{name} is {row[name]}"
    if row["paused_at"] is not None and not _is_instant(row["paused_at"]):
        yield f"paused_at is {row['paused_at']}"
    if not _is_count(row["missed"]):
        yield f"missed is {row['missed']}"


def _is_version(value: int) -> bool:
    return 1 <= value <= LAST_VERSION


def _is_instant(value: int) -> bool:
    return 0 <= value <= LAST_INSTANT


def _is_count(value: int) -> bool:
    return 0 <= value <= LAST_VERSION
