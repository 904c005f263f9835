"""The part of the contract for flows: jobs that start because others have ended.

A job may be a member of a flow, in one of its nodes (`Envelope.flow`, `Envelope.node`).  A flow is a row; a node is a row
with its `after`, `when`, state and `failed`; how many jobs of a node are live is never counted in a row, it is looked up.
`onward.flow.graph` has the rules, and every store asks it.

- **Enqueueing.**  The first envelope of a flow carries its `plan`: the flow and its nodes are stored with it, unless they
  are there already.  A member of a node that waits is `scheduled`, with ``awaits = ''`` and a due time of `never_due`;
  one of an open node is due as any job is.  Enqueueing locks nothing that a turn writes.  A member whose flow is not
  there is a plain job.
- **Looking.**  Every write that ends a member looks at its flow: `ack`, `skip`, `abandon`, `cancelled`, a crash too many,
  `cancel`, expiry, a job replaced by another, a job of a dead session that was asked to cancel, a job that its handler
  completed in a transaction.  It looks last in its own transaction, after the claim and every other write: it locks the
  flow's row, and *then*, in a new statement, asks for each touched node whether a live job is left; it marks the node
  `failed` if the job did not succeed, and applies what `advance` says: a node that opens has its waiting jobs made due
  (`due_now`), one that is passed over or skipped has them cancelled.  A settlement that is repeated does not look.
- **Locks.**  Session, job rows, keys of holds, then rows of flows, in the order of their ids.  Under the lock of a flow
  its jobs are written only if no other transaction has their rows locked; what was left out is done by the next look.
- **Steps.**  A store may open, pass over, stop or replay a node in steps of 1,000 jobs or more.  It notes in the node's row
  that it has not done yet; every look at this flow, and every sweep, takes the next step.
- **Stopping.**  In a flow with `stop_on_failure` of which a job failed, and in one that was cancelled, waiting members
  are cancelled and running ones are asked to cancel: the former only in nodes with `succeeded`, the latter everywhere.
- **Growing.**  A running member may add jobs to its own node and to those behind it (`grow`), under the fence of its
  lease.  What it adds to a node that was passed over or skipped meanwhile is cancelled when its own node is over; what it
  adds to one that has run already, because it was replayed, is cancelled at once.
- **Retention.**  A finished member is not pruned, and is not made a tombstone, before its flow is over; then its age
  counts from there.  The rows of a flow that is over go with the last of its jobs.
- **Replaying.**  A member that is replayed waits in its node.  The node and those behind it that were passed over or
  skipped go by the rules anew (`reset`), with their cancelled jobs; what has run there stays.  `retry` of a job whose node
  waits answers False.
- **The net.**  A sweep (`reap` without an owner) looks at every flow that is not over, and logs an error if it finds one
  that should have been changed before.  It closes a flow to which no job was added for 24 hours, with a warning.

`list` with `Query.flow` and `Query.node` goes through the members of a node by id: their order is that of `map`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, Protocol, runtime_checkable

import msgspec

from onward.contract.audit import Audit
from onward.contract.values import Enqueued
from onward.flow.graph import FAILED, Node
from onward.job.envelope import Envelope
from onward.job.lease import LAST_INSTANT, Lease
from onward.job.states import State

__all__ = [
    "AWAITS_NODE",
    "COUNTED",
    "LEFT_OPEN",
    "NEVER",
    "FlowRow",
    "FlowState",
    "KeepsFlows",
    "due_now",
    "never_due",
]

AWAITS_NODE = ""  # in the column of signals, of a job whose node waits
COUNTED = 10_000  # jobs of one node and state; more are not told apart
LEFT_OPEN = timedelta(hours=24)  # after which a flow that is not closed, and gets no more jobs, is closed

FlowState = Literal["running", "completed", "failed", "cancelled"]

NEVER = LAST_INSTANT + 1


def never_due(envelope: Envelope) -> int:
    """Return the due time of a job whose node waits: no instant, and what its own delay or `not_before` is."""
    return NEVER + envelope.delay if envelope.not_before is None else 2 * NEVER + max(0, envelope.not_before)


def due_now(never: int, now: int) -> int:
    """Return when a job is due whose node opens now: its delay counts from here.

    >>> due_now(NEVER, 5), due_now(NEVER + 60, 5), due_now(2 * NEVER + 3, 5), due_now(2 * NEVER + 9, 5)
    (5, 65, 5, 9)
    """
    return max(now, never - 2 * NEVER) if never >= 2 * NEVER else now + max(0, never - NEVER)


class FlowRow(msgspec.Struct, frozen=True, kw_only=True):
    """A flow as the store keeps it, with its nodes in their order."""

    id: str
    name: str
    nodes: tuple[Node, ...]
    created_at: int
    stop_on_failure: bool = False
    closed: bool = True
    stopped: bool = False  # a node failed, and its `stop_on_failure` counts
    cancelled: str | None = None  # why, if it was cancelled as a whole
    over_at: int | None = None

    @property
    def state(self) -> FlowState:
        if self.over_at is None:
            return "running"
        if not any(node.state in FAILED for node in self.nodes):
            return "completed"
        return "failed" if self.cancelled is None else "cancelled"


@runtime_checkable
class KeepsFlows(Protocol):
    """A store that keeps flows."""

    def flow(self, flow_id: str) -> FlowRow | None:
        """Return a flow, or None."""
        ...

    def flows(
        self, *, name: str | None = None, running: bool = False, after: str | None = None, limit: int = 100
    ) -> Sequence[FlowRow]:
        """Return a page of flows, the newest first; with ``name`` or ``running`` only those."""
        ...

    def member_counts(self, flow_id: str, *, at_most: int = COUNTED) -> dict[str, dict[State, int]]:
        """Return how many jobs of each node are in each state, none counted beyond ``at_most``."""
        ...

    def extend_flow(
        self, flow_id: str, envelopes: Sequence[Envelope], *, retried: bool = False
    ) -> list[Enqueued] | None:
        """Add members from outside, all or none, as `enqueue` does.  None: the flow is closed, or not there.

        Locks the flow's row, so that it is not closed meanwhile.
        """
        ...

    def grow(self, lease: Lease, envelopes: Sequence[Envelope]) -> list[Enqueued] | None:
        """Add members by a running one.  Fenced by its lease, whose row is locked against a reap: None if it is lost.

        An id that is there already, live or finished, is not stored again: the run is repeated.
        """
        ...

    def close_flow(self, flow_id: str) -> bool:
        """Let no more jobs be added from outside, and look.  False: it is closed already, or not there."""
        ...

    def cancel_flow(self, flow_id: str, reason: str, *, audit: Audit = ()) -> bool:
        """Mark a flow as cancelled, then cancel its members: waiting ones end, running ones are asked to.

        When it returns, no member starts any more that had not begun.  False: it is over already, or not there.
        """
        ...

    def retry_flow(self, flow_id: str, *, audit: Audit = ()) -> int | None:
        """Replay every discarded or cancelled member, and return how many; None: there is no such flow.

        A store may replay them in steps of 1,000 or more, and notes in the node's row that it has not done yet.  Until it
        has, the node is not over; sweeps go on if the caller died.  Nodes that failed, were passed over or skipped go by
        the rules anew.  A member that has expired is not replayed.  A completed flow stays as it is.
        """
        ...
