"""Giving back the leases of ended sessions: each is settled, as crashed or as released."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from onward.backend import Held, Reaped
from onward.backends.mysql import settling
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.deaths import workers_of
from onward.backends.sql.settling import Lost

__all__ = ["end", "give_back"]


def end(tx: Transaction, owner: str | None, queue: str | None) -> list[Lost]:
    """End the session, or all that expired, and lock what they held; leave locked jobs to the next sweep."""
    if owner is None:
        sessions = tx.ask("expired_sessions").rows()
        expired = [each for each, *_ in sessions]
        if queue is not None:
            owners = {each for (each,) in tx.ask("owners_of_queue", queue=queue).rows()}
            expired = [each for each in expired if each in owners]
        if expired:
            tx.ask("end_sessions", owners=sorted(expired))
        seen = tx.ask("orphans", queue=queue).rows()
        rows = tx.ask("lock_orphans", leases=seen).rows() if seen else []
    else:
        sessions = tx.ask("session_of", owner=owner).rows()
        tx.ask("end_session", owner=owner)
        rows = tx.ask("dead_leases", owner=owner, queue=queue).rows()
    workers = workers_of(sessions)
    return [lost._replace(by=workers.get(lost.owner)) for lost in sorted(Lost(*row) for row in rows)]


def give_back(tx: Transaction, lost: Sequence[Lost], started: Collection[Held] | None, cause: str) -> list[Reaped]:
    held = {(lease.id, lease.token) for lease in lost}
    crashed = held if started is None else held.intersection(started)
    settlements = {
        at: lease.settlement(cause, crashed=(lease.id, lease.token) in crashed) for at, lease in enumerate(lost)
    }
    answers = settling.settle(tx, settlements)
    reaped = []
    for at in sorted(answers):
        to = answers[at].state
        assert to is not None
        reaped.append(lost[at].reaped(to, cause, crashed=(lost[at].id, lost[at].token) in crashed))
    return reaped
