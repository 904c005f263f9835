"""Calls of jobs as data: tuples of arguments, or `job.call(...)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from onward.client.letters import LetterWriter
from onward.errors import ArgumentError
from onward.job.envelope import Letter

__all__ = ["NO_KEYWORDS", "Call", "CalledJob", "arguments_of", "each_of"]

NO_KEYWORDS: Mapping[str, Any] = {}


class CalledJob(Protocol):
    """The job that a call is of."""

    @property
    def name(self) -> str: ...

    def template(self, call: Call) -> tuple[Letter, float | None]: ...

    def is_written_by(self, letters: LetterWriter) -> bool: ...


class Call(NamedTuple):
    """A call of a job, made by `job.call(...)`: for `enqueue_many`, or for a schedule."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    job: CalledJob | None = None


def each_of(calls: Iterable[Sequence[Any] | Call]) -> Iterator[Sequence[Any] | Call]:
    """Return the calls one by one; raise if these are no calls."""
    if isinstance(calls, Call) or not isinstance(calls, Iterable):
        raise ArgumentError(f"calls are a list, or anything to go through, of tuples of arguments, not {calls!r:.60}")
    return iter(calls)


def arguments_of(call: Sequence[Any] | Call) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments of a call, by position and by name."""
    if type(call) is tuple:
        return call, NO_KEYWORDS
    if isinstance(call, Call):
        return call.args, call.kwargs
    if isinstance(call, str | bytes) or not isinstance(call, Sequence):
        raise ArgumentError(f"a call is a tuple of arguments, (7,), or job.call(7), not {call!r:.60}")
    return tuple(call), NO_KEYWORDS
