"""What this process has settled lately.  A broker forgets a job that has ended, so nobody else can tell."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from onward.job.lease import GONE, LEASE_LOST, Lease, Settled, Settlement, already_applied
from onward.job.states import State

__all__ = ["Evidence", "key_of"]

_REMEMBERED = 10_000


class Evidence:
    """A settlement that is repeated is told from one that came too late."""

    def __init__(self) -> None:
        self._fates: OrderedDict[tuple[str, int], tuple[str, State] | None] = OrderedDict()

    def note(self, settlement: Settlement, answer: Settled) -> None:
        if answer.state is None:
            return
        # Of a job that was put back without a run no trace is kept: to say it again is to say it of a lease that is over.
        fate = None if settlement.move in ("snooze", "park", "release") else (settlement.move, answer.state)
        self._fates[key_of(settlement)] = fate
        while len(self._fates) > _REMEMBERED:
            self._fates.popitem(last=False)

    def classify(self, settlement: Settlement, stored: Callable[[Lease], bool]) -> Settled:
        """What is known of a settlement whose lease is not held.  ``stored``: whether the broker still has that very job."""
        key = key_of(settlement)
        if key in self._fates:
            fate = self._fates[key]
            return already_applied(fate[1]) if fate is not None and fate[0] == settlement.move else LEASE_LOST
        return LEASE_LOST if stored(settlement.lease) else GONE


def key_of(settlement: Settlement) -> tuple[str, int]:
    return (settlement.lease.envelope.id, settlement.lease.token)
