"""Looking at limits and changing them while workers run: ``jobs.limits``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from onward.backend import Backend, KeepsLimits, Kind, LimitRow, LimitState
from onward.base.clock import from_micros
from onward.base.names import job_name, queue_name, suggestion
from onward.client.auditing import Auditor
from onward.errors import InvalidLimit, LimitNotFound, Unsupported
from onward.flow.limits import Bounds, Limit, Rate
from onward.flow.room import FOREVER

__all__ = ["LimitControl", "LimitRecord"]


class LimitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A limit, where it comes from, and how much of it is used now."""

    kind: Kind  # "queue", "job", or "key": of each key of a job
    name: str
    running: int | None  # how many may run at once
    rate: Rate | None
    declared: Bounds  # by the code
    chosen: Bounds  # by people, while the program runs: beats the code
    running_now: int | None
    tokens: int | None
    next_token_at: datetime | None
    is_shut: bool
    shut_until: datetime | None  # None although it is shut: until it is opened by hand

    @classmethod
    def of(cls, state: LimitState) -> LimitRecord:
        row, shut = state.row, state.shut_until
        return cls(
            kind=row.kind,
            name=row.name,
            running=row.bounds.running,
            rate=row.bounds.rate,
            declared=row.declared,
            chosen=row.chosen,
            running_now=state.running,
            tokens=state.tokens,
            next_token_at=None if state.opens_at is None else from_micros(state.opens_at),
            is_shut=shut is not None,
            shut_until=None if shut is None or shut >= FOREVER else from_micros(shut),
        )


class _Operator(NamedTuple):
    """What is done by hand, by whom, and why."""

    act: str
    by: str | None
    reason: str


class LimitControl:
    """Lists, sets and clears limits, shuts and opens jobs."""

    def __init__(self, backend: Backend, declared: Callable[[], Sequence[LimitRow]], auditor: Auditor) -> None:
        self._backend = backend
        self._auditor = auditor
        self._declared = declared

    def list(self, *, at_most: int | None = None) -> Sequence[LimitRecord]:
        """Return every limit that a worker has declared, or that was set; or the first so many, by kind and name."""
        return [LimitRecord.of(state) for state in self._store.limits(at_most=at_most)]

    def set(
        self,
        job: str | None = None,
        *,
        queue: str | None = None,
        each_key: bool = False,
        running: int | None = None,
        rate: str | None = None,
        burst: int | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> None:
        """Set a limit of a job, of each of its keys, or of a queue: it beats the code, everywhere, until it is cleared."""
        place = _place(job, queue, each_key)
        self._choose(place, Limit(running=running, rate=rate, burst=burst).bounds, _Operator("limit-set", by, reason))

    def clear(
        self,
        job: str | None = None,
        *,
        queue: str | None = None,
        each_key: bool = False,
        by: str | None = None,
        reason: str = "",
    ) -> None:
        """Let the code decide again."""
        self._choose(_place(job, queue, each_key), Bounds(), _Operator("limit-clear", by, reason))

    def forget(
        self,
        job: str | None = None,
        *,
        queue: str | None = None,
        each_key: bool = False,
        by: str | None = None,
        reason: str = "",
    ) -> None:
        """Drop a limit that left the code, with what was set.  A worker that still declares it does so when it starts."""
        kind, name = _place(job, queue, each_key)
        if any((row.kind, row.name) == (kind, name) and not row.only_ends for row in self._declared()):
            raise InvalidLimit(
                f"{'job' if queue is None else 'queue'} {name!r} has its limit from this code: leave it out there first, "
                f"or drop only what was set, with clear"
            )
        self._known(name, kind)
        self._set((kind, name), None, _Operator("limit-forget", by, reason))

    def shut(self, job: str, *others: str, by: str | None = None, reason: str = "") -> None:
        """Start no job of these names any more, anywhere, until they are opened.  What runs goes on."""
        for name in self._all_known(job, *others):
            self._shut(name, _Operator("limit-shut", by, reason), opened=False)

    def open(self, job: str, *others: str, by: str | None = None, reason: str = "") -> None:
        """Start jobs of these names again, with all of their keys: after `shut`, or before a breaker or a `Throttle` would.

        A job that was scheduled because its key was shut keeps its instant, at most 15 minutes ahead.
        """
        for name in self._all_known(job, *others):
            self._shut(name, _Operator("limit-open", by, reason), opened=True)

    def _choose(self, place: tuple[Kind, str], bounds: Bounds, operator: _Operator) -> None:
        kind, name = place
        if kind != "queue" or not bounds:
            self._known(name, kind)
        self._set(place, bounds, operator)

    def _set(self, place: tuple[Kind, str], bounds: Bounds | None, operator: _Operator) -> None:
        act = self._auditor.draft(operator.act, operator.by, ref=":".join(place), reason=operator.reason)
        done = self._store.set_limit(*place, bounds, new=bool(bounds), audit=act.audit)
        act.done(() if done else None)

    def _shut(self, name: str, operator: _Operator, *, opened: bool) -> None:
        act = self._auditor.draft(operator.act, operator.by, ref=f"job:{name}", reason=operator.reason)
        done = self._store.shut(f"{name}/", opened=opened, audit=act.audit)
        act.done(() if done else None)

    def _all_known(self, *jobs: str) -> Sequence[str]:
        """Return these names, or raise before anything is written."""
        for job in jobs:
            self._known(job_name(job))
        return jobs

    def _known(self, name: str, kind: Kind = "job") -> None:
        """Raise for a job without lanes of its own, or without keys: a limit of it would bind nothing."""
        declared = (row for row in self._declared() if not row.only_ends)
        rows = (*declared, *(state.row for state in self._store.limits()))
        names = {row.name for row in rows if row.kind == kind}
        if name not in names:
            raise LimitNotFound(_unknown(kind, name, names))

    @property
    def _store(self) -> KeepsLimits:
        if not self._backend.capabilities.lanes:
            raise Unsupported("this store keeps no limits (it declares no `lanes`): use a database or Redis as the url")
        assert isinstance(self._backend, KeepsLimits)
        return self._backend


def _place(job: str | None, queue: str | None, each_key: bool) -> tuple[Kind, str]:
    """Return the kind and the name of a limit."""
    if (job is None) == (queue is None):
        raise InvalidLimit("name a job or a queue: jobs.limits.set('render', running=3), or set(queue='mail', …)")
    if queue is None:
        return "key" if each_key else "job", job_name(job or "")
    if each_key:
        raise InvalidLimit("each_key is for jobs: a queue's limit counts all of its jobs together, so leave it out")
    return "queue", queue_name(queue)


def _unknown(kind: Kind, name: str, known: Collection[str]) -> str:
    """Return what to do about a limit that nothing has declared or set."""
    lacks = f"queue {name!r} has no limit" if kind == "queue" else f"job {name!r} declares no limit"
    lacks += " by a key" if kind == "key" else ""
    meant = suggestion(name, known) if known else ""
    if "did you mean" in meant:
        return lacks + meant
    if kind == "queue":
        return f"{lacks}, so there is nothing to clear"
    why = "no keys are counted" if kind == "key" else "its jobs are in no lane of their own"
    limit = "Limit(…, by='tenant')" if kind == "key" else "Limit(…)"
    return f"{lacks}, so {why}: give it one in the code, @jobs.job(limit={limit}), and start a worker with it"
