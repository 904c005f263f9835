"""The type of the decorator that makes a function a job."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from onward.client.bound_job import Job
from onward.job.context import AsyncJobContext, JobContext

__all__ = ["JobDecorator"]

P = ParamSpec("P")
T = TypeVar("T")


class JobDecorator(Protocol):
    """Turns a function into a job: the type of `@jobs.job(queue="mail")`."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], Coroutine[Any, Any, T]], /
    ) -> Job[P, Concatenate[JobContext, P], Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncJobContext, P], Coroutine[Any, Any, T]], /
    ) -> Job[P, Concatenate[AsyncJobContext, P], Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[JobContext, P], T], /
    ) -> Job[P, Concatenate[JobContext, P], T, T]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Job[P, P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Job[P, P, T, T]: ...
