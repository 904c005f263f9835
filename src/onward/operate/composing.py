"""How an application puts jobs together: flows, chains, batches and schedules.  Each method calls the part that does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

if TYPE_CHECKING:  # an application is imported before what it is made of
    from onward.client.batch import Batch
    from onward.client.calls import Call
    from onward.client.flow_builder import FlowBuilder
    from onward.client.schedules import ScheduleOptions
    from onward.operate.declarations import Declarations
    from onward.operate.flows import FlowControl

__all__ = ["ComposesJobs"]

F = TypeVar("F", bound=Callable[..., Any])


class ComposesJobs:
    """Builds flows, chains and batches of jobs, and declares when jobs run by themselves."""

    flows: FlowControl
    _declarations: Declarations

    def flow(self, name: str, *, stop_on_failure: bool = False) -> FlowBuilder:
        """Build a flow: ``flow.add(job, ...)`` and ``flow.map(job, calls)``, each ``after`` others; then ``enqueue()``.

        ``stop_on_failure``: the first job that fails for good ends the flow; only nodes that wait for a failure run.
        """
        return self.flows.flow(name, stop_on_failure=stop_on_failure)

    def chain(self, *calls: Call, name: str = "chain") -> FlowBuilder:
        """Build a flow of jobs one after the other: ``jobs.chain(a.call(1), b.call(2)).enqueue()``."""
        return self.flows.chain(*calls, name=name)

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
        return self.flows.batch(
            name,
            on_success=on_success,
            on_failure=on_failure,
            on_finish=on_finish,
            stop_on_failure=stop_on_failure,
        )

    def schedule(self, cron: str, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Run a job at the ticks of an expression: ``@jobs.schedule("0 9 * * mon-fri", tz="Europe/Berlin")``, above or
        below ``@jobs.job``.
        """
        return self._declarations.declare(cron, **options)
