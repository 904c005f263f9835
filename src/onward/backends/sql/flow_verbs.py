"""The verbs of flows, where no database decides how.

The statements, by name: those of `onward.backends.sql.flows`; ``flows(after, limit)``, ``flows_running(after, limit)`` and
``flows_named(after, limit, named, running)``, which have the columns of ``flows_among``, the newest first;
``member_counts(flow, at_most)``: (node, and a number for each of `_COUNTED_STATES`); ``close_flow(flow)`` and
``cancel_flow(flow, reason)``, which return its id if it was changed; ``steps_left(flow)``: (unswept, replayed); and
``lock_lease(id, token, owner)``, which keeps the row of a lease until the commit.
"""

from __future__ import annotations

import random
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from onward.backend import COUNTED, Audit, Enqueued, Envelope, FlowRow, Lease, Replayed
from onward.backends.damage import set_aside_and_repeat
from onward.backends.sql.audit import SqlAudit, whether
from onward.backends.sql.flow_rows import readable_flows
from onward.backends.sql.flows import LEFT_OPEN_FOR, FlowSteps, Looked, logger, touch
from onward.contract.transactions import Rows
from onward.errors import BackendRefused
from onward.flow.graph import NodeState
from onward.job.states import State

__all__ = ["SqlFlows"]

Result = TypeVar("Result")

_SWEPT_AT_ONCE = 100  # flows
_MOST_STEPS = 100  # of one flow in one sweep; the next one goes on
_UNTIL_UNLOCKED = (0.002, 0.008)  # seconds after which another transaction may have given up its locks
_COUNTED_STATES = (
    State.SCHEDULED,
    State.AVAILABLE,
    State.EXECUTING,
    State.RETRYABLE,
    State.COMPLETED,
    State.DISCARDED,
    State.CANCELLED,
)


