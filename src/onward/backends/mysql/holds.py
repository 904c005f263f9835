"""Idempotency keys and single instances: pointers to the lease that holds a key.

There is nothing to release; a settlement removes the pointer only to wake waiters and to keep the table small.
A claim locks the rows of its keys first, and makes them if there are none: two claims cannot both find a key free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.holds import WAITERS, Ended, EndedHold, HoldKey, Keyed, allot, ended_holds
from onward.job.lease import Hold

__all__ = ["Ended", "Ending", "Keyed", "Waiter", "take"]

_ALL = 1 << 40


def take(tx: Transaction, claimed: Sequence[Keyed], now: int) -> dict[str, tuple[Hold, str | None]]:
    """Take all keys of each of these leases, in their order, or none of them; return what came of it, by id."""
    wanted = sorted({key for keyed in claimed for key in keyed.carried()})
    tx.ask("lock_holds", keys=wanted)
    holds, taken = allot(claimed, tx.ask("holds", keys=wanted).rows(), now)
    if taken:
        tx.ask("take_holds", taken=[(*key, keyed.id, keyed.token) for key, keyed in taken.items()])
    return holds


class Waiter(NamedTuple):
    """A job that waits until a key is free, by its place in claim order."""

    rank: int
    available_at: int
    id: str
    queue: str


class Ending:
    """Ends the holds of leases in two steps: it locks waiting jobs before any job is written."""

    def __init__(self, tx: Transaction, ended: Sequence[Ended]) -> None:
        self._tx = tx
        pointers = ended_holds(ended)
        numbers = tx.ask("ended_holds", ended=[pointer[:4] for pointer in pointers]).rows()
        self._held = [pointers[number - 1] for number in sorted(number for (number,) in numbers)]
        self._waiters = _lock_waiters(tx, self._held) if self._held else {}

    def end(self, snoozed: Iterable[tuple[Waiter, Keyed]]) -> None:
        """Wake the jobs that wait, also those that this turn has snoozed; then confirm the keys or set them free."""
        for waiter, keyed in snoozed:
            for key in keyed.carried():
                self._waiters.setdefault(key, []).append(waiter)
        self._wake()
        if self._held:  # in the order of the keys, like a claim
            self._tx.ask("end_holds", ended=sorted(self._held, key=lambda pointer: pointer[:2]))

    def _wake(self) -> None:
        """Wake the first waiter for each key, or all if it was confirmed; a job is woken for one key only."""
        woken: set[Waiter] = set()
        for pointer in self._held:
            waiting = sorted(self._waiters.get((pointer.kind, pointer.key), ()))
            line = [each for each in waiting if each.id != pointer.job_id and each not in woken]
            woken.update(line if pointer.ttl is not None else line[:1])
        if woken:
            self._tx.ask("wake_waiters", ids=sorted(each.id for each in woken))
            self._tx.woken |= {each.id for each in woken}
            self._tx.wakes |= {each.queue for each in woken}


def _lock_waiters(tx: Transaction, pointers: Sequence[EndedHold]) -> dict[HoldKey, list[Waiter]]:
    """Lock the jobs that wait for these keys: as many as could be woken for one that is dropped."""
    enough = len(pointers) + 1
    limits = {(each.kind, each.key): enough if each.ttl is None else _ALL for each in pointers}
    keys = list(limits)
    waited_for = [keys[number - 1] for (number,) in tx.ask("keys_waited_for", keys=keys).rows()]
    replies = {key: tx.ask(WAITERS[key[0]], key=key[1], limit=limits[key]) for key in waited_for}
    found = {key: [Waiter(*row) for row in reply.rows()] for key, reply in replies.items()}
    places = sorted({(each.queue, each.available_at, each.id) for line in found.values() for each in line})
    locked = {job_id for (job_id,) in tx.ask("lock_waiters", waiters=places).rows()} if places else set()
    return {key: [each for each in line if each.id in locked] for key, line in found.items()}
