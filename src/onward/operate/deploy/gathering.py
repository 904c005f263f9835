"""Jobs with the same trouble make one problem, in memory that does not grow with their number."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from onward.backend import StoredJob
from onward.base.clock import from_micros
from onward.base.wording import counted
from onward.client.record import JobRecord
from onward.job.lease import LAST_INSTANT
from onward.operate.deploy.problem import FIXES, DeployProblem

__all__ = ["Gathered", "Trouble"]

_IDS = 3
_MOST = 1000  # kinds of trouble that are told apart
_OTHERS = "other jobs"


class Trouble(NamedTuple):
    """What is wrong with one job.  Jobs of one code, subject and place belong together."""

    code: str
    subject: str
    text: str
    place: str = ""  # the parameter


class _Group(msgspec.Struct):
    text: str
    arguments: Any
    jobs: int = 0
    oldest: int = LAST_INSTANT
    next_due: int = LAST_INSTANT
    last_due: int = 0
    ids: list[str] = msgspec.field(default_factory=list)

    def add(self, job: StoredJob) -> None:
        self.jobs += 1
        self.oldest = min(self.oldest, job.enqueued_at)
        if job.available_at < LAST_INSTANT:  # else it waits for its flow or a signal, and no time is known
            self.next_due, self.last_due = min(self.next_due, job.available_at), max(self.last_due, job.available_at)
        if len(self.ids) < _IDS:
            self.ids.append(job.id)


class Gathered:
    """The troubles of all jobs that were checked."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], _Group] = {}

    def lacks(self, trouble: Trouble) -> bool:
        """Return whether this is the first job of its group: only its arguments are shown."""
        return self._key(trouble) not in self._groups

    def add(self, trouble: Trouble, job: StoredJob, record: JobRecord | None) -> None:
        """Count a job.  ``record``: of the first job of a group."""
        key = self._key(trouble)
        if key not in self._groups:
            self._groups[key] = _Group(trouble.text, None if record is None else record.payload)
        self._groups[key].add(job)

    def problems(self, now: int) -> list[DeployProblem]:
        """Return a problem for each group, the most jobs first."""
        groups = sorted(self._groups.items(), key=lambda item: (-item[1].jobs, item[0]))
        return [_problem(code, subject, group, now) for (code, subject, _), group in groups]

    def _key(self, trouble: Trouble) -> tuple[str, str, str]:
        key = trouble.code, trouble.subject, trouble.place
        return key if key in self._groups or len(self._groups) < _MOST else (trouble.code, _OTHERS, "")


def _problem(code: str, subject: str, group: _Group, now: int) -> DeployProblem:
    last = f", the last due in {_length(group.last_due - now)}" if group.last_due > now else ""
    return DeployProblem(
        code=code,
        subject=subject,
        text=group.text,
        fix=f"{FIXES[code]} ({counted(group.jobs, 'job')}{last})",
        jobs=group.jobs,
        oldest=_instant(group.oldest),
        next_due=_instant(group.next_due) if group.last_due else None,
        last_due=_instant(group.last_due) if group.last_due else None,
        ids=tuple(group.ids),
        arguments=group.arguments,
    )


def _instant(micros: int) -> datetime:
    return from_micros(min(max(micros, 0), LAST_INSTANT))


def _length(micros: int) -> str:
    """Return a length of time in one unit.

    >>> _length(6 * 86_400 * 1_000_000), _length(1)
    ('6 d', '1 s')
    """
    seconds = max(1, micros // 1_000_000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
