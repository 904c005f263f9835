"""The parameters of a function that is to be a job: which there may be, and how they may be annotated."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from onward.errors import DefinitionError
from onward.job.context import JobContext

__all__ = ["is_context", "plain", "refuse_impossible", "refuse_untold", "signature"]


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a `functools.partial` calls: it has the annotations."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def signature(function: Callable[..., Any], name: str) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """Return the parameters of a function and their annotations; raise for what is called and is no function."""
    called = plain(function)
    if not inspect.isroutine(called):
        what = f"the class {called.__name__}" if isinstance(called, type) else f"an object of {type(called).__name__}"
        fix = "" if isinstance(called, type) else ", or of its method, jobs.job(name=…)(thing.method)"
        raise DefinitionError(f"job {name!r}: {what} is no function: make a job of one that does the call{fix}")
    try:
        parameters = list(inspect.signature(function).parameters.values())
        return parameters, typing.get_type_hints(plain(function), include_extras=True)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"job {name!r}: {function!r:.60} is not a plain function: {error}") from None
    except Exception as error:  # noqa: BLE001  an annotation in quotes may be any expression
        raise DefinitionError(
            f"job {name!r}: an annotation cannot be resolved ({error}): import the type where the job is defined, "
            f"not under TYPE_CHECKING"
        ) from None


def is_context(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    by_position = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    return by_position and _names_context(hints.get(parameter.name))


def refuse_untold(first: inspect.Parameter, hints: Mapping[str, Any], name: str) -> None:
    """Raise for a first parameter whose name says that Onward fills it in, and whose annotation does not."""
    if first.name in hints:
        return
    if first.name in ("ctx", "context"):
        raise DefinitionError(
            f"job {name!r}: its first parameter {first.name!r} has no annotation: write `{first.name}: JobContext` to be "
            f"given the job's context, or annotate it with the type of the argument that it is"
        )
    if first.name in ("self", "cls"):
        raise DefinitionError(
            f"job {name!r} is a method, and its {first.name!r} does not travel: make a job of a function, or of a "
            f"@staticmethod (@jobs.job above it), and pass it what it needs to find the object; if {first.name!r} is to be "
            f"the job's context, write `ctx: JobContext`"
        )


def _names_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, JobContext)


def refuse_impossible(parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any], name: str) -> None:
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise DefinitionError(f"job {name!r}: *{parameter.name} has no name to travel under: take a list instead")
        if parameter.kind is parameter.VAR_KEYWORD:
            raise DefinitionError(f"job {name!r}: **{parameter.name} cannot be checked: take a dict instead")
        hint = hints.get(parameter.name)
        if _names_context(hint) or any(map(_names_context, typing.get_args(hint))):
            raise DefinitionError(
                f"job {name!r}: a JobContext must be the first parameter, not {parameter.name!r}, "
                f"and annotated as that and nothing else"
            )
        _refuse_unreadable(hint, parameter.name, name)


def _refuse_unreadable(hint: Any, parameter: str, name: str) -> None:
    """Raise for a type that could be enqueued and never be read, and for bounds that no check would look at."""
    for part in _parts(hint):
        if typing.get_origin(part) is typing.Annotated:
            for marker in part.__metadata__:
                if type(marker).__module__.partition(".")[0] in _MARKERS:
                    raise DefinitionError(
                        f"job {name!r}: the {type(marker).__name__} in the annotation of {parameter!r} is pydantic's, and "
                        f"would not be checked here: write Annotated[…, msgspec.Meta(ge=…)], or take a pydantic model"
                    )
        if isinstance(part, type) and part.__module__.partition(".")[0] == "pydantic" and not _is_read(part):
            raise DefinitionError(
                f"job {name!r}: a {part.__name__} cannot travel, as {parameter!r}: {_instead_of(part)}"
            )


_MARKERS = ("pydantic", "pydantic_core", "annotated_types")


def _is_read(kind: type) -> bool:
    return hasattr(kind, "model_validate") or hasattr(kind, "__pydantic_fields__")


def _instead_of(kind: type) -> str:
    secret = {"SecretStr": "Secret[str]", "SecretBytes": "Secret[bytes]"}.get(kind.__name__)
    return f"use onward.{secret}" if secret else "take a str, or a pydantic model with that field"


def _parts(hint: Any) -> Iterator[Any]:
    """Yield an annotation and all that it is made of."""
    yield hint
    for inner in typing.get_args(hint):
        yield from _parts(inner)
