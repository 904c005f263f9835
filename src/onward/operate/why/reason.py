"""The answer: a stable word, a sentence, what to type, and when it passes by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from onward.base.clock import from_micros
from onward.job.lease import LAST_INSTANT

__all__ = ["CODES", "Reason", "at", "moment"]

CODES = (
    *("gone", "completed", "discarded", "cancelled", "worker_gone", "worker_silent", "cancelling", "running"),
    *(
        "expired",
        "spent",
        "unknown_job",
        "wrong_version",
        "held",
        "awaits_flow",
        "awaits_signal",
        "sleeping",
        "not_due",
    ),
    *("paused", "unserved", "not_allowed", "shut", "limited", "throttled", "suspect", "busy", "starved", "behind"),
    "first_in_line",
)


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is where it is."""

    code: str  # one of CODES: these words do not change
    text: str
    fix: str = ""  # what to type, or what to do
    until: datetime | None = None  # when it passes by itself, if that is known
    exact: bool = True  # whether ``until`` is that instant, or an estimate
    facts: Mapping[str, Any] = {}  # the numbers and ids behind the sentence
    then: tuple[str, ...] = ()  # the codes of what would hold it next


def at(micros: int) -> datetime:
    """Return an instant of the store; one out of range as the last there is."""
    return from_micros(min(max(micros, 0), LAST_INSTANT))


def moment(micros: int) -> str:
    """Return an instant for a sentence, to the second.

    >>> moment(1_893_456_000_000_000)
    '2030-01-01 00:00:00Z'
    """
    return f"{at(micros).astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
