"""How a broker takes a turn, that does one thing to one job in one command; and how a process ends its own session."""

from __future__ import annotations

from collections.abc import Callable

from onward.backend import Claim, Reaped, Turn, TurnResult
from onward.backends.broker.evidence import Evidence
from onward.backends.broker.header import Header
from onward.job.lease import Lease
from onward.job.settlement import Settled, Settlement

__all__ = ["give_back", "in_order"]


def in_order(turn: Turn, settle: Callable[[Settlement], Settled], claim: Callable[[Claim], list[Lease]]) -> TurnResult:
    """Releases come last: what was released must not be claimed by the same turn."""
    settled: list[Settled | None] = [None] * len(turn.settlements)
    order = sorted(range(len(settled)), key=lambda at: turn.settlements[at].move == "release")
    first_release = sum(settlement.move != "release" for settlement in turn.settlements)
    for at in order[:first_release]:
        settled[at] = settle(turn.settlements[at])
    leases = claim(turn.claim) if turn.claim is not None else []
    for at in order[first_release:]:
        settled[at] = settle(turn.settlements[at])
    return TurnResult(settled=[each for each in settled if each is not None], leases=leases)


def give_back(
    lease: Lease,
    header: Header,
    cause: str,
    *,
    started: bool,
    settle: Callable[[Settlement], Settled],
    evidence: Evidence,
) -> Reaped | None:
    """Take a lease from a session that ends here; None if it was lost before.  What had begun has crashed."""
    move = Settlement.given_back(lease, cause, started=started)
    answer = settle(move)
    evidence.note(move, answer)
    if answer.state is None:
        return None
    return Reaped(
        id=header.id,
        queue=lease.envelope.queue,
        job=header.job,
        token=lease.token,
        to=answer.state,
        cause=cause,
        crashed=started,
        crashes=header.crashes + started,
    )
