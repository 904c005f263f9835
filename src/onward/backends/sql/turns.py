"""A turn that ends keys before it takes others: two transactions, one after the other.

Transactions lock keys in one order, so that two which need the same keys wait for each other in one direction only.  A turn
knows which keys it takes when it has claimed, and what it can claim depends on the keys that it has ended.  So in one
transaction it would go through that order twice, and two turns could each hold what the other one needs next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from onward.backend import Turn, TurnResult
from onward.job.lease import Hold
from onward.job.settlement import Settled, Settlement

__all__ = ["in_two", "is_parted", "released"]

_FREE = Hold.FREE  # looked up once: to look up a member of an enumeration takes longer than the rest


class Make(Protocol):
    """Makes a turn in one transaction; it does not claim the jobs that are named as released."""

    def __call__(self, turn: Turn, released: Sequence[str] = ()) -> TurnResult: ...


def is_parted(turn: Turn) -> bool:
    """Return whether a turn may both end keys and take keys."""
    return turn.claim is not None and any(each.lease.hold is not _FREE for each in turn.settlements)


def in_two(turn: Turn, make: Make) -> TurnResult:
    """Settle, and then claim.  If the claim fails, the settlements are applied: asked again, the evidence answers."""
    ended = make(Turn(owner=turn.owner, settlements=turn.settlements))
    if not ended.alive:
        return ended
    claimed = make(Turn(owner=turn.owner, claim=turn.claim), released(turn.settlements, ended.settled))
    return msgspec.structs.replace(claimed, settled=ended.settled, woken=[*ended.woken, *claimed.woken])


def released(settlements: Sequence[Settlement], answers: Sequence[Settled]) -> list[str]:
    """Return the ids of the jobs that these settlements have given back."""
    pairs = zip(settlements, answers, strict=True)
    return [each.lease.envelope.id for each, answer in pairs if each.move == "release" and answer.applied]
