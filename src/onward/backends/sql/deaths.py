"""Groups of dead jobs in a database.  The statements are named alike in every dialect.

deaths                      job, fingerprint, count, and id and time of the first and the last, from group to group
page_of_group_oldest, …     ids of a group
newest_of_group             the highest of them
dead_among                  those of these ids that are in a group
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onward.backend import DEATH_GROUPS, Death, DeathGroup, Query, StoredJob
from onward.backends.sql.rows import Row
from onward.backends.sql.statements import SqlTransaction
from onward.contract.deaths import fingerprint_of
from onward.contract.description import ran_by
from onward.job.ran_by import RanBy
from onward.job.states import State

BEHIND = "!"  # an id with this behind it sorts before every greater id: none goes on with a lower character

__all__ = ["BEHIND", "dead_among", "death_groups", "fingerprint_column", "page_of_group", "workers_of"]


def death_groups(tx: SqlTransaction, at_most: int) -> list[DeathGroup]:
    """Return the first groups of dead jobs, each counted up to a limit."""
    return [as_group(row) for row in tx.ask("deaths", at_most=at_most, groups=DEATH_GROUPS).rows()]


def as_group(row: Row) -> DeathGroup:
    job, fingerprint, count, first, first_at, last, last_at = row
    return DeathGroup(
        job=job, fingerprint=fingerprint, count=count, first=Death(first, first_at), last=Death(last, last_at)
    )


def page_of_group(tx: SqlTransaction, query: Query, after: str | None) -> list[str]:
    """Return the ids of a page of a group, in its order."""
    group = {"job": query.job, "fingerprint": query.fingerprint}
    if query.newest_first and after is None:
        after = next((f"{newest}{BEHIND}" for (newest,) in tx.ask("newest_of_group", **group).rows()), "")
    statement = "page_of_group_newest" if query.newest_first else "page_of_group_oldest"
    page = {"queue": query.queue, "flow": query.flow, "node": query.node, "after": after, "limit": query.limit}
    return [job_id for (job_id,) in tx.ask(statement, **group, **page).rows()]


def dead_among(tx: SqlTransaction, ids: Sequence[str], query: Query) -> list[str]:
    """Return those of these ids that are in a group, in their order."""
    if not ids:
        return []
    rows = tx.ask("dead_among", ids=[*ids], job=query.job, fingerprint=query.fingerprint).rows()
    found = {job_id for (job_id,) in rows}
    return [job_id for job_id in ids if job_id in found]


def fingerprint_column(job: StoredJob) -> str | None:
    """Return the fingerprint with which a finished job is stored."""
    return fingerprint_of(job.runs) if job.state is State.DISCARDED else None


def workers_of(sessions: Iterable[Row]) -> dict[str, RanBy | None]:
    """Return who ran the jobs of sessions, by their owners: from rows of owner, host, pid and description."""
    return {owner: ran_by(host, pid, bytes(description)) for owner, host, pid, description in sessions}
