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

__all__ = ["columns", "summary"]


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
