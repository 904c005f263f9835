"""Enqueueing and reading in Django's transactions.

jobs in the same database, in a transaction     they join it: committed or rolled back with it
jobs elsewhere, in a transaction                they are enqueued after its commit
no transaction                                  at once, on a connection of Onward's own
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connections, transaction

from onward.backend import Enqueued
from onward.client.record import JobRecord
from onward.integrations.django.applications import AliasApplication
from onward.job.envelope import Envelope

__all__ = ["read", "send"]


def send(application: AliasApplication, envelope: Envelope, then: Callable[[], object]) -> Enqueued | None:
    """Store a sealed job, and call ``then`` once it is stored.  Returns None if that is after the commit."""
    jobs = application.jobs
    if _in_transaction(application.database):
        if application.joins:
            with jobs.transaction(connections[application.database]) as tx:
                (answer,) = tx.put([envelope])
            then()
            return answer
        if application.waits_for_commit:
            transaction.on_commit(lambda: (jobs.client.enqueue([envelope]), then()), using=application.database)
            return None
    (answer,) = jobs.client.enqueue([envelope])
    then()
    return answer


def read(application: AliasApplication, job_id: str) -> JobRecord | None:
    """Return the record of a job, also of one that was enqueued in the transaction that is open here."""
    if application.joins and _in_transaction(application.database):
        with application.jobs.transaction(connections[application.database]) as tx:
            return tx.get(job_id)
    return application.jobs.get(job_id)


def _in_transaction(alias: str) -> bool:
    """Return whether a transaction is open in this thread; opens no connection to find out."""
    if alias not in connections.settings:
        return False
    connection: Any = connections[alias]
    if connection.in_atomic_block or not connection.settings_dict.get("AUTOCOMMIT", True):
        return True
    return connection.connection is not None and not connection.get_autocommit()
