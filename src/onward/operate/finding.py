"""Finding jobs by a filter: a page for people, newest first; or all of them, for a bulk act.

A page is bounded.  The store is asked for what it can compare itself.  If it does not find that in half a second, or the
filter names more, at most 2,000 jobs are looked through, for at most a second, and the page says how far it looked and
where to go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from onward.backend import DEATH_GROUPS, Inspection, Look, Query, StoredJob
from onward.base.clock import Clock
from onward.base.ids import earliest_id
from onward.client.record import JobRecord, Records
from onward.errors import BackendUnavailable, OptionError, Unsupported
from onward.job.states import State
from onward.operate.deaths import groups_in
from onward.operate.filters import Filter, parse

__all__ = ["Finder", "Found", "FoundBatch", "Until", "shows_arguments"]

LOOKED_AT = 2_000  # jobs
LOOKED_FOR = 1.0  # seconds
STORE_LOOKS_FOR = 0.5  # seconds of these
PAGE = 500  # jobs that are read at once
LARGEST = 1_000  # jobs on a page
_DEAD = frozenset({State.DISCARDED})


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the jobs that match a filter, newest first."""

    jobs: tuple[JobRecord, ...]
    looked: int  # how many jobs were looked at
    next: str | None  # the id after which the next page begins; None: there is no more
    hidden: int = 0  # of them, those whose arguments were not compared: this process does not define their job


class Until(msgspec.Struct, frozen=True, kw_only=True):
    """The newest job that a filter matched at an instant of the store: what came later is not meant."""

    id: str
    at: int

    def covers(self, stored: StoredJob) -> bool:
        """Return whether a job was there, and is as it was then."""
        changed = max(stored.finished_at or 0, stored.runs[-1].at if stored.runs else 0)
        return stored.id <= self.id and changed <= self.at


class FoundBatch(NamedTuple):
    """Some of the jobs that match, and how many were looked at."""

    jobs: list[StoredJob]
    looked: int


