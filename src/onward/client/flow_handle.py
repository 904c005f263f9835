"""A flow that was enqueued, from the caller's side."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, overload

from onward.backend import COUNTED, FlowRow, FlowState
from onward.base.clock import from_micros
from onward.base.failure import storable
from onward.base.lazy import asyncio
from onward.base.wording import BY_REQUEST
from onward.client.bound_job import looks
from onward.client.flow_source import FlowSource
from onward.errors import FlowNotFound, NoWorker, OptionError, ResultTimeout
from onward.flow.graph import NodeState
from onward.job.membership import When
from onward.job.run_parts import ReadsResult
from onward.job.states import LIVE, State

__all__ = ["FlowHandle", "FlowRecord", "NodeRecord"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node of a flow at one moment.  No number of its counts goes beyond 10,000: that means "or more"."""

    name: str
    state: NodeState
    after: tuple[str, ...]
    when: When
    total: int  # jobs that were added to it so far
    counts: Mapping[State, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRecord:
    """A flow at one moment, without its jobs."""

    id: str
    name: str
    state: FlowState
    nodes: int
    jobs: int  # that were added to it so far
    created_at: datetime
    over_at: datetime | None
    stop_on_failure: bool
    is_open: bool  # jobs may still be added from outside

    @classmethod
    def of(cls, row: FlowRow) -> FlowRecord:
        return cls(
            id=row.id,
            name=row.name,
            state=row.state,
            nodes=len(row.nodes),
            jobs=sum(node.total for node in row.nodes),
            created_at=from_micros(row.created_at),
            over_at=None if row.over_at is None else from_micros(row.over_at),
            stop_on_failure=row.stop_on_failure,
            is_open=not row.closed,
        )


class FlowHandle:
    """A flow that was enqueued.  Every method asks the store."""

    def __init__(self, flow_id: str, source: FlowSource) -> None:
        self.id = flow_id
        self._source = source

    def record(self) -> FlowRecord:
        """Return what is known about the flow now."""
        return FlowRecord.of(self._row())

    def state(self) -> FlowState:
        """Return ``running``, ``completed``, ``failed`` or ``cancelled``."""
        return self._row().state

    def counts(self) -> dict[State, int]:
        """Return how many jobs are in each state; no node's are counted beyond 10,000 in one state."""
        counts = Counter(dict.fromkeys(State, 0))
        for each in self._member_counts().values():
            counts.update(each)
        if not counts.total():
            self._row()  # raises if there is none
        return dict(counts)

    def progress(self) -> float:
        """Return which part of the jobs that are known so far has ended, between 0 and 1."""
        row, counts = self._row(), self._member_counts()
        if row.over_at is not None:
            return 1.0
        total = sum(node.total for node in row.nodes)
        ended = sum(_ended(node.total, counts.get(node.name, {})) for node in row.nodes)
        return ended / total if total else 0.0

    def nodes(self) -> Sequence[NodeRecord]:
        """Return the nodes, each behind those that it comes after."""
        counts = self._member_counts()
        return [
            NodeRecord(
                name=node.name,
                state=node.state,
                after=node.after,
                when=node.when,
                total=node.total,
                counts=counts.get(node.name, {}),
            )
            for node in self._row().nodes
        ]

    @overload
    def result_of(self, node: ReadsResult[T]) -> T: ...
    @overload
    def result_of(self, node: str) -> Any: ...
    def result_of(self, node: Any) -> Any:
        """Return the result of a node of one job: given as what ``flow.add`` returned, as its job, or by name."""
        row = self._row()
        return self._source.result_of(row, node, [each.name for each in row.nodes])

    @overload
    def results_of(self, node: ReadsResult[T]) -> Iterator[T]: ...
    @overload
    def results_of(self, node: str) -> Iterator[Any]: ...
    def results_of(self, node: Any) -> Iterator[Any]:
        """Yield the results of a node's completed jobs, in the order of ``map``; reads page by page."""
        row = self._row()
        return self._source.results_of(row, node, [each.name for each in row.nodes])

    def cancel(self, reason: str = BY_REQUEST, *, by: str | None = None) -> bool:
        """Cancel the flow: no job of it starts any more, and those that run are asked to stop.  False if it is over."""
        if not isinstance(reason, str):
            raise OptionError(f"reason must be text, not {type(reason).__name__}")
        told = "" if by is None or reason == BY_REQUEST else reason
        act = self._source.auditor.draft("cancel-flow", by, ref=self.id, reason=told)
        cancelled = self._source.store.cancel_flow(self.id, storable(reason), audit=act.audit)
        act.done(() if cancelled else None)
        if not cancelled:
            self._row()  # raises if there is none
        return cancelled

    def retry(self, *, by: str | None = None, reason: str = "") -> int:
        """Replay every discarded or cancelled job, and let the flow go on from there.  Returns how many.

        What was completed is not run again.
        """
        act = self._source.auditor.draft("retry-flow", by, ref=self.id, reason=reason)
        replayed = self._source.store.retry_flow(self.id, audit=act.audit)
        act.done(None if replayed is None else ())
        if replayed is None:
            raise FlowNotFound(f"there is no flow {self.id}: it was never enqueued here, or it was pruned")
        if self._source.client.after_enqueue is not None:
            self._source.client.after_enqueue()
        return replayed

    def wait(self, timeout: float | None = None) -> FlowState:
        """Wait until the flow is over, and return its state."""
        for pause in looks(timeout):
            state = self._over()
            if state is not None:
                return state
            time.sleep(pause)
        raise self._too_late(timeout)

    async def await_(self, timeout: float | None = None) -> FlowState:  # noqa: ASYNC109  the same words as `wait`
        """Wait until the flow is over without blocking the event loop, and return its state."""
        for pause in looks(timeout):
            state = await asyncio.to_thread(self._over)
            if state is not None:
                return state
            await asyncio.sleep(pause)
        raise self._too_late(timeout)

    def _over(self) -> FlowState | None:
        """Return the state of a flow that is over; None while it runs; raise if no worker could ever end it."""
        state = self.state()
        if state != "running":
            return state
        if self._source.handles.hopeless() and not self.counts()[State.EXECUTING]:
            raise NoWorker(f"flow {self.id} waits in this process's memory and no worker runs here: call jobs.drain()")
        return None

    def _too_late(self, timeout: float | None) -> ResultTimeout:
        return ResultTimeout(f"flow {self.id} is not over after {timeout:g} s; it goes on: ask again, or cancel it")

    def _row(self) -> FlowRow:
        return self._source.row(self.id)

    def _member_counts(self) -> dict[str, dict[State, int]]:
        return self._source.store.member_counts(self.id)

    def __repr__(self) -> str:
        return f"<FlowHandle {self.id}>"


def _ended(total: int, counts: Mapping[State, int]) -> int:
    """Return how many jobs of a node have ended; of more than are counted, as many as are known."""
    live = sum(number for state, number in counts.items() if state in LIVE)
    return total - live if live < COUNTED else sum(number for state, number in counts.items() if state not in LIVE)
