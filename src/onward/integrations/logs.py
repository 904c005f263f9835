"""Log lines that say which job they are about: every record of a handler's own code carries its job's facts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from typing import Any, NamedTuple

from onward.app import Onward
from onward.integrations.quietly import Installed, quietly
from onward.job.context import JobContext

__all__ = ["JobFilter", "bound", "install"]

_facts: ContextVar[Mapping[str, Any] | None] = ContextVar("onward_log_facts", default=None)
_installed = Installed(__name__)


class JobFilter(logging.Filter):
    """Adds ``job_id, job, queue, attempt, trace_id`` to records made while a job runs; lets every record through.

    Facts that a record has already stay.  `install` adds one to the handlers of the root logger; add one yourself to the
    handlers of loggers that do not propagate.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        facts = _facts.get()
        if facts is not None:
            quietly(_add, record, facts)
        return True


def install(jobs: Onward) -> None:
    """Let every record of a running handler carry its job, through `logging`, and through structlog if it is installed.

    Lines of ``onward worker --log-format json`` show it; in text, name it in your format: ``%(job_id)s``.
    """
    _installed.add(jobs)
    jobs.around(bound)


def bound(ctx: JobContext) -> Iterator[None]:
    """Bind a job's facts to its context while its handler runs: a hook for ``jobs.around``."""
    run = quietly(_bind, ctx)
    try:
        yield
    finally:
        if run is not None:
            quietly(_unbind, run)


class _Run(NamedTuple):
    before: Token[Mapping[str, Any] | None]
    structlog: Mapping[str, Token[Any]]


_filter = JobFilter()


def _bind(ctx: JobContext) -> _Run:
    # At each run: a program may set up its log after it has made its application.
    for handler in logging.getLogger().handlers:
        handler.addFilter(_filter)  # once, however often it is called
    facts: dict[str, Any] = {"job_id": ctx.id, "job": ctx.job, "queue": ctx.queue, "attempt": ctx.attempt}
    trace_id = _current_trace() or _trace_of(ctx.meta)
    if trace_id is not None:
        facts["trace_id"] = trace_id
    structlog = sys.modules.get("structlog")  # a program that logs with it has imported it
    tokens = {} if structlog is None else structlog.contextvars.bind_contextvars(**facts)
    return _Run(_facts.set(facts), tokens)


def _unbind(run: _Run) -> None:
    _facts.reset(run.before)
    if run.structlog:
        sys.modules["structlog"].contextvars.reset_contextvars(**run.structlog)


def _add(record: logging.LogRecord, facts: Mapping[str, Any]) -> None:
    for name, value in facts.items():
        record.__dict__.setdefault(name, value)
    trace_id = _current_trace()  # of a span that was begun after the facts were bound
    if trace_id is not None:
        record.__dict__.setdefault("trace_id", trace_id)


def _current_trace() -> str | None:
    """Return the trace of the span that is open here, if the program traces."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    span = trace.get_current_span().get_span_context()
    return trace.format_trace_id(span.trace_id) if span.is_valid else None


def _trace_of(meta: Mapping[str, Any]) -> str | None:
    """Return the trace that a job was enqueued in: ``onward.traceparent`` is version, trace, span and flags."""
    parts = str(meta.get("onward.traceparent", "")).split("-")
    return parts[1] if len(parts) == 4 else None