class Finder:
    """Finds jobs of one store."""

    def __init__(self, inspection: Inspection, records: Records, clock: Clock) -> None:
        self._inspection = inspection
        self._records = records
        self._clock = clock

    def parse(self, text: str) -> Filter:
        """Read a filter, with this application's clock, and find the group that it names."""
        parsed = parse(text, self._clock.micros())
        return parsed if parsed.group is None else self._of_group(parsed, parsed.group)

    def find(
        self, text: str, *, limit: int = 100, after: str | None = None, queues: Sequence[str] | None = None
    ) -> Found:
        """Return a page of the jobs that match, newest first; with ``queues`` only of these, names and patterns."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit <= LARGEST:
            raise OptionError(f"limit must be a whole number from 1 to {LARGEST:,}, not {limit!r:.40}")
        return self.find_parsed(self.parse(text).within(queues), limit=limit, after=after)

    def find_parsed(self, wanted: Filter, *, limit: int, after: str | None = None) -> Found:
        """Return a page for a filter that was read."""
        walk = _Walk(self, wanted, newest_first=True)
        jobs, deadline = list[JobRecord](), time.monotonic() + LOOKED_FOR
        for candidate in walk.candidates(after, limit):
            if candidate is not None:
                jobs.append(candidate.record)
            if len(jobs) == limit or walk.looked >= LOOKED_AT or time.monotonic() > deadline:
                break
        return Found(jobs=tuple(jobs), looked=walk.looked, next=walk.at, hidden=walk.hidden)

    def batches(self, wanted: Filter, until: Until, *, size: int = PAGE) -> Iterator[FoundBatch]:
        """Yield all jobs that match and that were there, oldest first; a batch may be empty."""
        walk, found, before = _Walk(self, wanted, newest_first=False), list[StoredJob](), 0
        for candidate in walk.candidates(None, PAGE):
            if candidate is not None and until.covers(candidate.stored):
                found.append(candidate.stored)
            if len(found) == size or walk.looked - before >= PAGE or (walk.at or "") >= until.id:
                yield FoundBatch(found, walk.looked - before)
                found, before = [], walk.looked
                if (walk.at or "") >= until.id:
                    return
        if found or walk.looked > before:
            yield FoundBatch(found, walk.looked - before)

    def until(self, wanted: Filter) -> Until | None:
        """Return the newest job that may match now; None if there is none."""
        newest = self._inspection.list(wanted.query(after=None, limit=1, newest_first=True))
        return Until(id=newest[0].id, at=self.now()) if newest else None

    def now(self) -> int:
        """Return the store's clock; this application's, where the store tells none."""
        try:
            return self._inspection.look(Look()).now
        except Unsupported:
            return self._clock.micros()

    def _of_group(self, parsed: Filter, named: str) -> Filter:
        """Return a filter with the job and the whole fingerprint of the group that it names."""
        if parsed.states not in (None, _DEAD):
            raise OptionError("group: is about dead jobs: leave state: out of the filter, or write state:dead")
        groups = groups_in(self._inspection, 1)
        found = [each for each in groups if parsed.job in (None, each.job) and each.fingerprint.startswith(named)]
        exact = [each for each in found if each.fingerprint == named] or found
        if len(exact) > 1:
            choices = ", ".join(f"job:{each.job} group:{each.fingerprint}" for each in exact[:5])
            raise OptionError(f"group:{named} is not one group: write one of {choices}")
        if exact:
            return msgspec.structs.replace(parsed, states=_DEAD, job=exact[0].job, group=exact[0].fingerprint)
        if len(groups) == DEATH_GROUPS:  # there may be more than a look shows
            if parsed.job is None:
                raise OptionError(
                    f"group:{named} is not among the first {DEATH_GROUPS} groups: name the job, too, with job:"
                )
            return msgspec.structs.replace(parsed, states=_DEAD)
        # It matches nothing.
        return msgspec.structs.replace(parsed, states=_DEAD, job=parsed.job or "?", beyond=earliest_id(0))

    def record(self, stored: StoredJob) -> JobRecord:
        return self._records.record(stored)

    def page(self, query: Query) -> Sequence[StoredJob]:
        return self._inspection.list(query)

    def hosts(self) -> Mapping[str, str]:
        """Return the hosts of sessions, by owner."""
        try:
            return {session.owner: session.host for session in self._inspection.sessions()}
        except Unsupported:
            return {}


class _Walk:
    """One walk by id over the jobs that a store returns for a filter."""

    def __init__(self, finder: Finder, wanted: Filter, *, newest_first: bool) -> None:
        self.looked = 0
        self.hidden = 0
        self.at: str | None = None  # the last id that was looked at; None: the walk is at its end
        self.finder = finder
        self._is_too_slow = False  # whether the store has looked for too long
        self._wanted = wanted
        self._newest_first = newest_first

    @cached_property
    def hosts(self) -> Mapping[str, str]:
        return self.finder.hosts()

    def candidates(self, after: str | None, limit: int) -> Iterator[_Candidate | None]:
        """Yield every job that matches, and None for each that does not."""
        wanted = self._wanted
        size = min(limit, PAGE) if wanted.is_indexed else PAGE
        while True:
            page, size = self._page(after, size)
            if wanted.ids is not None:  # stores return jobs that are named in an order of their own
                rest = [each for each in page if after is None or (each.id < after) is self._newest_first]
                page = sorted(rest, key=lambda each: each.id, reverse=self._newest_first)
            for stored in page:
                if wanted.is_over(stored.id, newest_first=self._newest_first):
                    self.at = None
                    return
                self.looked, self.at = self.looked + 1, stored.id
                candidate = _Candidate(self, stored)
                matches = wanted.covers(stored) and wanted.accepts(candidate)
                self.hidden += candidate.was_hidden
                yield candidate if matches else None
            if len(page) < size or wanted.ids is not None:
                self.at = None
                return
            after = page[-1].id

    def _page(self, after: str | None, size: int) -> tuple[Sequence[StoredJob], int]:
        """Return a page, and of how many jobs it is if there are more."""
        query = self._wanted.query(after=after, limit=size, newest_first=self._newest_first)
        has_index = query.fingerprint is not None or query.ids is not None or query.flow is not None
        if not self._newest_first or has_index:
            return self.finder.page(query), size
        if not self._is_too_slow:
            try:
                return self.finder.page(msgspec.structs.replace(query, within=STORE_LOOKS_FOR)), size
            except BackendUnavailable:  # or it is away: then it does not answer the next question either
                self._is_too_slow = True
        return self.finder.page(Query(after=query.after, limit=PAGE, newest_first=True)), PAGE


class _Candidate:
    """One job, opened when a test asks for what it holds."""

    def __init__(self, walk: _Walk, stored: StoredJob) -> None:
        self.stored = stored
        self.was_hidden = False  # a test asked for arguments that are not shown
        self._walk = walk

    @cached_property
    def record(self) -> JobRecord:
        return self._walk.finder.record(self.stored)

    @cached_property
    def text(self) -> str:
        record = self.record
        parts = [
            record.id,
            record.name,
            record.job,
            record.queue,
            record.lane or "",
            *self.troubles,
            _json(record.meta),
        ]
        if (payload := self._payload()) is not None:
            parts.append(_json(payload))
        return "\n".join(parts).casefold()

    @property
    def troubles(self) -> list[str]:
        record = self.record
        last = [f"{error.kind}: {error.message}" for error in record.errors[-1:]]
        return last + ([record.reason] if record.reason else [])

    @property
    def workers(self) -> list[str]:
        runs = self.stored.runs
        ran_by = runs[-1].by if runs else None
        owners = {self.stored.owner, runs[-1].owner if runs else None} - {None}
        named = [each for owner in owners if owner for each in (owner, self._walk.hosts.get(owner, ""))]
        return named if ran_by is None else [*named, ran_by.host]

    def argument(self, path: tuple[str, ...]) -> list[str]:
        values = [self._payload()]
        for part in path:
            values = [below for value in values for below in _below(value, part)]
        return [text for value in values for text in _texts(value)]

    def _payload(self) -> Any:
        if shows_arguments(self.record):
            return self.record.payload
        self.was_hidden = True
        return None


def shows_arguments(record: JobRecord) -> bool:
    """Return whether arguments may be shown: not where this process cannot know which of them are secret."""
    return record.is_defined or not record.payload or record.reveal() is None


def _below(value: Any, part: str) -> list[Any]:
    if isinstance(value, dict):
        return [value[part]] if part in value else []
    if isinstance(value, list):
        return [value[int(part)]] if part.isdecimal() and len(part) < 6 and int(part) < len(value) else []
    return []


def _texts(value: Any) -> list[str]:
    """Return how a value is written in a filter; of a list, each of its items."""
    if isinstance(value, list):
        return [text for each in value if not isinstance(each, list) for text in _texts(each)]
    return [value] if isinstance(value, str) else [_json(value)]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
