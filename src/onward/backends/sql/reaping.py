"""Giving leases back one by one, where the store refuses to give back all of them together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onward.backend import Reaped
from onward.backends.sql.settling import Lost
from onward.base.logs import get_logger
from onward.errors import BackendRefused

__all__ = ["singly"]

_logger = get_logger("onward.backend")

Give = Callable[[Any, Sequence[Lost]], list[Reaped]]


def singly(
    lost: Sequence[Lost], write: Callable[[Callable[[Any], list[Reaped]]], list[Reaped]], give: Give
) -> list[Reaped]:
    """Give each back in a transaction of its own; a job that the store refuses stays an orphan for the next sweep.

    Their sessions were ended before.  A session that was opened again since keeps its leases.
    """

    def alone(tx: Any, lease: Lost) -> list[Reaped]:
        return [] if tx.ask("lock_session", owner=lease.owner).rows() else give(tx, [lease])

    reaped: list[Reaped] = []
    for lease in lost:
        try:
            reaped += write(lambda tx, lease=lease: alone(tx, lease))  # type: ignore[misc]
        except BackendRefused as error:
            _logger.exception("job %s cannot be given back: %s", lease.id, str(error).split("\n", 1)[0])
    return reaped
