"""Finding data that no script wrote: keys of another type, records that cannot be read, indexes that name no job.

Records decide.  The search renames a key of another type, puts every readable record into its indexes, and removes all
other entries of an index.  A damaged record, and an id without a record, become dead letters.  The search goes in short
steps, each one script, so that the server answers other clients in between.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from onward.backends import damage
from onward.backends.damage import dead, logger, new_id, problems
from onward.backends.redis import packing, showing
from onward.backends.redis.connection import Connections
from onward.backends.redis.errors import translated
from onward.backends.redis.layout import FLAGS, STATES
from onward.backends.redis.packing import UNREADABLE
from onward.errors import BackendRefused
from onward.job.lease import LAST_INSTANT
from onward.job.states import FINISHED, State

__all__ = ["RedisDamage"]

_STRETCH = 500
_BATCH = 100
_QUEUED = {"ready", "lanes", "later", "booked", "expiring"}  # indexes that are named after a queue
_INDEXES = _QUEUED | {
    *("live", "ended", "tombs", "leases", "running", "asked", "waiters"),
    *("members", "waiting", "finished", "deaths"),
}
_AN_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
_SHOWN = 200  # bytes of a record that a reason quotes
_UNKNOWN: dict[str, Any] = {
    "job": "unknown",
    "rank": 0,
    "max_crashes": 3,
    "idempotency_ttl": 0,
    **dict.fromkeys(("delivery", "attempts", "crashes", "interruptions", "waits", "available_at", "enqueued_at"), 0),
    **dict.fromkeys(("expires_at", "started_at", "parked_since", "owner", "progress")),
    **dict.fromkeys(("unique_key", "idempotency_key", "single_instance", "lane", "cost")),
}


class DamagedJob(NamedTuple):
    """A job to be set aside."""

    id: bytes  # as it is found
    raw: bytes | None  # its record, as it was seen
    queue: str
    why: str
    row: Mapping[str, Any]
    data: bytes | None  # the sealed bytes, if the record holds them
    named_by: tuple[bytes, bytes] | None = None  # the index that names it, and how


class RedisDamage(damage.SetsAside):
    """A backend that can find and set aside damaged records."""

    _not_damage = (BackendRefused,)
    _connections: Connections
    _prefix: str

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    def _look_for_damage(self) -> int:
        found, indexes, flows = 0, [], []
        counts: set[bytes] = set()
        for keys in self._keys():
            found += self._repair_keys(keys)
            names = [key[len(self._prefix) + 1 :] for key in keys]
            indexes += [name for name in names if _kind(name) in _INDEXES]
            counts.update(name for name in names if _kind(name) == "counts")
            # A queue whose jobs are all available may have no counts.
            counts.update(b"counts:" + name.partition(b":")[2] for name in names if _kind(name) in ("ready", "lanes"))
            flows += [name.partition(b":")[2] for name in names if _kind(name) == "flow"]
        for at in range(0, len(flows), _STRETCH):
            self._run("repair_flows", beside=flows[at : at + _STRETCH])
        found += sum(map(self._store, _batches(self._damaged_records())))
        # First the indexes of queues: they say to which queue a job belongs.
        for name in sorted(indexes, key=lambda name: _kind(name) not in _QUEUED):
            found += self._repair_index(name)
        return found + self._repair_names() + self._repair_rest(sorted(counts))

    def _repair_keys(self, keys: Sequence[bytes]) -> int:
        put_aside, unordered = self._run("repair_keys", self._now(), beside=keys)
        for name, kind in put_aside:
            logger.critical("the key %s was renamed: it is a %s, which no worker writes there", _text(name), kind)
        for name in unordered:
            logger.critical("scores of %s were set to 0: no worker writes others there", _text(name))
        return len(put_aside) + len(unordered)

    def _keys(self) -> Iterator[list[bytes]]:
        cursor: Any = b"0"
        while True:
            with translated(self._connections.place), self._connections.borrowed() as connection:
                cursor, keys = connection.ask("SCAN", cursor, "MATCH", f"{self._prefix}:*", "COUNT", 1000)
            if keys:
                yield keys
            if int(cursor) == 0:
                return

    def _damaged_records(self) -> Iterator[DamagedJob]:
        cursor = "0"
        while True:
            following, pairs, damaged = self._run("repair_records", self._now(), cursor, _STRETCH)
            known = set(damaged)
            for job_id, raw in zip(pairs[::2], pairs[1::2], strict=True):
                job = _examined(job_id, raw, is_known=job_id in known)
                if job is not None:
                    yield job
            cursor = following.decode()
            if cursor == "0":
                return

    def _repair_index(self, name: bytes) -> int:
        found, cursor, kind = 0, "0", _kind(name)
        queue = _text(name.partition(b":")[2]) if kind in _QUEUED else "unknown"
        while True:
            taken_out: int
            following, taken_out, missing = self._run("repair_index", self._now(), cursor, _STRETCH, beside=[name])
            if taken_out:
                logger.critical(
                    "%d entries of %s were removed: they name jobs that are elsewhere", taken_out, _text(name)
                )
            why = f"{_text(name)} names it, and there is no record of it"
            jobs = [DamagedJob(job_id, None, queue, why, _UNKNOWN, None, (name, member)) for member, job_id in missing]
            found += taken_out + sum(map(self._store, _batches(iter(jobs))))
            cursor = following.decode()
            if cursor == "0":
                return found

    def _repair_names(self) -> int:
        """Rename schedules whose names are no text."""
        _, pairs = self._run("schedules", self._now())
        renamed = {name: showing.shown_name(name).encode() for name in pairs[::2]}
        wrong = [(old, new) for old, new in renamed.items() if old != new]
        for old, new in wrong:
            logger.critical("the schedule %r is called %s now: its name was no text", old[:_SHOWN], _text(new))
        self._run("repair_schedules", beside=[each for pair in wrong for each in pair])
        return len(wrong)

    def _repair_rest(self, counts: Sequence[bytes]) -> int:
        ended, miscounted, unreadable = self._run(
            "repair_rest", beside=[self._prefix.encode() + b":" + name for name in counts]
        )
        for owner in ended:
            logger.critical("session %s was ended: it holds times that no worker writes", _text(owner))
        for name in miscounted:
            logger.critical("an entry of %s was removed: it is not a number, or belongs to no state", _text(name))
        for name in unreadable:
            logger.critical("a row of %s was removed: it cannot be read", _text(name))
        return len(ended) + len(miscounted) + len(unreadable)

    def _store(self, jobs: Sequence[DamagedJob]) -> int:
        message = packing.Message()
        packed, told = [], []
        now = self._now() or time.time_ns() // 1000
        for job in jobs:
            text = _text(job.id)
            job_id = text if _AN_ID.fullmatch(text) else new_id()
            reason = f"set aside: {job.why}: no worker writes that"
            if job_id != text:
                reason += f"; its id was {job.id[:_SHOWN]!r}"
            if job.raw is not None:
                reason += f"; its record was {job.raw[:_SHOWN]!r}"
            letter = dead({**job.row, "id": job_id, "queue": job.queue, "sealed": b"", "now": now}, reason)
            place = message.beside(job.id)
            message.bytes += (
                job.raw or b"",
                packing.packed_record(letter, b""),
                (job.raw or b"") if job.data is None else job.data,
            )
            index = None if job.named_by is None else [message.beside(each) for each in job.named_by]
            packed.append((job_id, job.queue, job.raw is None, place, bool(job.data), *(index or (None, None))))
            told.append(f"job {job_id} is discarded, {reason}")
        done = self._run("set_aside", packed, self._now(), beside=message.bytes)
        for was_done, line in zip(done, told, strict=True):
            if was_done:
                logger.critical("%s", line)
        return sum(done)


def _examined(job_id: bytes, raw: bytes, *, is_known: bool) -> DamagedJob | None:
    """Return what is wrong with a record; None if nothing is.  ``is_known``: the scripts cannot read it."""
    is_live = raw[:1] != b"\0"
    try:
        found = packing.opened(raw, is_live=is_live)
    except UNREADABLE as error:
        why = f"its record cannot be read ({type(error).__name__})"
        return DamagedJob(job_id, raw, "unknown", why, _UNKNOWN, None)
    row = _row(found, is_live=is_live)
    wrong = [*problems(row), *_further_problems(found, is_live=is_live)]
    if not _AN_ID.fullmatch(_text(job_id)):
        wrong.append("its id is not valid")
    if is_known and not wrong:
        wrong.append("the scripts cannot read its record")
    if not wrong:
        return None
    return DamagedJob(job_id, raw, found.rest.queue, "; ".join(wrong), row, found.inside or b"")


def _row(found: packing.Opened, *, is_live: bool) -> dict[str, Any]:
    rest, fixed = found.rest, found.rest.fixed
    return {
        "job": fixed.job,
        # The last live record of a dead job does not have its state: the patch before it does.
        "state": STATES.get(found.state, found.state) if is_live else State.AVAILABLE,
        "rank": rest.rank,
        "available_at": found.due,
        "expires_at": fixed.expires_at,
        "enqueued_at": fixed.enqueued_at,
        "started_at": found.started or None,
        "max_crashes": fixed.max_crashes,
        "delivery": found.delivery,
        "attempts": rest.attempts,
        "crashes": rest.crashes,
        "interruptions": rest.interruptions,
        "waits": rest.waits,
        "parked_since": rest.parked_since,
        "unique_key": fixed.unique_key,
        "idempotency_key": fixed.idempotency_key,
        "idempotency_ttl": fixed.idempotency_ttl,
        "single_instance": fixed.single_instance,
        "lane": fixed.lane,
        "cost": fixed.cost,
        "flow": fixed.flow,
        "node": fixed.node,
        "progress": None,
        "owner": found.owner,
    }


def _further_problems(found: packing.Opened, *, is_live: bool) -> Iterator[str]:
    """Yield the problems that only records can have."""
    fixed, patch = found.rest.fixed, found.patch
    if found.flags & FLAGS["EXPIRES"] and fixed.expires_at is None:
        yield "it is marked as expiring and has no time"
    if found.flags & FLAGS["IS_UNIQUE"] and fixed.unique_key is None:
        yield "it is unique and has no key"
    if bool(found.flags & FLAGS["HAS_LANE"]) is not (fixed.lane is not None):
        yield f"its lane is {fixed.lane!r:.60}, and it is marked otherwise"
    if bool(found.flags & FLAGS["IS_MEMBER"]) is not (fixed.flow is not None):
        yield f"its flow is {fixed.flow!r:.60}, and it is marked otherwise"
    if is_live:
        return
    if STATES.get(patch.state) not in FINISHED:
        yield f"it has ended as {patch.state}"
    if patch.finished_at is None or not 0 <= patch.finished_at <= LAST_INSTANT:
        yield f"finished_at is {patch.finished_at}"
    if patch.tombstone not in (0, 1) or patch.ran not in (0, 1):
        yield "its end cannot be read"


def _kind(name: bytes) -> str:
    return _text(name.partition(b":")[0])


def _text(raw: bytes) -> str:
    return showing.shown_name(raw)[:_SHOWN]


def _batches(jobs: Iterator[DamagedJob]) -> Iterator[list[DamagedJob]]:
    batch: list[DamagedJob] = []
    for job in jobs:
        batch.append(job)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
