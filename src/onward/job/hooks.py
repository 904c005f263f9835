"""Functions of the application around every attempt: what they are, and which handlers they are for.

They are entered where the handler runs, by `onward.attempt.hooked`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Protocol

from onward.errors import DefinitionError, OptionError
from onward.job.context import JobContext

__all__ = ["AroundHook", "Hook", "Only", "add_hook", "refuse_missed"]

AroundHook = Callable[[JobContext], Iterator[None]] | Callable[[JobContext], AsyncIterator[None]]
Only = Literal["async"]


class Hook(NamedTuple):
    """A generator function that is entered before a handler is called, and left after it."""

    function: Callable[[JobContext], Any]
    name: str
    is_async: bool
    async_handlers_only: bool


class _Runs(Protocol):
    """A job's code, as far as a hook is concerned with it."""

    is_async: bool


def add_hook(
    hooks: tuple[Hook, ...], function: Any, only: str | None, jobs: Iterable[tuple[str, _Runs]]
) -> tuple[Hook, ...]:
    """Return the hooks with one more, innermost; refuse what could not be entered around the jobs that there are."""
    hook = _hook(function, only)
    for name, job in jobs:
        refuse_missed((hook,), name, job)
    return (*hooks, hook)


def refuse_missed(hooks: Iterable[Hook], name: str, job: _Runs) -> None:
    """Raise if an async hook would silently not be entered around a job whose handler is not async."""
    missed = next((hook for hook in hooks if hook.is_async and not hook.async_handlers_only), None)
    if missed is not None and not job.is_async:
        raise DefinitionError(
            f"the hook {missed.name!r} is async and job {name!r} is not, so it cannot be entered around that job: make the "
            f"hook a plain generator, or say @jobs.around(only='async') if it is meant for async jobs alone"
        )


def _hook(function: Any, only: str | None) -> Hook:
    if only not in (None, "async"):
        raise OptionError(f"only={only!r:.60}: the one value is 'async', for a hook around async jobs alone")
    if not callable(function):
        raise OptionError("@jobs.around decorates a function; its option is a keyword: @jobs.around(only='async')")
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    is_async = inspect.isasyncgenfunction(function)
    if not is_async and not inspect.isgeneratorfunction(function):
        raise DefinitionError(f"the hook {name!r} is no generator: {_fix(function)}")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise DefinitionError(
            f"the hook {name!r} is called with the job's context and nothing else: write `def {function.__name__}(ctx: "
            f"JobContext)`"
        ) from None
    return Hook(function, name, is_async, only == "async")


def _fix(function: Any) -> str:
    inside = getattr(function, "__wrapped__", None)
    if inspect.isgeneratorfunction(inside) or inspect.isasyncgenfunction(inside):
        return "leave out @contextmanager, the hook is entered like one as it is"
    return "write `yield` once, where the handler is to run"
