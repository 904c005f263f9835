"""Limits and gates in one server, and where the walks of this process go on; `layout` describes their rows."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from onward.backend import Audit, Kind, LimitRow, LimitState
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import layout
from onward.backends.redis.audit import given
from onward.backends.redis.turning import Laned
from onward.contract.limits import state_of
from onward.flow.limits import Bounds, Rate
from onward.flow.room import FOREVER, Gate, Scope
from onward.flow.tokens import Bucket
from onward.flow.walk import Cursors

__all__ = ["NO_WALK", "RedisLimits", "WalkAnswer", "WalkPlaces", "declared", "gate_of", "limit_named", "packed_bounds"]

_LIMIT, _GATE = map(layout.binary, (layout.LIMIT, layout.GATE))


class WalkAnswer(NamedTuple):
    """What a claim that walked answers, besides its leases."""

    more: bool
    awaits_slots: bool
    laned: list[Laned]
    places: tuple[list[tuple[str, str]], list[tuple[str, str, str]], list[tuple[str, int, str, str]]]


NO_WALK = WalkAnswer(more=False, awaits_slots=False, laned=[], places=([], [], []))
_walked = msgspec.msgpack.Decoder(WalkAnswer).decode


class WalkPlaces:
    """Where the next walk of this process goes on: it travels with each claim, for the server keeps nothing of it."""

    def __init__(self) -> None:
        self.cursors = Cursors()
        self._lock = threading.Lock()

    def of(self, queues: Sequence[str]) -> tuple[Any, ...] | None:
        """Return the places in these queues; None if no walk was made in them."""
        with self._lock:
            cursors, asked = self.cursors, set(queues)
            if asked.isdisjoint(cursors.groups) and all(queue not in asked for queue, _ in cursors.lanes):
                return None
            return (
                [each for each in cursors.groups.items() if each[0] in asked],
                [(*place, lane) for place, lane in cursors.lanes.items() if place[0] in asked],
                [(*place, begun) for place, begun in cursors.circles.items() if place[0] in asked],
            )

    def learn(self, queues: Sequence[str], raw: bytes) -> WalkAnswer:
        """Keep where a walk through these queues has ended; return what it answered."""
        walked = _walked(raw)
        groups, lanes, circles = walked.places
        with self._lock:
            cursors, asked = self.cursors, set(queues)
            cursors.groups.update(groups)
            cursors.lanes.update({(queue, group): lane for queue, group, lane in lanes})
            kept = {place: begun for place, begun in cursors.circles.items() if place[0] not in asked}
            cursors.circles = kept | {(queue, rank, group): begun for queue, rank, group, begun in circles}
        return walked


class RedisLimits:
    """The `KeepsLimits` half of the backend."""

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @set_aside_and_repeat
    def limits(self, *, at_most: int | None = None) -> Sequence[LimitState]:
        now, found = self._run("limits", self._now())
        states = [
            state_of(limit_named(field.decode(), raw), _Seen(now, running, gate_of(gate)))
            for field, raw, running, gate in found
        ]
        return sorted(states, key=lambda state: (state.row.kind, state.row.name))[:at_most]

    @set_aside_and_repeat
    def set_limit(self, kind: Kind, name: str, chosen: Bounds | None, *, new: bool = False, audit: Audit = ()) -> bool:
        bounds = packed_bounds(chosen or Bounds())
        wanted = (f"{kind}:{name}", bounds, new and chosen is not None, chosen is None)
        return bool(self._run("set_limit", *wanted, *given(audit)))

    @set_aside_and_repeat
    def shut(self, lane: str, *, opened: bool = False, audit: Audit = ()) -> bool:
        return bool(self._run("shut", lane, opened, *given(audit)))


class _Seen:
    """What `state_of` asks of one limit, from the answer of the script."""

    def __init__(self, now: int, running: int, gate: Gate) -> None:
        self.now = now
        self._running = running
        self._gate = gate

    def gate(self, scope: Scope) -> Gate:
        return self._gate

    def running(self, scope: Scope, since: int = 0) -> int:
        return self._running


def declared(rows: Sequence[LimitRow]) -> list[tuple[Any, ...]] | None:
    """Return what the code of a session declares; None if that is nothing."""
    packed = [
        (f"{row.kind}:{row.name}", row.declared_at, *packed_bounds(row.declared), int(row.only_ends)) for row in rows
    ]
    return packed or None


def packed_bounds(bounds: Bounds) -> tuple[int, int, int, int]:
    rate = bounds.rate
    return (bounds.running or 0, *((0, 0, 0) if rate is None else (rate.tokens, rate.period, rate.burst)))


def limit_named(field: str, raw: bytes | None) -> LimitRow:
    """Return a limit from its row; one that is not stored bounds nothing."""
    kind, _, name = field.partition(":")
    if raw is None:
        return LimitRow(kind=cast("Kind", kind), name=name)
    declared_at, *numbers = _LIMIT.unpack(raw)
    return LimitRow(
        kind=cast("Kind", kind),
        name=name,
        declared=_bounds(*numbers[:4]),
        declared_at=declared_at,
        chosen=_bounds(*numbers[4:]),
    )


def _bounds(running: int, tokens: int, period: int, burst: int) -> Bounds:
    rate = Rate(tokens=tokens, period=period, burst=burst) if tokens else None
    return Bounds(running=running or None, rate=rate)


def gate_of(raw: bytes | None) -> Gate:
    """Return a gate from its row; one that is not stored is open."""
    if raw is None:
        return Gate()
    full_at, written_at, shut_until, shut_for = _GATE.unpack(raw)
    # Numbers of the scripts have 53 bits: what is near the end of time stands for it.
    return Gate(Bucket(full_at, written_at), FOREVER if shut_until > FOREVER - 64 else shut_until, shut_for)
