"""Sentry: an event for each job that is given up, or for each failed run, grouped by job, error and place.

Local variables are left out of events, and texts of errors are masked as everywhere: arguments may be secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple

from onward.app import Onward
from onward.base.failure import kind_of, message_of, storable, user_part
from onward.base.fingerprint import CRASHED, of_error
from onward.errors import OptionError
from onward.integrations.quietly import Installed, has_failed, quietly
from onward.integrations.sends import Sends
from onward.job.context import JobContext
from onward.job.envelope import Envelope
from onward.job.outcome import is_final
from onward.job.registry import Registry
from onward.job.signals import Retry
from onward.telemetry import JobDiscarded

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
    from sentry_sdk.tracing import Span
    from sentry_sdk.utils import event_from_exception
except ImportError as missing:
    raise OptionError("reports to Sentry need its SDK: pip install 'onward[sentry]'") from missing

__all__ = ["install"]

_TRACE, _BAGGAGE = "onward.sentry", "onward.sentry_baggage"
_CRASH = "Crash"

_installed = Installed(__name__)


def install(jobs: Onward, *, on: Literal["discard", "failure"] = "discard") -> None:
    """Report failures of an application to Sentry, once `sentry_sdk.init` was called.

    ``on="discard"``: a job that is given up; ``"failure"``: every failed run.  Where the SDK traces, each enqueue has a span
    ``queue.publish`` and each run a transaction ``queue.process``.
    """
    if on not in ("discard", "failure"):
        raise OptionError(f"on={on!r:.60}: it is 'discard' or 'failure'")
    _installed.add(jobs)
    # Its lines about failures would be events too, without an exception, all in one group.
    ignore_logger("onward.job")
    jobs.client.letters.stamps.observe(_PublishSpans("onward_sentry_publish"))
    jobs.around(_Reports(jobs.client.letters.registry, every_failure=on == "failure").around)
    jobs.on(JobDiscarded, _report_crash)


class _PublishSpans(Sends[Span]):
    """Spans of enqueues, inside the span or transaction that the caller has open."""

    def begin(self) -> Span | None:
        outer = sentry_sdk.get_current_span()
        return None if outer is None else outer.start_child(op="queue.publish", name="enqueue")

    def headers(self, span: Span | None) -> Mapping[str, str]:
        headers = {_TRACE: sentry_sdk.get_traceparent() if span is None else span.to_traceparent()}
        headers[_BAGGAGE] = sentry_sdk.get_baggage()
        return {name: value for name, value in headers.items() if value}

    def end(self, span: Span, envelopes: Sequence[Envelope], error: BaseException | None) -> None:
        try:
            span.set_status("ok" if error is None else "internal_error")
            if envelopes:
                span.set_data("messaging.destination.name", envelopes[0].queue)
            if len(envelopes) == 1:
                span.set_data("messaging.message.id", envelopes[0].id)
            elif envelopes:
                span.set_data("messaging.batch.message_count", len(envelopes))
        finally:
            span.finish()


class _Run(NamedTuple):
    transaction: Span
    opened: ExitStack


class _Reports:
    """A scope around each run, with what tells it from others, and an event if it fails."""

    def __init__(self, registry: Registry, *, every_failure: bool) -> None:
        self._registry = registry
        self._every_failure = every_failure

    def around(self, ctx: JobContext) -> Iterator[None]:
        """Run a handler inside a scope of its own."""
        run = quietly(self._begin, ctx)
        try:
            yield
        except BaseException as error:
            if run is not None:
                quietly(self._end, ctx, run, error)
            raise
        if run is not None:
            quietly(self._end, ctx, run, None)

    def _begin(self, ctx: JobContext) -> _Run:
        with ExitStack() as opened:
            scope = opened.enter_context(sentry_sdk.isolation_scope())
            scope.set_tags({"job": ctx.job, "queue": ctx.queue, "attempt": str(ctx.attempt)})
            scope.set_context("onward", {"job_id": ctx.id, "attempt": ctx.attempt, "max_retries": ctx.max_retries})
            headers = {"sentry-trace": ctx.meta.get(_TRACE, ""), "baggage": ctx.meta.get(_BAGGAGE, "")}
            continued = sentry_sdk.continue_trace(headers, op="queue.process", name=ctx.job, source="task")
            transaction = opened.enter_context(sentry_sdk.start_transaction(continued))
            transaction.set_data("messaging.destination.name", ctx.queue)
            transaction.set_data("messaging.message.id", ctx.id)
            transaction.set_data("messaging.message.retry.count", ctx.attempt - 1)
            return _Run(transaction, opened.pop_all())
        raise AssertionError  # for type checkers: no manager above swallows an error

    def _end(self, ctx: JobContext, run: _Run, error: BaseException | None) -> None:
        with run.opened:
            if error is None or not has_failed(ctx, error):
                run.transaction.set_status("ok")
                return
            run.transaction.set_status("internal_error")
            if self._every_failure or self._is_final(ctx, error):
                _capture(ctx, error)

    def _is_final(self, ctx: JobContext, error: BaseException) -> bool:
        entry = self._registry.find(ctx.job)
        return entry is not None and is_final(error, ctx.attempt, ctx.max_retries, entry.definition)


def _capture(ctx: JobContext, error: BaseException) -> None:
    told = error.__cause__ if isinstance(error, Retry) and error.__cause__ is not None else error
    options = {**sentry_sdk.get_client().options, "include_local_variables": False}
    # The hint, which has the exception itself, is not passed on: what it says is not masked.
    raised = (type(told), told, user_part(told.__traceback__))
    event, _ = event_from_exception(raised, options, {"type": "onward", "handled": False})
    for value in event["exception"]["values"]:
        value["value"] = storable(ctx.scrub(value.get("value") or ""))
    # As dead jobs are grouped, so that an issue here is a group there.
    event["fingerprint"] = ["onward", ctx.job, of_error(told, kind_of(told, ctx.scrub), message_of(told, ctx.scrub))]
    sentry_sdk.capture_event(event)


def _report_crash(event: JobDiscarded) -> None:
    """Report a job that was given up because its processes died: no hook was left to see that."""
    if event.kind == _CRASH:
        quietly(_capture_crash, event)


def _capture_crash(event: JobDiscarded) -> None:
    report: dict[str, Any] = {
        "level": "error",
        "message": f"{event.job}: {event.reason}",
        "fingerprint": ["onward", event.job, CRASHED],
        "tags": {"job": event.job, "queue": event.queue},
        "contexts": {"onward": {"job_id": event.id, "cause": event.error}},
    }
    sentry_sdk.capture_event(report)  # type: ignore[arg-type]  # its type is a TypedDict
