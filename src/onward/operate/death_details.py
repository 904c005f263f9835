"""One group of dead jobs in full, and groups of one queue or of the last hours: what a person looks at before a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from onward.client.record import JobRecord
from onward.errors import JobNotFound
from onward.operate.deaths import DeathRecord
from onward.operate.filters import quoted
from onward.operate.finding import LARGEST, Finder

__all__ = ["DeathDetail", "detail_of", "narrowed"]

_LOOKED_AT = 100  # of the newest jobs of a group
_SAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathDetail:
    """The newest jobs of a group of dead jobs."""

    job: str
    fingerprint: str
    reason: str | None  # why the newest was given up
    kind: str
    message: str
    traceback: str  # of the newest; "": it has none
    hosts: dict[str, int]  # how many of the newest hundred ran last on which
    builds: tuple[str, ...]  # of these, too
    samples: tuple[JobRecord, ...]  # the newest three, with their arguments as they may be shown


def detail_of(finder: Finder, group: str, job: str | None = None, queues: Sequence[str] | None = None) -> DeathDetail:
    """Return what the newest jobs of a group tell.  Raises `JobNotFound` if there is none."""
    parsed = finder.parse(" ".join(_words(group, job))).within(queues)
    found = finder.find_parsed(parsed, limit=_LOOKED_AT)
    if not found.jobs:
        raise JobNotFound(f"no dead job is in group {group!r:.40}: `onward dead groups` lists those that there are")
    newest = found.jobs[0]
    last = [record.errors[-1] for record in found.jobs if record.errors]
    error = newest.errors[-1] if newest.errors else None
    return DeathDetail(
        job=newest.job,
        fingerprint=parsed.group or group,
        reason=newest.reason,
        kind="" if error is None else error.kind,
        message="" if error is None else error.message,
        traceback="" if error is None else error.traceback,
        hosts=dict(Counter(each.host for each in last if each.host).most_common()),
        builds=tuple(sorted({each.build for each in last if each.build})),
        samples=found.jobs[:_SAMPLES],
    )


def narrowed(
    finder: Finder, groups: Sequence[DeathRecord], *, queues: Sequence[str] | None, since: datetime | None
) -> list[DeathRecord]:
    """Return the same groups with only their jobs of these queues, or that died since; each is looked at in part."""
    found = [each for group in groups for each in _narrowed(finder, group, queues, since)]
    return sorted(found, key=lambda each: (-each.count, each.job, each.fingerprint))


def _narrowed(
    finder: Finder, group: DeathRecord, queues: Sequence[str] | None, since: datetime | None
) -> Iterator[DeathRecord]:
    words = [*_words(group.fingerprint, group.job)]
    words += [] if since is None else [f"ended-since:{since.isoformat()}"]
    page = finder.find(" ".join(words), limit=LARGEST, queues=queues)
    if page.jobs:
        newest, oldest = page.jobs[0], page.jobs[-1]
        yield replace(
            group,
            count=len(page.jobs),
            or_more=page.next is not None,
            first=oldest.finished_at or oldest.enqueued_at,
            last=newest.finished_at or newest.enqueued_at,
            first_id=oldest.id,
            last_id=newest.id,
        )


def _words(group: str, job: str | None) -> list[str]:
    return [f"state:dead group:{quoted(group)}", *([] if job is None else [f"job:{quoted(job)}"])]
