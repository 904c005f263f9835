"""Deciding which lease gets an idempotency key or a single instance, from the pointers: pure, for every database.

A pointer counts while its job is executing with its token, or until its time once a success confirmed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from onward.job.lease import Hold

__all__ = [
    "ONCE", "SINGLE", "WAITERS", "Allotment", "Ended", "EndedHold", "HoldKey", "HoldRow", "Keyed", "allot", "ended_holds",
    "standing",
]  # fmt: skip

ONCE, SINGLE = "once", "single"
WAITERS = {ONCE: "once_waiters", SINGLE: "single_waiters"}  # the statements that find who waits for a key

HoldKey = tuple[str, str]  # kind, key


class Keyed(NamedTuple):
    """A lease whose job carries keys."""

    id: str
    token: int
    idempotency_key: str | None
    idempotency_ttl: int
    single_instance: str | None

    def carried(self) -> Iterator[HoldKey]:
        if self.idempotency_key is not None:
            yield ONCE, self.idempotency_key
        if self.single_instance is not None:
            yield SINGLE, self.single_instance


class Ended(NamedTuple):
    """An ended lease; ``confirmed`` if it was a success."""

    keyed: Keyed
    confirmed: bool


class EndedHold(NamedTuple):
    """What a lease that ends held under one key."""

    kind: str
    key: str
    job_id: str
    token: int
    ttl: int | None  # if set, all jobs that wait for the key will be skipped


def ended_holds(ended: Iterable[Ended]) -> list[EndedHold]:
    """Return what these leases held.  Only a success under an idempotency key is remembered."""
    return [
        EndedHold(*key, keyed.id, keyed.token, keyed.idempotency_ttl if confirmed and key[0] == ONCE else None)
        for keyed, confirmed in ended
        for key in keyed.carried()
    ]


class HoldRow(NamedTuple):
    """A row of `holds`: which lease has a key, until when the key is done, or whether the holder still runs."""

    kind: str
    key: str
    job_id: str
    token: int
    done_until: int | None
    runs: bool


class Allotment(NamedTuple):
    """What came of each lease's keys, by its id, and which keys it now takes."""

    holds: dict[str, tuple[Hold, str | None]]
    taken: dict[HoldKey, Keyed]


def allot(claimed: Sequence[Keyed], found: Iterable[Sequence[Any]], now: int) -> Allotment:
    """Give each of these leases, in their order, all of its keys or none of them."""
    pointers = {
        (row[0], row[1]): HoldRow(*row) for row in found if row[2]
    }  # without a job: a row to be locked, no more
    taken: dict[HoldKey, Keyed] = {}
    return Allotment({keyed.id: _take(keyed, pointers, taken, now) for keyed in claimed}, taken)


def standing(found: Sequence[Sequence[Any]], now: int) -> tuple[Hold, str | None]:
    """Return what one key is, by its pointer if it has one: DONE, BUSY or FREE; and the job that it points to."""
    for row in found:
        pointer = HoldRow(*row)
        if pointer.done_until is not None and pointer.done_until > now:
            return Hold.DONE, pointer.job_id
        if pointer.done_until is None and pointer.runs:
            return Hold.BUSY, pointer.job_id
    return Hold.FREE, None


def _take(
    keyed: Keyed, pointers: dict[HoldKey, HoldRow], taken: dict[HoldKey, Keyed], now: int
) -> tuple[Hold, str | None]:
    """Take all keys of a lease, or none: done beats busy beats held."""
    busy: str | None = None
    mine = 0
    keys = list(keyed.carried())
    for key in keys:
        if key in taken:
            busy = busy or taken[key].id
        elif key in pointers:
            pointer = pointers[key]
            if pointer.done_until is not None and pointer.done_until > now:
                return Hold.DONE, pointer.job_id
            if (pointer.job_id, pointer.token) == (keyed.id, keyed.token):
                mine += pointer.done_until is None
            elif pointer.done_until is None and pointer.runs:
                busy = busy or pointer.job_id
    if mine == len(keys):
        return Hold.HELD, None
    if busy is not None:
        return Hold.BUSY, busy
    taken.update(dict.fromkeys(keys, keyed))
    return Hold.HELD, None
