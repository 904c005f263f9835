"""Deaths in a store as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from onward.base.wording import counted
from onward.cli.table import Column, StyledLine
from onward.cli.times import ago
from onward.operate.death_watch import last_error

if TYPE_CHECKING:
    from onward.client.record import JobRecord
    from onward.operate.death_watch import Deaths
    from onward.operate.deaths import DeathRecord

__all__ = ["columns", "group_columns", "summary"]


def summary(deaths: Deaths, *, dead: str, expired: int) -> StyledLine:
    """Return a line of text, red if there are deaths; ``dead`` is the number of dead jobs."""
    jobs, died = deaths.jobs, sum(gone.cause is not None for gone in deaths.gone)
    if not jobs and not died and not expired:
        return [("deaths      ", "dim"), ("none", "dim")]
    told = [f"{dead} dead {'job' if dead == '1' else 'jobs'}"]
    if deaths.crashed:
        told.append(f"{deaths.crashed:,}{'' if dead == str(len(jobs)) else f' of the last {len(jobs)}'} by a crash")
    if deaths.while_watching:
        told.append(f"{deaths.while_watching:,} while you watched")
    if died:
        told.append(f"{counted(died, 'worker')} died")
    if expired:
        told.append(f"{counted(expired, 'worker')} expired")
    return [("deaths      ", "dim"), (", ".join(told), "bold red")]


def columns(now: datetime) -> Sequence[Column[JobRecord]]:
    return (
        Column("DIED", lambda record: ago(record.finished_at or record.enqueued_at, now), style="red"),
        Column("JOB", lambda record: record.name, style="bold", flexible=True),
        Column("QUEUE", lambda record: record.queue, flexible=True),
        Column("RUNS", lambda record: str(record.attempts + record.crashes), right=True),
        Column("LAST ERROR", last_error, style="red", flexible=True),
        Column("ID", lambda record: record.id, style="dim", useful=True),
    )


def group_columns(now: datetime) -> Sequence[Column[DeathRecord]]:
    return (
        Column("DEAD", lambda group: f"{group.count:,}{'+' if group.or_more else ''}", style="bold red", right=True),
        Column("JOB", lambda group: group.job, style="bold", flexible=True),
        Column("OF", lambda group: group.kind or group.fingerprint, style="red", flexible=True),
        Column("LAST", lambda group: ago(group.last, now)),
        Column("GROUP", lambda group: group.fingerprint, style="dim"),
        Column("PLACE", lambda group: group.place or "", flexible=True, useful=True),
        Column("FIRST", lambda group: ago(group.first, now), useful=True),
        Column("BUILDS", lambda group: ", ".join(group.builds), style="dim", useful=True),
    )
