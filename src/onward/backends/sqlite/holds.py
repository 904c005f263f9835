"""Idempotency keys and single instances: pointers to the lease that holds a key.

A pointer counts while its job is executing with its token, or until its time once a success confirmed it.  So there is
nothing to release; a pointer is dropped with its lease only so that the table stays small and waiters can be woken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.lease import Hold, Settlement

__all__ = ["ONCE", "SINGLE", "Ended", "Keyed", "end", "of_settled", "take"]

ONCE, SINGLE = "once", "single"
_WAKE = {ONCE: "wake_once", SINGLE: "wake_single"}
_EVERYBODY = -1  # LIMIT -1 is no limit

Key = tuple[str, str]  # kind, key


class Keyed(NamedTuple):
    """A lease whose job carries keys."""

    id: str
    token: int
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None

    def carried(self) -> Iterator[Key]:
        if self.idempotency_key is not None:
            yield ONCE, self.idempotency_key
        if self.single_instance is not None:
            yield SINGLE, self.single_instance


class Ended(NamedTuple):
    """A lease that is over; ``confirmed`` if it was a success."""

    keyed: Keyed
    confirmed: bool


def take(tx: Transaction, claimed: Sequence[Keyed]) -> dict[str, tuple[Hold, str | None]]:
    """Take all keys of each of these leases, in their order, or none of them; says what came of it, by id."""
    wanted = dict.fromkeys(key for keyed in claimed for key in keyed.carried())
    found = tx.rows("holds", (as_json(list(wanted)),))
    pointers = {(row[0], row[1]): row for row in found}
    taken: dict[Key, Keyed] = {}
    outcome = {keyed.id: _take(keyed, pointers, taken, tx.now) for keyed in claimed}
    if taken:
        tx.run_many("take_hold", [(*key, keyed.id, keyed.token) for key, keyed in taken.items()])
    return outcome


def of_settled(tx: Transaction, owner: str, settlements: Sequence[Settlement]) -> dict[tuple[str, int], Keyed]:
    """Which of these leases carry keys.  One look at an index where nobody uses keys."""
    if not tx.value("holds_keys", (owner,)):
        return {}
    ids = [settlement.lease.envelope.id for settlement in settlements]
    found = map(Keyed._make, tx.rows("keyed_leases", (as_json(ids),)))
    return {(keyed.id, keyed.token): keyed for keyed in found}


def end(tx: Transaction, ended: Sequence[Ended]) -> None:
    """Confirm or drop what these leases held, and wake who waits for it."""
    for keyed, confirmed in ended:
        for kind, key in keyed.carried():
            pointer = (kind, key, keyed.id, keyed.token)
            if confirmed and kind == ONCE:
                held, woken = tx.run("confirm_hold", (*pointer, tx.now + keyed.idempotency_ttl)), _EVERYBODY
            else:
                held, woken = tx.run("drop_hold", pointer), 1
            if held and tx.run(_WAKE[kind], (key, tx.now, keyed.id, woken)):
                tx.wakes = True


def _take(keyed: Keyed, pointers: dict[Key, Row], taken: dict[Key, Keyed], now: int) -> tuple[Hold, str | None]:
    """Done beats busy beats held."""
    busy: str | None = None
    mine = 0
    keys = list(keyed.carried())
    for key in keys:
        if key in taken:
            busy = busy or taken[key].id
        elif key in pointers:
            _, _, job_id, token, done_until, runs = pointers[key]
            if done_until is not None and done_until > now:
                return Hold.DONE, job_id
            if (job_id, token) == (keyed.id, keyed.token):
                mine += done_until is None
            elif done_until is None and runs:
                busy = busy or job_id
    if mine == len(keys):
        return Hold.HELD, None
    if busy is not None:
        return Hold.BUSY, busy
    taken.update(dict.fromkeys(keys, keyed))
    return Hold.HELD, None
