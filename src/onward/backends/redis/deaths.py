"""Groups of dead jobs, from the answers of the scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onward.backend import Death, DeathGroup
from onward.backends.redis.packing import UNREADABLE, opened
from onward.backends.redis.showing import shown_name

__all__ = ["death_groups", "died_as"]


def death_groups(found: Iterable[Sequence[Any]]) -> list[DeathGroup]:
    return [
        DeathGroup(
            job=shown_name(job),
            fingerprint=shown_name(fingerprint),
            count=count,
            first=Death(shown_name(first), int(first_at)),
            last=Death(shown_name(last), int(last_at)),
        )
        for job, fingerprint, count, first, first_at, last, last_at in found
    ]


def died_as(raw: bytes) -> str | None:
    """Return the fingerprint of a finished job, from its record; None if it is not dead."""
    try:
        return opened(raw, is_live=False).patch.fingerprint
    except UNREADABLE:
        return None
