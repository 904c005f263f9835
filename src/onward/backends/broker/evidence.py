"""The settlements of this process: a broker forgets a job that has ended, so no other process knows them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from onward.job.lease import Lease
from onward.job.settlement import Settled, Settlement, judge

__all__ = ["Evidence", "key_of"]

_REMEMBERED = 10_000
_NOTHING: tuple[str | None, str] = (None, "")


class Evidence:
    """Tells a settlement that is repeated from one that came too late."""

    def __init__(self) -> None:
        self._fates: OrderedDict[tuple[str, int], tuple[str | None, str]] = OrderedDict()

    def note(self, settlement: Settlement, answer: Settled) -> None:
        if answer.state is None:
            return
        # No move of a job that was put back without a run is kept: a repeated settlement is answered as a lost lease.
        put_back = settlement.move in ("snooze", "park", "release")
        self._fates[key_of(settlement)] = _NOTHING if put_back else (settlement.move, answer.state)
        while len(self._fates) > _REMEMBERED:
            self._fates.popitem(last=False)

    def classify(self, settlement: Settlement, stored: Callable[[Lease], bool]) -> Settled:
        """Answer a settlement whose lease is not held.  ``stored`` returns whether the broker still has that job."""
        key = key_of(settlement)
        move, went_to = self._fates.get(key, _NOTHING)
        return judge(settlement, move, went_to, None, traced=key in self._fates or stored(settlement.lease))


def key_of(settlement: Settlement) -> tuple[str, int]:
    return (settlement.lease.envelope.id, settlement.lease.token)
