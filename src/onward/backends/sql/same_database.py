"""Checking that a caller's connection leads to the tables that workers look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.backends.sql.statements import NamedSteps, ask
from onward.errors import TransactionError

__all__ = ["same_database"]


def same_database(ours: Sequence[Any] | None) -> NamedSteps[None]:
    """Raise for another database, and for one of the same name on another server or in another schema."""
    if ours is None:
        return
    ((theirs, since),) = yield from ask("this_database")
    if (theirs, since) != tuple(ours):
        raise TransactionError(
            f"this connection finds other tables (in the database {theirs}) than those of the jobs (in {ours[0]}): a job "
            f"can only join a transaction of the database that it is stored in, on the same server and in the same schema"
        )
