"""Schedules in one server, and the jobs that are booked for them; `layout` describes their rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from onward.backend import DAMAGED_VERSION, Audit, ScheduleChange, ScheduleRow, ScheduleRows
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import layout, packing
from onward.backends.redis.audit import given
from onward.backends.redis.connection import Connections
from onward.backends.redis.errors import translated
from onward.backends.schedules import following, readable

__all__ = ["RedisSchedules"]

_HEAD = layout.binary(layout.SCHEDULE)


class _Rest(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What scripts do not read of a row."""

    origin: str
    fingerprint: str
    declared_at: int
    booked_until: int
    paused_at: int | None
    missed: int
    sealed: bytes


_rest = msgspec.msgpack.Decoder(_Rest).decode


class RedisSchedules:
    """The `Schedules` half of the backend."""

    _connections: Connections

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @set_aside_and_repeat
    def schedules(self) -> ScheduleRows:
        now, pairs = self._run("schedules", self._now())
        # A name that is no text raises, and is repaired: by what would be shown of it no script finds its row.
        rows = [_row(name.decode(), raw) for name, raw in zip(pairs[::2], pairs[1::2], strict=True)]
        return ScheduleRows(now=now, rows=sorted(rows, key=lambda row: row.name))

    @set_aside_and_repeat
    def change_schedule(self, change: ScheduleChange, *, audit: Audit = ()) -> bool:
        with translated(self._connections.place):
            message = packing.Message()
            row = None if change.row is None else message.beside(packing.pack(_packed(change.row)))
            envelopes = [packing.packed_envelope(envelope, message) for envelope in change.envelopes]
        seen = change.name, change.version, following(change.version)
        jobs = (list(dict.fromkeys(change.take_back)), envelopes)
        return bool(self._run("change_schedule", self._now(), *seen, row, *jobs, *given(audit), beside=message.bytes))

    @set_aside_and_repeat
    def take_back(self, ids: Sequence[str]) -> Sequence[str]:
        return [job_id.decode() for job_id in self._run("take_back", list(dict.fromkeys(ids)))]

    @set_aside_and_repeat
    def schedules_seen(self, names: Sequence[str]) -> None:
        if names:
            self._run("schedules_seen", self._now(), list(names))


def _packed(row: ScheduleRow) -> _Rest:
    return _Rest(
        row.origin, row.fingerprint, row.declared_at, row.booked_until, row.paused_at, row.missed, bytes(row.sealed)
    )


def _row(name: str, raw: bytes) -> ScheduleRow:
    version, seen_at = _HEAD.unpack_from(raw.ljust(_HEAD.size, b"\0"))
    try:
        rest = _rest(raw[_HEAD.size :])
    except packing.UNREADABLE as error:
        unread = _Rest("runtime", "", 0, 0, None, 0, raw)
        whole = readable({"name": name, "version": version, "seen_at": seen_at, **msgspec.structs.asdict(unread)})
        why = f"its row cannot be read ({type(error).__name__})"
        short = len(raw) < _HEAD.size
        return msgspec.structs.replace(whole, version=DAMAGED_VERSION if short else whole.version, damage=why)
    return readable({"name": name, "version": version, "seen_at": seen_at, **msgspec.structs.asdict(rest)})
