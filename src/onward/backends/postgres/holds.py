"""Idempotency keys and single instances: pointers to the lease that holds a key.

There is nothing to release; a settlement removes the pointer only to wake waiters and to keep the table small.
A claim locks the rows of its keys first, and makes them if there are none: two claims cannot both find a key free.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.holds import WAITERS, Ended, EndedHold, HoldKey, Keyed, allot, ended_holds
from onward.job.lease import Hold

__all__ = ["Ended", "Keyed", "end", "take"]


def take(tx: Transaction, claimed: Sequence[Keyed], now: int) -> dict[str, tuple[Hold, str | None]]:
    """Take all keys of each of these leases, in their order, or none of them; return what came of it, by id."""
    wanted = sorted({key for keyed in claimed for key in keyed.carried()})
    tx.ask("lock_holds", **_columns(wanted))
    holds, taken = allot(claimed, tx.ask("holds", **_columns(wanted)).rows(), now)
    if taken:
        tx.ask(
            "take_holds",
            **_columns(list(taken)),
            ids=[keyed.id for keyed in taken.values()],
            tokens=[keyed.token for keyed in taken.values()],
        )
    if untaken := [key for key in wanted if key not in taken]:
        tx.ask("drop_blank_holds", **_columns(untaken))
    return holds


def end(tx: Transaction, ended: Sequence[Ended]) -> None:
    """Confirm or drop the keys of these leases, and wake the jobs that wait for them.

    The jobs are locked first: a transaction that has keys waits for keys only.
    """
    pointers = ended_holds(ended)
    kinds, keys, ids, tokens, _ = map(list, zip(*pointers, strict=True))
    numbers = tx.ask("ended_holds", kinds=kinds, keys=keys, ids=ids, tokens=tokens).rows()
    held = [pointers[number - 1] for number in sorted(number for (number,) in numbers)]
    if not held:
        return
    woken = _to_wake(tx, held)
    # In the order of the keys, like a claim.
    kinds, keys, ids, tokens, ttls = map(list, zip(*sorted(held, key=lambda pointer: pointer[:2]), strict=True))
    tx.ask("end_holds", kinds=kinds, keys=keys, ids=ids, tokens=tokens, ttls=ttls)
    if woken:
        tx.woken |= woken
        tx.wakes |= {queue for (queue,) in tx.ask("wake_waiters", ids=sorted(woken)).rows()}


def _to_wake(tx: Transaction, pointers: Sequence[EndedHold]) -> set[str]:
    """Return the first waiter for each key, or all if it was confirmed; a job is woken for one key only."""
    waiters = _waiters(tx, pointers)
    woken: set[str] = set()
    for pointer in pointers:
        line = [each for each in waiters[pointer.kind, pointer.key] if each != pointer.job_id and each not in woken]
        woken.update(line if pointer.ttl is not None else line[:1])
    return woken


def _waiters(tx: Transaction, pointers: Sequence[EndedHold]) -> dict[HoldKey, list[str]]:
    """Return the jobs that wait for these keys, in claim order: as many as could be woken for one that is dropped."""
    enough = len(pointers) + 1
    replies = {}
    for kind, statement in WAITERS.items():
        limits = {each.key: None if each.ttl is not None else enough for each in pointers if each.kind == kind}
        if limits:
            replies[kind] = tx.ask(statement, keys=list(limits), limits=list(limits.values()))
    waiters: defaultdict[HoldKey, list[str]] = defaultdict(list)
    for kind, reply in replies.items():
        for key, job_id in reply.rows():
            waiters[kind, key].append(job_id)
    return waiters


def _columns(keys: Sequence[HoldKey]) -> dict[str, list[str]]:
    return {"kinds": [kind for kind, _ in keys], "keys": [key for _, key in keys]}
