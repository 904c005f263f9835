"""Flows in a database: the lock of a flow's row, and what is written under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from onward.backend import Enqueued, Envelope
from onward.backends.postgres import enqueueing
from onward.backends.postgres.transaction import Transaction
from onward.backends.sql.enqueueing import StartOver
from onward.backends.sql.flow_rows import as_json
from onward.backends.sql.flow_verbs import SqlFlows
from onward.backends.sql.flows import FlowSteps, Looked, Touched, touch
from onward.backends.sql.statements import NamedSteps, ask

__all__ = ["PostgresFlowSteps", "PostgresFlows", "drop_ended", "touch_expired"]

FLOW_TABLES = ("flows", "nodes", "additions")

_decode_places = msgspec.json.Decoder(list[tuple[str, str | None]]).decode


class PostgresFlowSteps(FlowSteps):
    """Steps under the locks of rows."""

    def lock(self, flows: list[str]) -> NamedSteps[None]:
        yield from ask("lock_flows", flows=flows)

    def joined(self, touched: Touched) -> NamedSteps[Looked]:
        """Look within the transaction of a caller, whose snapshot may be older than the locks: then a sweep looks."""
        places = sorted((flow, node) for flow, node in touched if node is not None)
        left = (yield from ask("leave_to_sweep", places=as_json(places))) if places else ()
        flows = {flow for (flow,) in left}
        touched = {place for place in touched if place[0] not in flows}
        return (yield from self.looking(touched)) if touched else Looked([])

    def cancel(self, jobs: list[Any], reason: str) -> NamedSteps[int]:
        return len((yield from ask("cancel_members", jobs=jobs, reason=reason)))


class PostgresFlows(SqlFlows):
    """The `KeepsFlows` half of the backend."""

    _flow_steps: PostgresFlowSteps

    def _look_joined(self, tx: Transaction) -> None:
        """Look at every flow that was touched in a transaction of a caller."""
        touched, tx.touched = tx.touched, set()
        self._opened(tx, tx.run_steps(self._flow_steps.joined(touched)))

    def _add(self, tx: Transaction, envelopes: Sequence[Envelope], *, retried: bool) -> list[Enqueued]:
        return enqueueing.enqueue(tx, envelopes, retried=retried)

    def _opened(self, tx: Transaction, looked: Looked) -> None:
        tx.woken.update(job.id for job in looked.opened)
        tx.wakes.update(job.queue for job in looked.opened)


def touch_expired(tx: Transaction, places: str | None) -> None:
    """Note the nodes of members that have expired, as `promote` tells them."""
    if places is not None:
        touch(tx.touched, _decode_places(places))


def drop_ended(tx: Transaction, flows: Sequence[str]) -> None:
    """Drop the rows of flows that are over and have no job any more."""
    locked = tx.ask("try_flows", flows=sorted(flows)).rows()
    if not all(is_locked for _, is_locked in locked):
        raise StartOver  # a replay may have the flow, and wait for what is locked here
    if locked:
        tx.ask("drop_flows", flows=[flow for flow, _ in locked])
