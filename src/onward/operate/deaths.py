"""Dead jobs in groups: which failures have killed how many, since when, and in which builds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from onward.backend import DeathGroup, Inspection, Look
from onward.base.clock import from_micros
from onward.client.record import JobRecord, Records
from onward.errors import OptionError, Unsupported

__all__ = ["DeathRecord", "death_records", "groups_in"]

MOST_COUNTED = 1_000_000
_AT_ONCE = 50  # jobs that are read together
_PLACE = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathRecord:
    """A group of dead jobs: those of one name whose last failure is the same one."""

    job: str
    fingerprint: str
    count: int
    or_more: bool  # whether counting stopped there
    kind: str  # of the newest failure; "": no record tells it
    place: str | None  # the file, line and function that it came from, if its traceback tells one
    first: datetime  # when the job with the lowest id died, or the one with the highest: the earlier
    last: datetime  # and the later of the two
    first_id: str
    last_id: str
    builds: tuple[str, ...]  # of the workers that ran these two, the older one first


def death_records(
    inspection: Inspection, records: Records, *, job: str | None = None, at_most: int = 10_000
) -> Sequence[DeathRecord]:
    """Return the groups of a store, largest first, each counted up to a limit: the first hundred by name and fingerprint."""
    if isinstance(at_most, bool) or not isinstance(at_most, int) or not 1 <= at_most <= MOST_COUNTED:
        raise OptionError(f"at_most must be a number from 1 to {MOST_COUNTED:,}, not {at_most!r:.60}")
    groups = [group for group in groups_in(inspection, at_most) if job in (None, group.job)]
    ends = _read(inspection, records, [each.id for group in groups for each in (group.first, group.last)])
    found = [_record(group, ends.get(group.first.id), ends.get(group.last.id), at_most) for group in groups]
    return sorted(found, key=lambda each: (-each.count, each.job, each.fingerprint))


def groups_in(inspection: Inspection, at_most: int) -> Sequence[DeathGroup]:
    """Return the first hundred groups of a store.  Raises if it keeps none."""
    capabilities = getattr(inspection, "capabilities", None)
    if capabilities is not None and not capabilities.groups_deaths:
        raise Unsupported(
            f"{type(inspection).__name__} does not group dead jobs: list them with jobs.dead_letters.list()"
        )
    return inspection.look(Look(deaths=True, at_most=at_most)).deaths


def _read(inspection: Inspection, records: Records, ids: Sequence[str]) -> dict[str, JobRecord]:
    found: dict[str, JobRecord] = {}
    for start in range(0, len(ids), _AT_ONCE):
        stored = inspection.get_many(ids[start : start + _AT_ONCE])
        found |= {each.id: records.record(each) for each in stored}
    return found


def _record(group: DeathGroup, first: JobRecord | None, last: JobRecord | None, at_most: int) -> DeathRecord:
    """Make the record of a group; its oldest and newest job may be gone meanwhile."""
    newest = last.errors[-1] if last is not None and last.errors else None
    builds = [ends.errors[-1].build for ends in (first, last) if ends is not None and ends.errors]
    return DeathRecord(
        job=group.job,
        fingerprint=group.fingerprint,
        count=group.count,
        or_more=group.count >= at_most,
        kind="" if newest is None else newest.kind,
        place=None if newest is None else _place(newest.traceback),
        # A job that was replayed and died again has died last, whenever it was enqueued.
        first=from_micros(min(group.first.at, group.last.at)),
        last=from_micros(max(group.first.at, group.last.at)),
        first_id=group.first.id,
        last_id=group.last.id,
        builds=tuple(dict.fromkeys(build for build in builds if build)),
    )


def _place(traceback: str) -> str | None:
    """Return the innermost place that a traceback names."""
    place = None
    for place in _PLACE.finditer(traceback):  # noqa: B007  the last one counts
        pass
    return None if place is None else f"{place['file']}:{place['line']} in {place['function']}"
