"""Idempotency keys and single instances: pointers to the lease that holds a key.

There is nothing to release; a settlement removes the pointer only to wake waiters and to keep the table small.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.sql.holds import ONCE, SINGLE, Ended, Keyed, allot, standing
from onward.backends.sqlite.transaction import Transaction, as_json
from onward.job.lease import Hold
from onward.job.settlement import Settlement

__all__ = ["ONCE", "SINGLE", "Ended", "Keyed", "end", "forget", "of_settled", "take"]

_WAKE = {ONCE: "wake_once", SINGLE: "wake_single"}
_ALL = -1  # LIMIT -1 is no limit


def take(tx: Transaction, claimed: Sequence[Keyed]) -> dict[str, tuple[Hold, str | None]]:
    """Take all keys of each of these leases, in their order, or none of them; return what came of it, by id."""
    wanted = dict.fromkeys(key for keyed in claimed for key in keyed.carried())
    holds, taken = allot(claimed, tx.rows("holds", (as_json(list(wanted)),)), tx.now)
    if taken:
        tx.run_many("take_hold", [(*key, keyed.id, keyed.token) for key, keyed in taken.items()])
    return holds


def forget(tx: Transaction, key: str) -> tuple[Hold, str | None]:
    """Free an idempotency key that is done; a key that a lease holds stays."""
    found = standing(tx.rows("holds", (as_json([(ONCE, key)]),)), tx.now)
    if found[0] is Hold.DONE:
        tx.run("forget_hold", (key,))
    return found


def of_settled(tx: Transaction, settlements: Sequence[Settlement]) -> dict[tuple[str, int], Keyed]:
    """Return those of these leases that carry keys."""
    ids = [settlement.lease.envelope.id for settlement in settlements]
    found = map(Keyed._make, tx.rows("keyed_leases", (as_json(ids),)))
    return {(keyed.id, keyed.token): keyed for keyed in found}


def end(tx: Transaction, ended: Sequence[Ended]) -> None:
    """Confirm or drop the keys of these leases, and wake the jobs that wait for them."""
    for keyed, confirmed in ended:
        for kind, key in keyed.carried():
            pointer = (kind, key, keyed.id, keyed.token)
            if confirmed and kind == ONCE:
                held, woken = tx.run("confirm_hold", (*pointer, tx.now + keyed.idempotency_ttl)), _ALL
            else:
                held, woken = tx.run("drop_hold", pointer), 1
            if held and (waiters := tx.rows(_WAKE[kind], (key, tx.now, keyed.id, woken))):
                tx.wakes = True
                tx.woken += [waiter for (waiter,) in waiters]
