"""The exception of the first failed attempt, as it was raised: for tests, which assert on it and not on its record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from onward.attempt.attempt import Attempt, Ready
from onward.base.failure import kind_of, name_of
from onward.errors import JobTimeout
from onward.job.arguments import DoesNotFit
from onward.job.context import JobContext
from onward.job.registry import Entry
from onward.job.signals import Signal

__all__ = ["FirstError"]


class FirstError:
    """Remembers what the first failed attempt raised."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def watching(self, ready: Ready, run: Callable[[Ready], Attempt]) -> Attempt:
        """Run an attempt; if it fails, remember what it raised."""
        watched = _Watched(ready.entry)
        attempt = run(msgspec.structs.replace(ready, entry=watched))
        failure, error = attempt.failure, watched.error
        if isinstance(error, DoesNotFit):  # such a job is parked, and a test would wait for ever
            self._error = error
        elif failure is not None and failure.kind == name_of(JobTimeout):  # which ends a thread that does not expect it
            self._error = TimeoutError(failure.message)
        elif failure is not None and not isinstance(error, Signal):  # a signal is what the handler wanted
            known = error is not None and kind_of(error) == failure.kind
            self._error = error if known else RuntimeError(str(failure))
        return attempt

    def raise_it(self) -> None:
        """Raise the remembered exception, if there is one."""
        if self._error is not None:
            raise self._error


class _Watched:
    """An entry that calls a job's code and keeps what it raised."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)

    def invoke(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Any:
        if self._entry.is_async:
            return self._awaited(ctx, payload)
        try:
            return self._entry.invoke(ctx, payload)
        except BaseException as error:
            self.error = error
            raise

    async def _awaited(self, ctx: JobContext | None, payload: bytes | msgspec.Raw) -> Any:
        try:
            return await self._entry.invoke(ctx, payload)
        except BaseException as error:
            self.error = error
            raise
