"""Schedules of a Celery application, read entry by entry, and made schedules of an application of Onward's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onward.app import Onward
from onward.base.wording import a
from onward.compat.celery.options import check_call, using_options
from onward.compat.celery.plain import plain
from onward.compat.celery.schedules import beat_entries
from onward.compat.celery.task import TAKES_PAYLOAD
from onward.errors import OnwardError, OptionError

__all__ = ["ImportedSchedule", "create", "read"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSchedule:
    """An entry of `beat_schedule`, as a schedule; or why it cannot be one."""

    name: str
    cron: str | None = None
    tz: str = "UTC"
    job: str | None = None
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @property
    def code(self) -> str:
        """The decorator that declares the same."""
        said = [repr(self.cron), f"name={self.name!r}"]
        if self.tz != "UTC":
            said.append(f"tz={self.tz!r}")
        if self.args and not self.kwargs:
            said.append(f"args={self.args!r}")
        elif self.kwargs:
            said.append(f"args={self.kwargs!r}")
        in_order = f"  # and in order, give them names: {self.args!r}" if self.args and self.kwargs else ""
        return f"@jobs.schedule({', '.join(said)}){in_order}"


def read(app: Any) -> list[ImportedSchedule]:
    """Read the `beat_schedule` of an application, Celery's own or this package's."""
    conf = getattr(app, "conf", None)
    found = getattr(conf, "beat_schedule", None)
    if conf is None or found is None:
        raise OptionError(f"{a(type(app).__name__)} has no conf.beat_schedule: name an application of Celery's")
    zone = str(getattr(conf, "timezone", None) or "UTC")
    return [_read(name, found, zone) for name in found]


def _read(name: str, found: Any, zone: str) -> ImportedSchedule:
    try:
        (entry,) = beat_entries({name: found[name]})
        check_call(f"beat_schedule[{name!r}]", entry.options)
        args, kwargs = plain(list(entry.args), entry.task), plain(entry.kwargs, entry.task)
    except OnwardError as error:
        return ImportedSchedule(name=str(name), problem=str(error))
    return ImportedSchedule(
        name=name, cron=entry.expression, tz=zone, job=entry.task, args=args, kwargs=kwargs, options=entry.options
    )


def create(jobs: Onward, imported: ImportedSchedule, *, dry_run: bool = False, **acting: Any) -> str | None:
    """Make a schedule; return why it cannot be made.  With ``dry_run`` nothing is made."""
    if imported.problem is not None or imported.job is None or imported.cron is None:
        return imported.problem
    try:
        job = jobs.schedules.job_named(imported.job).using(**using_options(imported.options, imported.tz))
        if getattr(getattr(job, "__wrapped__", None), TAKES_PAYLOAD, False):
            call = job.call(imported.args, imported.kwargs)
        else:
            call = job.call(*imported.args, **imported.kwargs)
        job.template(call)
        if not dry_run:
            jobs.schedules.create(imported.name, imported.cron, call, tz=imported.tz, overlap="allow", **acting)
    except (OnwardError, ValueError) as error:
        return str(error)
    return None
