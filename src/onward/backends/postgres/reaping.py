"""Giving back the leases of ended sessions: each is settled, as crashed or as released."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter

from onward.backend import Held, Reaped
from onward.backends.postgres import holds, settling
from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.deaths import workers_of
from onward.backends.sql.flows import touch
from onward.backends.sql.settling import Lost
from onward.job.states import state_named

__all__ = ["end", "give_back"]


def end(tx: Transaction, owner: str | None, queue: str | None) -> list[Lost]:
    """End the session, or all that expired, and lock what they held; leave locked jobs to the next sweep."""
    if owner is None:
        ended = tx.ask("end_expired_sessions", queue=queue)
        reply = tx.ask("orphans", queue=queue)
    else:
        ended = tx.ask("end_session", owner=owner)
        reply = tx.ask("dead_leases", owner=owner, queue=queue)
    workers = workers_of(ended.rows())
    rows = sorted(reply.rows(), key=itemgetter(0))  # by id, as everything that writes several jobs
    return [(lost := Lost(*row))._replace(by=workers.get(lost.owner)) for row in rows]


def give_back(tx: Transaction, lost: Sequence[Lost], started: Collection[Held] | None, cause: str) -> list[Reaped]:
    held = {(lease.id, lease.token) for lease in lost}
    crashed = held if started is None else held.intersection(started)
    settlements = [lease.settlement(cause, crashed=(lease.id, lease.token) in crashed) for lease in lost]
    columns = {**settling.columns(settlements), "owners": [lease.owner for lease in lost]}
    rows = settling.written(tx.ask("settle", owner=None, **columns))
    reaped: dict[int, Reaped] = {}
    ended: dict[int, holds.Ended] = {}
    for number, to, _, once, ttl, single, *place in rows:
        touch(tx.touched, [place])
        lease = lost[number - 1]
        reaped[number] = lease.reaped(state_named(to), cause, crashed=(lease.id, lease.token) in crashed)
        if once is not None or single is not None:
            ended[number] = holds.Ended(holds.Keyed(lease.id, lease.token, once, ttl, single), confirmed=False)
        tx.wakes.add(lease.queue)  # it is due again, or its slot is free for another
    if ended:
        holds.end(tx, [ended[number] for number in sorted(ended)])
    return [reaped[number] for number in sorted(reaped)]
