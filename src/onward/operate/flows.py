"""Building flows, finding and steering them: ``jobs.flow``, ``jobs.chain``, ``jobs.batch`` and ``jobs.flows``."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from onward.backend import Enqueued, Envelope, Lease
from onward.client.batch import Batch
from onward.client.calls import Call
from onward.client.flow_builder import FlowBuilder
from onward.client.flow_handle import FlowHandle, FlowRecord
from onward.client.flow_source import FlowSource, checked_flag
from onward.client.run_flow import AsyncRunFlow, RunFlow
from onward.errors import FlowError, OptionError

__all__ = ["FlowControl"]


class FlowControl:
    """The flows of an application."""

    def __init__(self, source: FlowSource) -> None:
        self._source = source

    def list(
        self, *, name: str | None = None, running: bool = False, after: str | None = None, limit: int = 100
    ) -> Sequence[FlowRecord]:
        """Return a page of flows, the newest first.  The next page comes ``after`` the last id of this one."""
        _check_page(name, after, limit)
        checked_flag(running, "running")
        rows = self._source.store.flows(name=name, running=running, after=after, limit=limit)
        return [FlowRecord.of(row) for row in rows]

    def get(self, flow_id: str) -> FlowHandle:
        """Return the handle of a flow; raise `FlowNotFound` if there is none."""
        return FlowHandle(self._source.row(flow_id).id, self._source)

    def flow(self, name: str, *, stop_on_failure: bool = False) -> FlowBuilder:
        """Build a flow: ``flow.add(job, ...)`` and ``flow.map(job, calls)``, each ``after`` others; then ``enqueue()``.

        ``stop_on_failure``: the first job that fails for good ends the flow; only nodes that wait for a failure run.
        """
        return FlowBuilder(name, self._source, stop_on_failure=stop_on_failure)

    def chain(self, *calls: Call, name: str = "chain") -> FlowBuilder:
        """Build a flow of jobs one after the other: ``jobs.chain(a.call(1), b.call(2)).enqueue()``."""
        if not calls:
            raise FlowError("a chain has at least one job: jobs.chain(a.call(1), b.call(2))")
        flow, last = self.flow(name), None
        for call in calls:
            if not isinstance(call, Call):
                raise FlowError(f"a chain takes calls, a.call(1), not {call!r:.60}")
            last = flow.add(call, after=last)
        return flow

    def batch(
        self,
        name: str = "batch",
        *,
        on_success: Call | None = None,
        on_failure: Call | None = None,
        on_finish: Call | None = None,
        stop_on_failure: bool = False,
    ) -> Batch:
        """Fill a batch of jobs: ``with jobs.batch("import", on_success=done.call()) as batch: batch.add(load, 7)``."""
        callbacks = {"on_success": on_success, "on_failure": on_failure, "on_finish": on_finish}
        return Batch(name, self._source, callbacks=callbacks, stop_on_failure=stop_on_failure)

    # For runs (`onward.job.run_parts.FlowsOfRuns`)

    def grow(self, lease: Lease, envelopes: Sequence[Envelope]) -> builtins.list[Enqueued] | None:
        """Add sealed jobs under a lease.  None: it is lost."""
        return self._source.store.grow(lease, envelopes)

    def of_run(self, job_id: str, flow: str, node: str, grow: Callable[[Sequence[Any]], Any]) -> RunFlow:
        """Return the flow of a running job."""
        return RunFlow(self._source, job_id, flow, node, grow)

    def of_async_run(self, job_id: str, flow: str, node: str, grow: Callable[[Sequence[Any]], Any]) -> AsyncRunFlow:
        """Return the flow of a running async job."""
        return AsyncRunFlow(self.of_run(job_id, flow, node, grow))


def _check_page(name: Any, after: Any, limit: Any) -> None:
    for what, value in (("name", name), ("after", after)):
        if value is not None and not isinstance(value, str):
            raise OptionError(f"{what} must be text or None, not {value!r:.60}")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise OptionError(f"limit must be a whole number of at least 1, not {limit!r:.60}")
