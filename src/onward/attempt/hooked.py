"""A handler with the hooks of its application around it, the first registered outermost.

A hook is a generator that yields once, and is entered and left like a context manager: what the handler raises is raised at
its ``yield``, and what the hook itself raises, before it or after it, is the attempt's error.  The arguments are decoded
first: no hook is entered for a job that this version of the code cannot be called with.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from types import TracebackType
from typing import Any

import msgspec

from onward.base.failure import kind_of
from onward.base.logs import Once, get_logger
from onward.errors import HookError
from onward.job.context import JobContext
from onward.job.hooks import Hook
from onward.job.registry import Entry
from onward.job.signals import Signal

__all__ = ["Hooked"]

logger = get_logger("onward.job")

_warns = Once()


class Hooked:
    """A job's code that runs inside hooks."""

    takes_context = True

    def __init__(self, entry: Entry, hooks: tuple[Hook, ...]) -> None:
        self._entry = entry
        self._hooks = hooks
        self.definition = entry.definition
        self.is_async = entry.is_async
        self.denied_by_default = entry.denied_by_default
        self.returns = entry.returns
        self.unique_key = entry.unique_key
        self.secrets = entry.secrets
        self.decoded = entry.decoded
        self.check = entry.check
        self.fit = entry.fit
        self.bound = entry.bound

    def invoke(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Any:
        assert ctx is not None
        call = self._entry.bound(ctx, payload)
        if self.is_async:
            return _run_async(self._hooks, ctx, call)
        return _run(tuple(hook for hook in self._hooks if not hook.async_handlers_only), ctx, call)


# By recursion, not by an `ExitStack`: its frames would stand between those of the hooks in every traceback.


def _run(hooks: tuple[Hook, ...], ctx: JobContext, call: Callable[[], Any]) -> Any:
    if not hooks:
        return _raised(call())
    with _Entered(hooks[0], ctx):
        return _run(hooks[1:], ctx, call)
    return None  # the hook caught the error


async def _run_async(hooks: tuple[Hook, ...], ctx: JobContext, call: Callable[[], Any]) -> Any:
    if not hooks:
        return _raised(await call())
    if hooks[0].is_async:
        async with _AsyncEntered(hooks[0], ctx):
            return await _run_async(hooks[1:], ctx, call)
    else:
        with _Entered(hooks[0], ctx):
            return await _run_async(hooks[1:], ctx, call)
    return None


def _raised(value: Any) -> Any:
    """Raise a signal that the handler returned: both mean the same, to hooks as well."""
    if isinstance(value, Signal):
        raise value
    return value


class _Entered:
    """One hook around one run."""

    def __init__(self, hook: Hook, ctx: JobContext) -> None:
        self._hook = hook
        self._ctx = ctx
        self._steps: Generator[object, None, None] = hook.function(ctx)

    def __enter__(self) -> None:
        try:
            next(self._steps)
        except StopIteration:
            raise _never(self._hook) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            if error is None:
                next(self._steps)
            else:
                self._steps.throw(error)
        except StopIteration as end:
            if error is None:
                return False
            return end is not error and _swallowed(self._hook, self._ctx, error)
        except BaseException as raised:
            if _is_passed_on(raised, error):
                _restore(error, traceback)
                return False
            raise
        with suppress(Exception):  # it may yield once more, or raise
            self._steps.close()
        raise _twice(self._hook) from error


class _AsyncEntered:
    """The same for an async hook."""

    def __init__(self, hook: Hook, ctx: JobContext) -> None:
        self._hook = hook
        self._ctx = ctx
        self._steps: AsyncGenerator[object, None] = hook.function(ctx)

    async def __aenter__(self) -> None:
        try:
            await anext(self._steps)
        except StopAsyncIteration:
            raise _never(self._hook) from None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        try:
            if error is None:
                await anext(self._steps)
            else:
                await self._steps.athrow(error)
        except StopAsyncIteration as end:
            if error is None:
                return False
            return end is not error and _swallowed(self._hook, self._ctx, error)
        except BaseException as raised:
            if _is_passed_on(raised, error):
                _restore(error, traceback)
                return False
            raise
        with suppress(Exception):
            await self._steps.aclose()
        raise _twice(self._hook) from error


def _is_passed_on(raised: BaseException, error: BaseException | None) -> bool:
    """Return whether a hook let the handler's error through; a StopIteration leaves a generator as a RuntimeError."""
    if raised is error:
        return True
    turned = isinstance(raised, RuntimeError) and isinstance(error, StopIteration | StopAsyncIteration)
    return turned and raised.__cause__ is error


def _restore(error: BaseException | None, traceback: TracebackType | None) -> None:
    """Take the frames of the hook out of the traceback again: the error came from inside."""
    if error is not None:
        error.__traceback__ = traceback


def _swallowed(hook: Hook, ctx: JobContext, error: BaseException) -> bool:
    """Say that a failed run counts as a success because its hook caught the error: once for each hook, job and error."""
    kind = kind_of(error)
    if _warns(hook.name, ctx.job, kind):
        logger.warning(
            "the hook %s caught %s of job %s and went on: the run counts as a success", hook.name, kind, ctx.job
        )
    return True


def _never(hook: Hook) -> HookError:
    return HookError(f"the hook {hook.name!r} ended without a yield: it must yield once, where the handler is to run")


def _twice(hook: Hook) -> HookError:
    return HookError(
        f"the hook {hook.name!r} yielded twice: it must end after its first yield, for the handler runs once"
    )
