"""One span for each enqueue: begun when the first job is sealed, ended when all of them are stored.

The span is kept in the caller's context between the two.  Jobs that are added to a batch one by one share a span until
their chunk is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Generic, TypeVar

from onward.integrations.quietly import quietly
from onward.job.envelope import Envelope

__all__ = ["Sends"]

S = TypeVar("S")


class _Open(Generic[S]):
    """A span that is not ended.  A thread that stores jobs for a task has a copy of its context, and the same object."""

    def __init__(self, span: S) -> None:
        self.span: S | None = span


class Sends(ABC, Generic[S]):
    """Begins and ends spans of one kind; an observer of enqueueing."""

    def __init__(self, name: str) -> None:
        self._open: ContextVar[_Open[S] | None] = ContextVar(name, default=None)

    @abstractmethod
    def begin(self) -> S | None:
        """Begin a span; None if there is nothing to record."""

    @abstractmethod
    def headers(self, span: S | None) -> Mapping[str, str]:
        """Return what the job takes along: keys that begin with ``onward.``."""

    @abstractmethod
    def end(self, span: S, envelopes: Sequence[Envelope], error: BaseException | None) -> None:
        """End a span of these jobs, or of jobs that were not stored for this error."""

    def stamp(self, job: str, /) -> Mapping[str, str]:
        """Return the headers of the span that is open, or of a new one."""
        return quietly(self._headers) or {}

    def sent(self, envelopes: Sequence[Envelope], /) -> None:
        """End the span of jobs that are stored."""
        self._end(envelopes, None)

    def unsent(self, error: BaseException, /) -> None:
        """End the span of jobs that could not be stored."""
        self._end((), error)

    def _headers(self) -> Mapping[str, str]:
        held = self._open.get()
        span = None if held is None else held.span
        if span is None:
            span = self.begin()
            if span is not None:
                self._open.set(_Open(span))
        return self.headers(span)

    def _end(self, envelopes: Sequence[Envelope], error: BaseException | None) -> None:
        held = self._open.get()
        if held is None or held.span is None:
            return
        span, held.span = held.span, None
        quietly(self.end, span, envelopes, error)
