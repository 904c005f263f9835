"""The order of a turn on a broker, where one command acts on one job."""

from __future__ import annotations

from collections.abc import Callable

from onward.backend import Claim, Turn, TurnResult
from onward.job.lease import Lease
from onward.job.settlement import Settled, Settlement

__all__ = ["in_order"]


def in_order(turn: Turn, settle: Callable[[Settlement], Settled], claim: Callable[[Claim], list[Lease]]) -> TurnResult:
    """Settle, claim, then release: a turn must not claim what it released."""
    settled: list[Settled | None] = [None] * len(turn.settlements)
    order = sorted(range(len(settled)), key=lambda at: turn.settlements[at].move == "release")
    first_release = sum(settlement.move != "release" for settlement in turn.settlements)
    for at in order[:first_release]:
        settled[at] = settle(turn.settlements[at])
    leases = claim(turn.claim) if turn.claim is not None else []
    for at in order[first_release:]:
        settled[at] = settle(turn.settlements[at])
    return TurnResult(settled=[each for each in settled if each is not None], leases=leases)
