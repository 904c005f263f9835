"""The verbs of flows, on one file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from onward.backend import COUNTED, Enqueued, Envelope, FlowRow, Lease
from onward.backends.damage import set_aside_and_repeat
from onward.backends.sqlite import enqueueing, flows
from onward.backends.sqlite.transaction import Row, Transaction, as_json
from onward.errors import BackendRefused
from onward.flow.graph import NodeState
from onward.job.states import State

__all__ = ["SqliteFlows"]

Result = TypeVar("Result")

_MOST_STEPS = 100  # of one sweep; the next one goes on
_COUNTED_STATES = (
    State.SCHEDULED,
    State.AVAILABLE,
    State.EXECUTING,
    State.RETRYABLE,
    State.COMPLETED,
    State.DISCARDED,
    State.CANCELLED,
)


class SqliteFlows:
    """The `KeepsFlows` half of the backend."""

    @abstractmethod
    def _read(self, act: Callable[[Transaction], Result]) -> Result: ...

    @abstractmethod
    def _write(self, act: Callable[[Transaction], Result]) -> Result: ...

    @set_aside_and_repeat
    def flow(self, flow_id: str) -> FlowRow | None:
        def look(tx: Transaction) -> FlowRow | None:
            row = tx.row("flow", (flow_id,))
            return None if row is None else _flow(tx, row)

        return self._read(look)

    @set_aside_and_repeat
    def flows(
        self, *, name: str | None = None, running: bool = False, after: str | None = None, limit: int = 100
    ) -> Sequence[FlowRow]:
        def look(tx: Transaction) -> Sequence[FlowRow]:
            if name is not None:
                rows = tx.rows("flows_named", (after, limit, name, int(running)))
            else:
                rows = tx.rows("flows_running" if running else "flows", (after, limit))
            return [flow for row in rows if (flow := _readable(tx, row)) is not None]

        return self._read(look)

    @set_aside_and_repeat
    def member_counts(self, flow_id: str, *, at_most: int = COUNTED) -> dict[str, dict[State, int]]:
        def look(tx: Transaction) -> dict[str, dict[State, int]]:
            rows = tx.rows("member_counts", (flow_id, at_most))
            return {
                node: {state: number for state, number in zip(_COUNTED_STATES, counts, strict=True) if number}
                for node, *counts in rows
            }

        return self._read(look)

    @set_aside_and_repeat
    def extend_flow(
        self, flow_id: str, envelopes: Sequence[Envelope], *, retried: bool = False
    ) -> list[Enqueued] | None:
        def act(tx: Transaction) -> list[Enqueued] | None:
            row = tx.row("flow", (flow_id,))
            if row is None or row[4]:  # closed
                return None
            return enqueueing.enqueue(tx, envelopes, retried=retried)

        return self._write(act)

    @set_aside_and_repeat
    def grow(self, lease: Lease, envelopes: Sequence[Envelope]) -> list[Enqueued] | None:
        def act(tx: Transaction) -> list[Enqueued] | None:
            if tx.row("is_leased", (lease.envelope.id, lease.token, lease.owner)) is None:
                return None
            return enqueueing.enqueue(tx, envelopes, retried=True)

        return self._write(act)

    @set_aside_and_repeat
    def close_flow(self, flow_id: str) -> bool:
        def act(tx: Transaction) -> bool:
            if not tx.rows("close_flow", (flow_id,)):
                return False
            tx.touched.add((flow_id, None))
            return True

        return self._write(act)

    @set_aside_and_repeat
    def cancel_flow(self, flow_id: str, reason: str) -> bool:
        def act(tx: Transaction) -> bool:
            if not tx.rows("cancel_flow", (flow_id, reason)):
                return False
            names = [name for (name,) in tx.ask("node_names", flow=flow_id).rows()]
            tx.run("sweep_nodes", (flow_id, as_json(names)))
            tx.touched.add((flow_id, None))
            return True

        if not self._write(act):
            return False
        # The first step is done, and what is added meanwhile is cancelled too: the others follow one by one, so that other
        # processes can write between them.
        while self._read(lambda tx: tx.value("has_steps_left", (flow_id,))):
            self._write(lambda tx: tx.touched.add((flow_id, None)))
        return True

    @set_aside_and_repeat
    def retry_flow(self, flow_id: str) -> int | None:
        def act(tx: Transaction) -> int | None:
            row = tx.row("flow", (flow_id,))
            if row is None:
                return None
            nodes = [node for node in _flow(tx, row).nodes if node.state is not NodeState.COMPLETED]
            again = {node.name: tx.run_steps(flows.revive(flow_id, node.name, tx.now)) for node in nodes}
            tx.woken += tx.run_steps(flows.begin_anew(flow_id, set(again), tx.now))
            tx.wakes = True
            return sum(again[node.name] for node in nodes if node.state is not NodeState.SKIPPED)

        return self._write(act)

    def _go_on(self) -> None:
        """Take the steps that looks have left."""
        for _ in range(_MOST_STEPS):
            if not self._write(flows.sweep):
                return

    def _ended(self, tx: Any, row: Mapping[str, Any]) -> None:
        flows.touch(tx.touched, [(row["flow"], row["node"])])


def _flow(tx: Transaction, row: Row) -> FlowRow:
    flow, _ = tx.run_steps(flows.read_flow(row))
    return flow


def _readable(tx: Transaction, row: Row) -> FlowRow | None:
    """Return a flow of a list; None if no worker wrote its nodes: it hides no other."""
    try:
        return _flow(tx, row)
    except BackendRefused as error:
        flows.logger.critical("flow %s cannot be shown: %s", row[0], error)
        return None
