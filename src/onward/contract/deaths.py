"""Groups of dead jobs: those of one name whose last failure has one fingerprint.

A group is not stored.  A discarded job has the fingerprint of the newest record among its runs, or `UNEXPLAINED`; the store
keeps the discarded jobs, and no others, in the order of name, fingerprint and id.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onward.base.fingerprint import UNEXPLAINED
from onward.contract.values import Run

__all__ = ["DEATH_GROUPS", "Death", "DeathGroup", "fingerprint_of"]

DEATH_GROUPS = 100  # that one look shows at most


class Death(msgspec.Struct, frozen=True):
    """A dead job, and when it died."""

    id: str
    at: int


class DeathGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead jobs of one name that died in the same way.  A count that reaches the look's limit means "or more"."""

    job: str
    fingerprint: str
    count: int
    first: Death  # the one with the lowest id: enqueued first
    last: Death


def fingerprint_of(runs: Sequence[Run]) -> str:
    """Return the fingerprint of a dead job from the records of its runs, in their order."""
    return (runs[-1].fingerprint if runs else "") or UNEXPLAINED
