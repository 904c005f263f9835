"""Idempotency keys and single instances: pointers to the lease that holds a key.

There is nothing to release; a pointer is dropped with its lease only so that the table stays small and waiters can be woken.
Whoever takes keys locks their rows first, and makes them if there are none: two claims cannot both find a key free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.holds import ONCE, SINGLE, Ended, Key, Keyed, allot
from onward.lease import Hold

__all__ = ["Ended", "Keyed", "end", "take"]

_WAITERS = {ONCE: "once_waiters", SINGLE: "single_waiters"}
_ALL = 1 << 40


def take(tx: Transaction, claimed: Sequence[Keyed], now: int) -> dict[str, tuple[Hold, str | None]]:
    """Take all keys of each of these leases, in their order, or none of them; says what came of it, by id."""
    wanted = sorted({key for keyed in claimed for key in keyed.carried()})
    tx.ask("lock_holds", keys=wanted)
    holds, taken = allot(claimed, tx.ask("holds", keys=wanted).rows(), now)
    if taken:
        tx.ask("take_holds", taken=[(*key, keyed.id, keyed.token) for key, keyed in taken.items()])
    if untaken := [key for key in wanted if key not in taken]:
        tx.ask("drop_blank_holds", keys=untaken)
    return holds


class _Pointer(NamedTuple):
    kind: str
    key: str
    job_id: str
    token: int
    ttl: int | None  # once this is set, everybody who waits will be skipped


def end(tx: Transaction, ended: Sequence[Ended]) -> None:
    """Confirm or drop what these leases held, and wake who waits for it."""
    pointers = [_pointer(lease, key) for lease in ended for key in lease.keyed.carried()]
    # In the order of the keys, like whoever takes them.
    ordered = sorted(range(len(pointers)), key=lambda at: pointers[at][:2])
    numbers = tx.ask("ended_holds", ended=[pointers[at][:4] for at in ordered]).rows()
    held = [pointers[at] for at in sorted(ordered[number - 1] for (number,) in numbers)]
    if confirmed := [pointer for pointer in held if pointer.ttl is not None]:
        tx.ask("confirm_holds", ended=confirmed)
    if dropped := [pointer[:4] for pointer in held if pointer.ttl is None]:
        tx.ask("drop_holds", ended=dropped)
    if held and (woken := _to_wake(tx, held)):
        tx.ask("wake_waiters", ids=sorted(woken))
        tx.woken |= set(woken)
        tx.wakes |= {queue for _, _, queue in tx.ask("lock_jobs", ids=sorted(woken)).rows()}


def _pointer(lease: Ended, key: Key) -> _Pointer:
    confirms = lease.confirmed and key[0] == ONCE
    return _Pointer(*key, lease.keyed.id, lease.keyed.token, lease.keyed.idempotency_ttl if confirms else None)


def _to_wake(tx: Transaction, pointers: Sequence[_Pointer]) -> set[str]:
    """The first waiter for each key, or all of them if it was confirmed; who is woken for one key is not for another."""
    waiters = _waiters(tx, pointers)
    woken: set[str] = set()
    for pointer in pointers:
        waiting = waiters.get((pointer.kind, pointer.key), [])
        line = [each for each in waiting if each != pointer.job_id and each not in woken]
        woken.update(line if pointer.ttl is not None else line[:1])
    return woken


def _waiters(tx: Transaction, pointers: Sequence[_Pointer]) -> dict[Key, list[str]]:
    """Who waits for these keys, in claim order: as many as could be woken for one that is dropped."""
    enough = len(pointers) + 1
    limits = {(each.kind, each.key): enough if each.ttl is None else _ALL for each in pointers}
    keys = list(limits)
    waited_for = [keys[number - 1] for (number,) in tx.ask("keys_waited_for", keys=keys).rows()]
    replies = {key: tx.ask(_WAITERS[key[0]], key=key[1], limit=limits[key]) for key in waited_for}
    return {key: [job_id for (job_id,) in reply.rows()] for key, reply in replies.items()}
