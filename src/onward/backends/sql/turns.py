"""A turn that ends keys before it takes others: two transactions, one after the other.

Keys are locked in their order, so that two transactions that want the same ones wait for each other in one direction only.
A turn knows which keys it takes when it has claimed, and what it can claim depends on the keys that it has ended.  So in one
transaction it would lock twice in that order, and two turns could each have what the other one wants next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from onward.backend import Turn, TurnResult
from onward.job.lease import Hold
from onward.job.settlement import Settled, Settlement

__all__ = ["in_two", "is_parted", "released"]


class Make(Protocol):
    """Make a turn in one transaction; what is named as released is not claimed."""

    def __call__(self, turn: Turn, released: Sequence[str] = ()) -> TurnResult: ...


def is_parted(turn: Turn) -> bool:
    """Return whether it may both end keys and take keys."""
    return turn.claim is not None and any(each.lease.hold is not Hold.FREE for each in turn.settlements)


def in_two(turn: Turn, make: Make) -> TurnResult:
    """Settle, and then claim.  If the claim fails, the settlements are applied: asked again, the evidence answers."""
    ended = make(Turn(owner=turn.owner, settlements=turn.settlements))
    if not ended.alive:
        return ended
    claimed = make(Turn(owner=turn.owner, claim=turn.claim), released(turn.settlements, ended.settled))
    return msgspec.structs.replace(claimed, settled=ended.settled, woken=ended.woken)


def released(settlements: Sequence[Settlement], answers: Sequence[Settled]) -> list[str]:
    """The ids that were given back just now."""
    pairs = zip(settlements, answers, strict=True)
    return [each.lease.envelope.id for each, answer in pairs if each.move == "release" and answer.applied]
