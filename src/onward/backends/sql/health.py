"""Checks of a store's health that are the same for every database."""

from __future__ import annotations

from onward.backend import Check
from onward.base.clock import SECOND

__all__ = ["of_leases"]


def of_leases(oldest: int | None, now: int) -> Check:
    """Check whether leases of dead sessions wait for a sweep; ``oldest``: when the first of them was started."""
    if oldest is None:
        return Check(name="leases", status="ok", detail="every running job belongs to a live session")
    age = max(0, now - oldest) // SECOND
    return Check(
        name="leases",
        status="warn",
        detail=f"a job started {age} s ago has no live session: it comes back with the next sweep",
        fix="onward reap",
    )
