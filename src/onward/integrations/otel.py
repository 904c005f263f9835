"""OpenTelemetry: a span for each enqueue, and one for each run, in one trace.

The context of the first travels in the job's sealed meta, as W3C headers, so it is signed with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import Token
from typing import Any, Literal, NamedTuple

from onward.app import Onward
from onward.base.failure import describe, kind_of
from onward.errors import OptionError
from onward.integrations.quietly import Installed, has_failed, quietly
from onward.integrations.sends import Sends
from onward.job.context import JobContext
from onward.job.envelope import Envelope
from onward.job.signals import Retry

try:
    from opentelemetry import context, trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as missing:
    raise OptionError("traces need the API of OpenTelemetry: pip install 'onward[otel]'") from missing

__all__ = ["install"]

# Names of attributes: https://opentelemetry.io/docs/specs/semconv/messaging, still in development there.
_SYSTEM = "messaging.system"
_OPERATION = "messaging.operation.type"
_QUEUE = "messaging.destination.name"
_ID = "messaging.message.id"
_COUNT = "messaging.batch.message_count"
_ERROR = "error.type"
_JOB = "onward.job"
_ATTEMPT = "onward.attempt"
_DELIVERY = "onward.delivery"

_PREFIX = "onward."
_TRACE = TraceContextTextMapPropagator()
_BAGGAGE = W3CBaggagePropagator()

_installed = Installed(__name__)


def install(
    jobs: Onward,
    *,
    parent: Literal["child", "link"] = "child",
    baggage: bool = False,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Trace an application: span ``send QUEUE`` for each enqueue, span ``process QUEUE`` around each run.

    ``parent``: a run is a child of the span that enqueued it, in the same trace; or begins a trace of its own that is
    linked to it.  ``baggage`` lets the caller's baggage travel too; it can be read in the store.
    """
    if parent not in ("child", "link"):
        raise OptionError(f"parent={parent!r:.60}: it is 'child' or 'link'")
    _installed.add(jobs)
    tracer = trace.get_tracer("onward", tracer_provider=tracer_provider)
    jobs.client.letters.stamps.observe(_SendSpans(tracer, baggage=baggage))
    jobs.around(_RunSpans(tracer, is_child=parent == "child").around)


class _SendSpans(Sends[Span]):
    """Spans of enqueues."""

    def __init__(self, tracer: Tracer, *, baggage: bool) -> None:
        super().__init__("onward_otel_send")
        self._tracer = tracer
        self._baggage = baggage

    def begin(self) -> Span:
        attributes = {_SYSTEM: "onward", _OPERATION: "send"}
        return self._tracer.start_span("send", kind=SpanKind.PRODUCER, attributes=attributes)

    def headers(self, span: Span | None) -> Mapping[str, str]:
        assert span is not None
        carrier: dict[str, str] = {}
        _TRACE.inject(carrier, trace.set_span_in_context(span))
        if self._baggage:
            _BAGGAGE.inject(carrier)
        return {_PREFIX + name: value for name, value in carrier.items()}

    def end(self, span: Span, envelopes: Sequence[Envelope], error: BaseException | None) -> None:
        try:
            if error is not None:
                span.set_attribute(_ERROR, kind_of(error))
                span.set_status(Status(StatusCode.ERROR))  # without its text, which may quote an argument
            if envelopes:
                span.update_name(f"send {envelopes[0].queue}")
                span.set_attribute(_QUEUE, envelopes[0].queue)
            if len(envelopes) == 1:
                span.set_attributes({_ID: envelopes[0].id, _JOB: envelopes[0].job})
            elif envelopes:
                span.set_attribute(_COUNT, len(envelopes))
        finally:
            span.end()


class _Run(NamedTuple):
    span: Span
    before: Token[Context]


class _RunSpans:
    """Spans of runs."""

    def __init__(self, tracer: Tracer, *, is_child: bool) -> None:
        self._tracer = tracer
        self._is_child = is_child

    def around(self, ctx: JobContext) -> Iterator[None]:
        """Run a handler inside its span."""
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
        # Not inside the span that the program has open: `drain` and `sync://` run jobs in the caller's context.
        sender = _BAGGAGE.extract(carrier := _carrier(ctx.meta), context=_TRACE.extract(carrier, context=Context()))
        sent = trace.get_current_span(sender).get_span_context()
        span = self._tracer.start_span(
            f"process {ctx.queue}",
            context=sender if self._is_child else Context(),
            kind=SpanKind.CONSUMER,
            links=[Link(sent)] if sent.is_valid else [],
            attributes={
                _SYSTEM: "onward",
                _OPERATION: "process",
                _QUEUE: ctx.queue,
                _ID: ctx.id,
                _JOB: ctx.job,
                _ATTEMPT: ctx.attempt,
                _DELIVERY: ctx.delivery,
            },
        )
        return _Run(span, context.attach(trace.set_span_in_context(span, sender)))

    def _end(self, ctx: JobContext, run: _Run, error: BaseException | None) -> None:
        try:
            if error is not None and has_failed(ctx, error):
                _record(ctx, run.span, error)
        finally:
            run.span.end()
            context.detach(run.before)


def _carrier(meta: Mapping[str, Any]) -> dict[str, str]:
    names = ("traceparent", "tracestate", "baggage")
    return {name: value for name in names if isinstance(value := meta.get(_PREFIX + name), str)}


def _record(ctx: JobContext, span: Span, error: BaseException) -> None:
    """Note an error without the secrets of the job's arguments, and without local variables."""
    told = error.__cause__ if isinstance(error, Retry) and error.__cause__ is not None else error
    failure = describe(told, ctx.scrub)
    span.set_attribute(_ERROR, failure.kind)
    span.set_status(Status(StatusCode.ERROR, failure.message))
    facts = {"type": failure.kind, "message": failure.message, "stacktrace": failure.traceback}
    span.add_event("exception", {f"exception.{name}": text for name, text in facts.items()})
