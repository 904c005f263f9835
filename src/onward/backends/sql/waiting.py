"""Waiting for work, the part that PostgreSQL and MySQL share."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from onward.base.backoff import doubling, jittered

__all__ = ["Waiting"]

_FIRST_REST, _LONGEST_REST = 0.002, 0.25  # seconds


class Waiting:
    """Lets workers of this process sleep until there is work for them."""

    def __init__(self, connections: Any) -> None:
        self._connections = connections
        self._expects_work = False  # a look found work, so that the next turn should claim some
        self._empty_claims = 0

    @abstractmethod
    def wait(self, queues: Sequence[str], deadline: float) -> None:
        """Sleep until there is work, a job falls due or the deadline has passed."""

    @abstractmethod
    def close(self) -> None: ...

    def turn_begins(self) -> None:
        """Do periodic work at the beginning of a turn; by default, none."""

    def claimed(self) -> None:
        """Note that a turn has claimed jobs."""
        self._empty_claims, self._expects_work = 0, False

    def _rest(self, deadline: float) -> bool:
        """Rest if a look found work and the claim got none: another transaction may hold its lock for long."""
        if not self._expects_work:
            return False
        self._empty_claims += 1
        rest = jittered(doubling(_FIRST_REST, self._empty_claims, _LONGEST_REST))
        time.sleep(max(0.0, min(rest, deadline - time.monotonic())))
        return True
