"""The flow of a running job: what it adds is stored under its lease as it is now, like a note."""

from __future__ import annotations

from collections.abc import Sequence

from onward.attempt.attempt import Runtime
from onward.attempt.notebook import with_retries
from onward.backend import Enqueued, Envelope, Lease
from onward.errors import BackendUnavailable, LeaseLost
from onward.job.context import AsyncJobContext, JobContext
from onward.job.envelope import Letter
from onward.job.run_parts import AsyncFlowOfRun, FlowOfRun

__all__ = ["flow_of"]


def flow_of(context: JobContext, lease: Lease, letter: Letter, runtime: Runtime) -> FlowOfRun | AsyncFlowOfRun:
    """Return the flow of one run."""

    def grow(envelopes: Sequence[Envelope]) -> list[Enqueued]:
        return with_retries(context, runtime, lambda: _grown(context, lease, runtime, envelopes))

    opened = runtime.flows.of_async_run if isinstance(context, AsyncJobContext) else runtime.flows.of_run
    return opened(letter.id, letter.flow or "", letter.node or "", grow)


def _grown(context: JobContext, lease: Lease, runtime: Runtime, envelopes: Sequence[Envelope]) -> list[Enqueued]:
    answers: list[Enqueued] = []

    def write(now: Lease) -> bool:
        added = runtime.flows.grow(now, envelopes)
        answers.extend(added or ())
        return added is not None

    added = runtime.fenced(lease, write)
    if added is None:
        raise BackendUnavailable("the session of this worker is being adopted by its successor")
    if not added:
        context.lose()
        raise LeaseLost(
            f"job {context.id} is no longer this worker's: it added nothing to its flow, and the worker that has the job "
            f"now does it again"
        )
    return answers
