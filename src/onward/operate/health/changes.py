"""Comparing two lists of checks: what there is to tell."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backend import Check
from onward.telemetry import HealthChanged

__all__ = ["compare"]


def compare(before: Sequence[Check], now: Sequence[Check]) -> list[HealthChanged]:
    """Return what changed: a check has another status, or has the same one for a queue, a job or a host besides.

    A check that was not there before was fine.  One that is there no more is.
    """
    known = {check.name: check for check in before}
    changed = [_change(known.get(check.name), check) for check in now if _differs(known.get(check.name), check)]
    there = {check.name for check in now}
    gone = [check for check in before if check.name not in there and check.status != "ok"]
    return changed + [_change(check, Check(name=check.name, status="ok", detail="")) for check in gone]


def _differs(before: Check | None, now: Check) -> bool:
    if before is None:
        return now.status != "ok"
    return before.status != now.status or not set(now.about) <= set(before.about)


def _change(before: Check | None, now: Check) -> HealthChanged:
    return HealthChanged(
        check=now.name,
        status=now.status,
        before="ok" if before is None else before.status,
        detail=now.detail,
        fix=now.fix,
        about=now.about,
    )
