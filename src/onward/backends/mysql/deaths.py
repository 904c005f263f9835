"""Groups of dead jobs: from group to group along the index."""

from __future__ import annotations

from onward.backend import DEATH_GROUPS, DeathGroup
from onward.backends.mysql.transaction import Transaction
from onward.backends.sql.deaths import as_group

__all__ = ["death_groups"]


def death_groups(tx: Transaction, at_most: int) -> list[DeathGroup]:
    """Return the first groups of dead jobs, each counted up to a limit."""
    groups = _found(tx)
    asked = [tx.ask("deaths", job=job, fingerprint=fingerprint, at_most=at_most) for job, fingerprint in groups]
    found = zip(groups, asked, strict=True)
    return [as_group((job, fingerprint, *row)) for (job, fingerprint), reply in found for row in reply.rows()]


def _found(tx: Transaction) -> list[tuple[str, str]]:
    """Return names and fingerprints, one after the other.

    Not in one statement: MariaDB walks along every job for `DISTINCT`, for `GROUP BY` and in a recursive query.
    """
    found: list[tuple[str, str]] = []
    job = tx.ask("next_dead_job", after="").value()
    while job is not None:
        fingerprint = tx.ask("next_fingerprint", job=job, after="").value()
        while fingerprint is not None:
            found.append((job, fingerprint))
            if len(found) == DEATH_GROUPS:
                return found
            fingerprint = tx.ask("next_fingerprint", job=job, after=fingerprint).value()
        job = tx.ask("next_dead_job", after=job).value()
    return found
