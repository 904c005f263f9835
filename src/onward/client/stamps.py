"""Functions of the application that add to a job's meta when it is enqueued: a trace, a tenant, a request's id."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from onward.errors import DefinitionError, OptionError
from onward.job.definition import checked_meta
from onward.job.envelope import Envelope

__all__ = ["SendObserver", "Stamp", "Stamps"]

Stamp = Callable[[str], Mapping[str, Any]]


class SendObserver(Protocol):
    """Sees jobs on their way to the store, in the context of the caller that enqueues.  No method of it raises."""

    def stamp(self, job: str, /) -> Mapping[str, str]:
        """Return what is added to the meta of a job: keys that begin with ``onward.``, which are Onward's own."""
        ...

    def sent(self, envelopes: Sequence[Envelope], /) -> None:
        """Take note that jobs were stored; perhaps some that were never stamped."""
        ...

    def unsent(self, error: BaseException, /) -> None:
        """Take note that what was stamped last is not stored."""
        ...


class Stamps:
    """What is called whenever a letter is sealed, in the thread and the context of the caller that enqueues."""

    def __init__(self) -> None:
        self.used = False
        self._stamps: tuple[Stamp, ...] = ()
        self._observers: tuple[SendObserver, ...] = ()

    def add(self, stamp: Stamp) -> None:
        """Call a function for each letter from now on, and add what it returns to the letter's meta."""
        self._stamps = (*self._stamps, _checked(stamp))
        self.used = True

    def observe(self, observer: SendObserver) -> None:
        """Let an integration stamp each letter from now on, and hear what becomes of it."""
        self._observers = (*self._observers, observer)
        self.used = True

    def sent(self, envelopes: Sequence[Envelope]) -> None:
        """Tell observers that jobs are stored."""
        for observer in self._observers:
            observer.sent(envelopes)

    def unsent(self, error: BaseException) -> None:
        """Tell observers that what was stamped last is not stored."""
        for observer in self._observers:
            observer.unsent(error)

    def under(self, meta: Mapping[str, Any], job: str) -> dict[str, Any]:
        """Return meta with what the stamps add to it.  The caller's own keys win, then those of the later stamp."""
        stamped: dict[str, Any] = {}
        for stamp in self._stamps:
            stamped |= checked_meta(stamp(job), f"what the stamp {_name(stamp)!r} returned for job {job!r}")
        for observer in self._observers:
            stamped |= observer.stamp(job)
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
