"""Waiting for a fact, instead of for a while."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0  # seconds: reached only when something is broken
SOONEST, LATEST = 0.003, 0.02  # seconds between two looks: tests that look all the time slow down what they wait for


def eventually(
    fact: Callable[[], Any],
    within: float = PATIENCE,
    what: str | Callable[[], str] = "it did not come",
    every: float = SOONEST,
) -> Any:
    """Wait for a fact, and give it.  If it never comes this fails; it never just sleeps."""
    deadline, pause = time.monotonic() + within, every
    while not (value := fact()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(pause)
        pause = min(pause * 1.1, max(LATEST, every))
    return value