class SqlFlows(SqlAudit):
    """The `KeepsFlows` half of a backend.

    The transactions of its store have `touched`, look last if there is anything in it, and run steps by name.
    """

    _flow_steps: FlowSteps

    @abstractmethod
    def _read(self, act: Callable[[Any], Result]) -> Result: ...

    @abstractmethod
    def _write(self, act: Callable[[Any], Result]) -> Result: ...

    @abstractmethod
    def _add(self, tx: Any, envelopes: Sequence[Envelope], *, retried: bool) -> list[Enqueued]:
        """Store envelopes within a transaction, as `enqueue` does."""

    @abstractmethod
    def _opened(self, tx: Any, looked: Looked) -> None:
        """Note which jobs are due by a look."""

    @set_aside_and_repeat
    def flow(self, flow_id: str) -> FlowRow | None:
        def look(tx: Any) -> FlowRow | None:
            flows, refused = _readable(tx, tx.ask("flows_among", flows=[flow_id]).rows())
            if refused:
                raise refused[0]
            return flows[0] if flows else None

        return self._read(look)

    @set_aside_and_repeat
    def flows(
        self, *, name: str | None = None, running: bool = False, after: str | None = None, limit: int = 100
    ) -> Sequence[FlowRow]:
        def look(tx: Any) -> Sequence[FlowRow]:
            if name is not None:
                found = tx.ask("flows_named", after=after, limit=limit, named=name, running=running)
            else:
                found = tx.ask("flows_running" if running else "flows", after=after, limit=limit)
            flows, refused = _readable(tx, found.rows())
            for error in refused:  # it hides no other
                logger.critical("a flow cannot be shown: %s", error)
            return flows

        return self._read(look)

    @set_aside_and_repeat
    def member_counts(self, flow_id: str, *, at_most: int = COUNTED) -> dict[str, dict[State, int]]:
        def look(tx: Any) -> dict[str, dict[State, int]]:
            return {
                node: {state: number for state, number in zip(_COUNTED_STATES, counts, strict=True) if number}
                for node, *counts in tx.ask("member_counts", flow=flow_id, at_most=at_most).rows()
            }

        return self._read(look)

    @set_aside_and_repeat
    def extend_flow(
        self, flow_id: str, envelopes: Sequence[Envelope], *, retried: bool = False
    ) -> list[Enqueued] | None:
        def act(tx: Any) -> list[Enqueued] | None:
            found = self._locked(tx, flow_id)
            if not found or found[0][4]:  # closed
                return None
            return self._add(tx, envelopes, retried=retried)

        return self._write(act)

    @set_aside_and_repeat
    def grow(self, lease: Lease, envelopes: Sequence[Envelope]) -> list[Enqueued] | None:
        def act(tx: Any) -> list[Enqueued] | None:
            if not tx.ask("lock_lease", id=lease.envelope.id, token=lease.token, owner=lease.owner).rows():
                return None
            # A flow that is cancelled meanwhile would not see what is added.
            flows = {each.flow for each in envelopes if each.flow is not None}
            tx.run_steps(self._flow_steps.lock(sorted(flows)))
            return self._add(tx, envelopes, retried=True)

        return self._write(act)

    @set_aside_and_repeat
    def close_flow(self, flow_id: str) -> bool:
        def act(tx: Any) -> bool:
            if not tx.ask("close_flow", flow=flow_id).rows():
                return False
            tx.touched.add((flow_id, None))
            return True

        return self._write(act)

    @set_aside_and_repeat
    def cancel_flow(self, flow_id: str, reason: str, *, audit: Audit = ()) -> bool:
        def act(tx: Any) -> bool:
            if not tx.ask("cancel_flow", flow=flow_id, reason=reason).rows():
                return False
            tx.touched.add((flow_id, None))
            return True

        if not self._write(self._audited(act, audit, whether)):
            return False
        self._finish_steps(flow_id)  # what is added meanwhile is cancelled too
        return True

    @set_aside_and_repeat
    def retry_flow(self, flow_id: str, *, audit: Audit = ()) -> int | None:
        def act(tx: Any) -> bool | None:
            flows, refused = _readable(tx, self._locked(tx, flow_id))
            if refused:
                raise refused[0]
            if not flows:
                return None
            if flows[0].state == "completed":
                return False
            names = {node.name for node in flows[0].nodes if node.state is not NodeState.COMPLETED}
            self._opened(tx, tx.run_steps(self._flow_steps.begin_retry(flow_id, names)))
            return True

        begun = self._write(self._audited(act, audit, whether))
        return self._finish_steps(flow_id) if begun else (None if begun is None else 0)

    def _finish_steps(self, flow_id: str) -> int:
        """Take the steps that a look has left, one by one, so that other processes can write between them.

        Returns how many jobs the last retry of this flow has replayed: sweeps and the ends of jobs take steps, too.
        """
        while self._steps_left(flow_id)[0]:
            looked = self._write(lambda tx: self._swept(tx, (flow_id, "", True, False)))
            if not looked.unswept:
                break  # that was the last, or the flow cannot be read
            if not looked.swept:
                time.sleep(random.uniform(*_UNTIL_UNLOCKED))  # another transaction has what is left
        return self._steps_left(flow_id)[1]

    def _steps_left(self, flow_id: str) -> tuple[bool, int]:
        """Return whether a step is left, and how many jobs the last retry has replayed."""
        rows = self._read(lambda tx: tx.ask("steps_left", flow=flow_id).rows())
        return (bool(rows[0][0]), int(rows[0][1])) if rows else (False, 0)

    def _finish_replay(self, act: Callable[[Any, set[str]], Replayed], audit: Audit) -> Replayed:
        """Replay jobs in one transaction, and then, in steps, what was cancelled behind them."""
        left: set[str] = set()
        replayed = self._write(self._audited(lambda tx: act(tx, left), audit, lambda done: done.ids or None))
        for flow_id in sorted(left):
            self._finish_steps(flow_id)
        return replayed

    def _sweep_flows(self) -> None:
        """Look at every flow that should have gone on, each in a transaction of its own."""

        def still(tx: Any) -> Rows:
            rows: Rows = tx.ask("flows_that_stand_still", left_open=LEFT_OPEN_FOR, limit=_SWEPT_AT_ONCE).rows()
            return rows

        for row in self._read(still):
            self._sweep_flow(row)

    def _sweep_flow(self, still: Sequence[Any]) -> None:
        looked = self._write(lambda tx: self._swept(tx, still))
        steps = 1
        while looked.unswept and looked.swept and steps < _MOST_STEPS:
            looked = self._write(lambda tx: self._swept(tx, (*still[:2], True, False)))
            steps += 1

    def _swept(self, tx: Any, still: Sequence[Any]) -> Looked:
        looked: Looked = tx.run_steps(self._flow_steps.sweeping(still))
        self._opened(tx, looked)
        return looked

    def _look_at_flows(self, tx: Any) -> None:
        """Look at every flow that a transaction has touched: the last that it does."""
        touched, tx.touched = tx.touched, set()
        self._opened(tx, tx.run_steps(self._flow_steps.looking(touched)))

    def _locked(self, tx: Any, flow_id: str) -> Rows:
        """Lock a flow, and return its row."""
        tx.run_steps(self._flow_steps.lock([flow_id]))
        rows: Rows = tx.ask("flows_among", flows=[flow_id]).rows()
        return rows

    def _ended(self, tx: Any, row: Mapping[str, Any]) -> None:
        touch(tx.touched, [(row["flow"], row["node"])])


def _readable(tx: Any, rows: Rows) -> tuple[list[FlowRow], list[BackendRefused]]:
    if not rows:
        return [], []
    return readable_flows(rows, tx.ask("nodes_of", flows=[row[0] for row in rows]).rows())
