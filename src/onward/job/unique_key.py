"""The unique key of a call, made from its arguments as `@jobs.job(unique_key=...)` says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from string import Formatter

from onward.base import names
from onward.errors import ArgumentError, DefinitionError
from onward.job.arguments import Arguments
from onward.job.scrubbing import scrubber
from onward.job.secrets import Secret

__all__ = ["UniqueKey"]

_MASKED = repr(Secret(None))
_PART = re.compile(r"[.\[]")  # what follows a name in "{order.id}" and "{tags[0]}"


class UniqueKey:
    """Makes keys by a template, ``"welcome:{user_id}"``, or by a function whose parameters name those that it needs."""

    __slots__ = ("_arguments", "_job", "_make", "_shown", "_wanted")

    def __init__(self, job: str, given: str | Callable[..., str], arguments: Arguments) -> None:
        self._job = job
        self._arguments = arguments
        self._make: Callable[..., str]
        if isinstance(given, str):
            self._make, self._shown = given.format, repr(given)
            self._wanted = frozenset(self._named_by(given))
        elif callable(given):
            self._make, self._shown = given, getattr(given, "__qualname__", repr(given))
            self._wanted = frozenset(self._taken_by(given))
        else:
            raise DefinitionError(
                f'job {job!r}: unique_key must be a template such as "welcome:{{user_id}}" or a function, not {given!r:.60}'
            )
        for name in sorted(self._wanted.difference(arguments.names)):
            raise self._refusal(f"wants {name!r}, which is no parameter of the job{self._hint(name)}")

    def __call__(self, payload: bytes) -> str:
        """Return the key of a call, from its checked payload."""
        values = self._arguments.by_name(payload)
        try:
            key = self._make(**{name: values[name] for name in self._wanted})
        except Exception as error:  # noqa: BLE001  the user's own function may raise anything
            told = scrubber(payload, self._arguments.secrets)(str(error))
            raise ArgumentError(
                f"{self._job}: unique_key {self._shown} failed for these arguments: {type(error).__name__}: {told}"
            ) from (error if told == str(error) else None)
        names.key(key, f"{self._job}: the key that unique_key {self._shown} made")
        if self._arguments.secrets and (_MASKED in key or scrubber(payload, self._arguments.secrets)(key) != key):
            raise ArgumentError(
                f"{self._job}: unique_key {self._shown} puts a secret into the key, and keys are shown: leave it out"
            )
        return key

    def _named_by(self, template: str) -> Iterator[str]:
        try:
            fields = list(_fields(template))
        except ValueError as error:
            raise self._refusal(f"cannot be read: {error}; write {{{{ for a brace") from None
        if not fields:
            names.key(template, f"job {self._job!r}: unique_key")
        for field in fields:
            name = _PART.split(field, maxsplit=1)[0]
            if not name.isidentifier():
                raise self._refusal(f"must name a parameter in {{{field}}}{self._hint(name)}")
            if name in self._arguments.secrets:
                raise self._refusal(f"names {name!r}, which is secret, and keys are not: leave it out")
            yield name

    def _taken_by(self, function: Callable[..., str]) -> Iterator[str]:
        if inspect.iscoroutinefunction(function):
            raise self._refusal("is async: give a plain function")
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise self._refusal(f"does not say which arguments it takes: {error}") from None
        for parameter in parameters:
            match parameter.kind:
                case parameter.VAR_KEYWORD:
                    yield from self._arguments.names
                case parameter.VAR_POSITIONAL | parameter.POSITIONAL_ONLY:
                    raise self._refusal(f"gets its arguments by name, and {parameter.name!r} cannot be given so")
                case _ if parameter.name in self._arguments.names or parameter.default is parameter.empty:
                    yield parameter.name

    def _refusal(self, why: str) -> DefinitionError:
        return DefinitionError(f"job {self._job!r}: unique_key {self._shown} {why}")

    def _hint(self, name: str) -> str:
        return names.suggestion(name, self._arguments.names) if self._arguments.names else ", which takes none"


def _fields(template: str) -> Iterator[str]:
    """Yield the names of the fields of a template.

    >>> list(_fields("{shop}:{order.id:>{width}}:{{}}"))
    ['shop', 'order.id', 'width']
    """
    for _, field, width, _ in Formatter().parse(template):
        if field is not None:
            yield field
            yield from _fields(width or "")
