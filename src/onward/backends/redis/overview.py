"""Looking at a server: one script reads all that is asked for, so that it is seen at one moment.

Its steps are bounded, so it needs no time limit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from onward.backend import (
    DEATH_GROUPS,
    OVERVIEW_QUEUES,
    AuditEntry,
    AuditQuery,
    JobPlace,
    KeyHolder,
    Look,
    Overview,
    QueueCounts,
    Snapshot,
)
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis import showing
from onward.backends.redis.audit import asked_for, entries_of
from onward.backends.redis.deaths import death_groups
from onward.backends.redis.layout import STATES
from onward.backends.redis.limits import gate_of, limit_named
from onward.backends.redis.samples import series_rows
from onward.backends.redis.showing import shown_name
from onward.contract.limits import states_over
from onward.contract.snapshot import OLDEST_LINES
from onward.flow.lanes import group_of
from onward.flow.room import Gate, Scope
from onward.job.states import State

__all__ = ["NUMBERS", "RedisOverview", "counted", "number"]

NUMBERS = {state: number for number, state in STATES.items()}
_DIGITS = 16  # no count has so many
_ENDED = 0


class RedisOverview:
    """The `look` of the backend."""

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @set_aside_and_repeat
    def look(self, look: Look) -> Snapshot:
        queues = OVERVIEW_QUEUES if look.counts else None
        page = None if look.audit is None else asked_for(look.audit)
        groups = DEATH_GROUPS if look.deaths else None
        asked = (queues, OLDEST_LINES, look.place_of, look.at_most, look.series, page, groups)
        now, seen, found, series, entries, deaths = self._run("snapshot", self._now(), *asked)
        return Snapshot(
            now=int(now),
            overview=_overview(*seen, at_most=look.at_most) if seen else None,
            place=_place(int(now), *found) if found else None,
            deaths=death_groups(deaths),
            series=tuple(series_rows(series or ())),
            audit=() if look.audit is None else self._rest_of(look.audit, *entries),
        )

    def _rest_of(
        self, query: AuditQuery, found: Sequence[Sequence[bytes]], following: Sequence[bytes] | None
    ) -> list[AuditEntry]:
        """Return a page of which a script has found these entries: it looks at so many, then another one goes on."""
        entries = entries_of(found)
        while following is not None and len(entries) < query.limit:
            before = int(float(following[0])), int.from_bytes(following[1], "big")
            rest = msgspec.structs.replace(query, before=before, limit=query.limit - len(entries))
            found, following = self._run("snapshot", self._now(), None, 0, None, 0, None, asked_for(rest))[4]
            entries += entries_of(found)
        return entries


def _overview(totals: Sequence[bytes], queues: Iterable[Sequence[Any]], *, at_most: int) -> Overview:
    seen = counted(totals)
    return Overview(
        counts=_at_most(at_most, {state: seen.get(number, 0) for state, number in NUMBERS.items()}),
        queues=[
            QueueCounts(
                name=shown_name(name),
                paused=bool(paused),
                counts=_at_most(at_most, {STATES[at]: number(count) for at, count in enumerate(counts, 1)}),
                oldest_due=None if oldest is None else int(oldest),
                paused_at=None if paused_at is None else number(paused_at),
            )
            for name, paused, counts, paused_at, oldest in queues
        ],
        ended=seen.get(_ENDED, 0),
    )


def _place(
    now: int,
    shown: Sequence[Any],
    ahead: int = 0,
    holders: Iterable[Sequence[Any]] = (),
    limits: Iterable[Sequence[Any]] = (),
) -> JobPlace:
    job = showing.shown_job(shown)
    used = [
        (limit_named(field.decode(), raw), leases, gate_of(gate), since) for field, raw, leases, gate, since in limits
    ]
    rows = {(row.kind, row.name): row for row, *_ in used}
    over = states_over(job.queue, job.lane, rows, _Used(now, used)) if used else ()
    return JobPlace(job=job, ahead=ahead, holders=tuple(_holder(*each) for each in holders), limits=over)


def _holder(key: bytes, job_id: bytes, done_until: bytes | None) -> KeyHolder:
    kind, _, name = shown_name(key).partition(":")
    return KeyHolder(
        key=name,
        single_instance=kind == "single",
        job_id=shown_name(job_id),
        done_until=None if done_until is None else int(done_until),
    )


class _Used:
    """What is asked of the limits over one job, from the answer of the script."""

    def __init__(self, now: int, used: Sequence[tuple[Any, int, Gate, int]]) -> None:
        self.now = now
        self._used = {row.kind: (leases, gate, since) for row, leases, gate, since in used}

    def gate(self, scope: Scope) -> Gate:
        return self._of(scope)[1]

    def running(self, scope: Scope, since: int = 0) -> int:
        leases, _, since_shut = self._of(scope)
        return since_shut if since else leases

    def _of(self, scope: Scope) -> tuple[int, Gate, int]:
        if scope.lane == "":
            return self._used["queue"]
        return self._used["job" if scope.lane == group_of(scope.lane) else "key"]


def counted(pairs: Sequence[bytes]) -> dict[int, int]:
    """Return counts by the number of their state."""
    return {
        _ENDED if field == b"ended" else number(field): number(count)
        for field, count in zip(pairs[::2], pairs[1::2], strict=True)
    }


def number(raw: bytes | None) -> int:
    """Return a count; 0 for bytes that are no number."""
    return int(raw) if raw is not None and raw.isdigit() and len(raw) <= _DIGITS else 0


def _at_most(limit: int, seen: dict[State, int]) -> dict[State, int]:
    """Return the counts, none beyond the limit; scheduled and retryable jobs together do not exceed it either."""
    counts = {state: min(count, limit) for state, count in seen.items()}
    counts[State.RETRYABLE] = min(counts[State.RETRYABLE], limit - counts[State.SCHEDULED])
    return counts
