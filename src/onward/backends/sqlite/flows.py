"""Flows in one file, whose write lock serves as the lock of a flow's row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.backend import Enqueued, Envelope
from onward.backends.sql.flow_verbs import SqlFlows
from onward.backends.sql.flows import FlowSteps, Looked
from onward.backends.sql.statements import NamedSteps, ask
from onward.backends.sqlite import enqueueing
from onward.backends.sqlite.transaction import Transaction

__all__ = ["SqliteFlowSteps", "SqliteFlows"]


class SqliteFlowSteps(FlowSteps):
    """Steps under the write lock."""

    def lock(self, flows: list[str]) -> NamedSteps[None]:
        yield from ()

    def cancel(self, jobs: list[Any], reason: str) -> NamedSteps[int]:
        yield from ask("cancel_waiting", jobs=jobs, reason=reason)
        return len((yield from ask("forget_waiting", jobs=jobs)))


class SqliteFlows(SqlFlows):
    """The `KeepsFlows` half of the backend."""

    def _add(self, tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool) -> list[Enqueued]:
        return enqueueing.enqueue(tx, envelopes, retried=retried)

    def _opened(self, tx: Transaction, looked: Looked) -> None:
        tx.wakes = tx.wakes or bool(looked.opened)
        tx.woken += [job.id for job in looked.opened]
