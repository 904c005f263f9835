"""A job's arguments in a call that has options of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from onward.client.bound_job import Job
from onward.client.calls import Call
from onward.errors import OptionError

__all__ = ["AnyJob", "arguments_of", "function_of"]

AnyJob = Job[..., ..., Any, Any]


def function_of(job: AnyJob) -> Callable[..., Any]:
    """Return the function that `@jobs.job` decorates."""
    return cast("Callable[..., Any]", cast("Any", job).__wrapped__)


def arguments_of(
    job: AnyJob, args: tuple[Any, ...], kwargs: Mapping[str, Any], said: Iterable[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the job's own arguments: as they were given, or out of ``job.call(...)``.

    An option that was ``said`` and is also the name of a parameter could mean either.  With `job.call` it cannot.
    """
    if len(args) == 1 and isinstance(args[0], Call):
        if kwargs:
            raise OptionError(f"put {', '.join(kwargs)} into {job.name}.call(...), with the other arguments")
        return args[0].args, args[0].kwargs
    parameters = inspect.signature(function_of(job)).parameters
    for option in said:
        if option in parameters:
            raise OptionError(
                f"{option!r} is an option here and a parameter of {job.name}: "
                f"put the job's arguments into {job.name}.call(...)"
            )
    return args, dict(kwargs)
