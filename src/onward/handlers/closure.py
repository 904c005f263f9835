"""Functions as jobs, in the process that made them: a function cannot travel, so the job carries a number instead."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

from onward.errors import ArgumentError
from onward.job.context import JobContext
from onward.job.registry import NotAllowed
from onward.job.signals import Signal

__all__ = ["Closures"]


class Closures:
    """``jobs.define("callable", lambda: resize(picture))``, on ``memory://`` and ``sync://``.

    A function is kept until it has succeeded; with a dead letter, until the process ends.
    """

    def __init__(self) -> None:
        self._functions: dict[int, Callable[[], Any]] = {}
        self._numbers = itertools.count(1)

    def admit(self, payload: Any) -> dict[str, Any]:
        """Keep a function, and return the payload that stands for it."""
        name = getattr(payload, "__qualname__", type(payload).__name__)
        if not callable(payload):
            raise ArgumentError(f"callable takes a function, not {payload!r:.60}")
        if inspect.iscoroutinefunction(payload):
            raise ArgumentError(f"callable: {name} is async: make it a job with @jobs.job")
        try:
            inspect.signature(payload).bind()
        except TypeError as error:
            raise ArgumentError(f"callable: {name} must need no arguments ({error}): bind them with a lambda") from None
        except ValueError:
            pass  # some functions written in C have no signature
        number = next(self._numbers)
        self._functions[number] = payload
        return {"function": name, "number": number}

    def check(self, payload: Any) -> None:
        if self._number(payload) is None:
            raise ArgumentError('callable: dispatch a function with jobs.define("callable", function)')

    def run(self, ctx: JobContext) -> Any:
        number = self._number(ctx.payload)
        if number is None:
            raise NotAllowed("its function is not here: it has run already, or belonged to another process")
        value = self._functions[number]()
        if not isinstance(value, Signal):
            del self._functions[number]
        return value

    def _number(self, payload: Any) -> int | None:
        """Return the number of a function that is kept here."""
        number = payload.get("number") if isinstance(payload, dict) else None
        return number if isinstance(number, int) and number in self._functions else None
