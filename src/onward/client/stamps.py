"""Functions of the application that add to a job's meta when it is enqueued: a trace, a tenant, a request's id."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from onward.errors import DefinitionError, OptionError
from onward.job.definition import checked_meta

__all__ = ["Stamp", "Stamps"]

Stamp = Callable[[str], Mapping[str, Any]]


class Stamps:
    """What is called whenever a letter is sealed, in the thread and the context of the caller that enqueues."""

    def __init__(self, first: Stamp) -> None:
        self._stamps: tuple[Stamp, ...] = (_checked(first),)

    def add(self, stamp: Stamp) -> None:
        self._stamps = (*self._stamps, _checked(stamp))

    def under(self, meta: Mapping[str, Any], job: str) -> dict[str, Any]:
        """Return meta with what the stamps add to it.  The caller's own keys win, then those of the later stamp."""
        stamped: dict[str, Any] = {}
        for stamp in self._stamps:
            stamped |= checked_meta(stamp(job), f"what the stamp {_name(stamp)!r} returned for job {job!r}")
        return {**stamped, **meta}


def _checked(stamp: Any) -> Stamp:
    if not callable(stamp):
        raise OptionError(f"@jobs.stamp decorates a function of the job's name, not {stamp!r:.60}")
    if inspect.iscoroutinefunction(stamp) or inspect.isgeneratorfunction(stamp) or inspect.isasyncgenfunction(stamp):
        raise DefinitionError(
            f"the stamp {_name(stamp)!r} must return its mapping at once, in the caller's thread: write a plain function"
        )
    try:
        inspect.signature(stamp).bind("")
    except TypeError:
        raise DefinitionError(
            f"the stamp {_name(stamp)!r} is called with the job's name and nothing else: write `def stamp(job: str)`"
        ) from None
    except ValueError:  # code in C does not always tell its parameters
        pass
    return stamp  # type: ignore[no-any-return]


def _name(stamp: Any) -> str:
    return getattr(stamp, "__qualname__", None) or type(stamp).__qualname__
