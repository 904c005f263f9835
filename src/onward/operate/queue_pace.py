"""How fast a queue is."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["QueuePace"]


class QueuePace(NamedTuple):
    """How fast a queue is, over the last minutes; None where too little has happened to say."""

    out: float | None = None  # jobs that ended, each second
    enters: float | None = None  # jobs that were added, each second
    p95: float | None = None  # seconds that 95 of 100 runs took at most
    eta: float | None = None  # seconds until what is due has ended, if nothing is added; None while it is paused
