"""Dead letters: groups of deaths, and one group."""

from __future__ import annotations

from datetime import UTC, datetime

from onward.backend import DEATH_GROUPS
from onward.base.clock import SECOND
from onward.operate.deaths import DeathRecord
from onward.operate.filters import quoted
from onward.operate.series.points import numbers_of
from onward.web.answers import NameCount
from onward.web.asking import WebCall
from onward.web.failures import Refused
from onward.web.page_answers import GroupAnswer, GroupsAnswer, GroupView, SampleView
from onward.web.views import arguments_of

__all__ = ["group", "groups"]

_STRETCH = 600 * SECOND
_STRETCHES = 18  # three hours


def groups(asked: WebCall) -> GroupsAnswer:
    query = asked.query
    queues = asked.user.queues
    if query.queue is not None:
        asked.check_queue(query.queue)
        queues = [query.queue]
    found = asked.jobs.dead_letters.groups(job=query.job, queues=queues, since=query.since)
    return GroupsAnswer(
        at=datetime.now(UTC),
        groups=[_view(asked, each) for each in found],
        more=len(found) >= DEATH_GROUPS,
        last_death=max((each.last for each in found), default=None),
    )


def group(asked: WebCall) -> GroupAnswer:
    dead, queues = asked.jobs.dead_letters, asked.user.queues
    detail = dead.group(asked.parameters["fingerprint"], job=asked.query.job, queues=queues)
    found = [each for each in dead.groups(job=detail.job, queues=queues) if each.fingerprint == detail.fingerprint]
    if not found:
        raise Refused(404, "not_found", f"no dead job is in group {detail.fingerprint!r:.40} any more")
    return GroupAnswer(
        at=datetime.now(UTC),
        group=_view(asked, found[0]),
        reason=detail.reason,
        message=detail.message,
        traceback=detail.traceback,
        hosts=[NameCount(name=name, count=count) for name, count in detail.hosts.items()],
        builds=list(detail.builds),
        samples=[
            SampleView(id=record.id, at=record.finished_at or record.enqueued_at, arguments=shown, note=note)
            for record in detail.samples
            for shown, note in [arguments_of(record)]
        ],
    )


def _view(asked: WebCall, found: DeathRecord) -> GroupView:
    return GroupView(
        job=found.job,
        fingerprint=found.fingerprint,
        count=found.count,
        or_more=found.or_more,
        kind=found.kind,
        place=found.place,
        first=found.first,
        last=found.last,
        builds=list(found.builds),
        filter=f"state:dead job:{quoted(found.job)} group:{quoted(found.fingerprint)}",
        deaths=_deaths(asked, found.job),
    )


def _deaths(asked: WebCall, job: str) -> list[int]:
    """Return how many jobs of this name died, in the last three hours by ten minutes."""
    measures = asked.parts.pictures.last_hours()
    if not measures:
        return []
    found, last = [0] * _STRETCHES, measures[-1].at
    for each in measures:
        place = _STRETCHES - 1 - (last - each.at) // _STRETCH
        if 0 <= place < _STRETCHES:
            found[place] += numbers_of(each.measured, job=job).counters.get("jobs_failed_permanently", 0)
    return found
