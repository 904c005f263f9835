"""A handler's parameters as a codec: one generated struct per job, so that a job costs one C call to check or to decode.

The payload is a JSON object by parameter name.  What was not given is not in it: the worker's own default applies.
Enqueueing decodes its own bytes before anything is stored, so what a worker could not read is refused where it was written.
"""

from __future__ import annotations

import copy
import inspect
import math
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from onward.context import JobContext
from onward.errors import ArgumentError, DefinitionError

__all__ = ["Arguments", "decode_result", "encode_result"]


class Arguments:
    """The parameters of one handler: binds and checks a call, packs it, and unpacks it again."""

    __slots__ = ("_decode", "_encode", "_keyword", "_name", "_positional", "_struct", "_unannotated", "takes_context")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints(function, name)
        self._name = name
        self.takes_context = bool(parameters) and _is_context(hints.get(parameters[0].name))
        if self.takes_context:
            del parameters[0]
        _refuse_impossible(parameters, hints, name)
        self._keyword = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        self._positional = len(parameters) - len(self._keyword)
        self._unannotated = tuple(p.name for p in parameters if hints.get(p.name, Any) is Any)
        try:
            self._struct = _struct(name, parameters, hints)
            self._decode = msgspec.json.Decoder(self._struct, dec_hook=_decode_hook).decode
        except TypeError as error:
            raise DefinitionError(f"job {name!r}: its parameters cannot travel as JSON: {error}") from None
        self._encode = msgspec.json.Encoder(enc_hook=_encode_hook).encode

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """The payload of a call, or an `ArgumentError` that says which argument is wrong and how to mend it."""
        call = self._bind(args, kwargs)
        try:
            payload = self._encode(call)
            decoded = self._decode(payload)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise ArgumentError(f"{self._name}: {_explain(error)}") from None
        for field in self._unannotated:
            if not _same(getattr(call, field), getattr(decoded, field)):
                raise ArgumentError(
                    f"{self._name}: {field}={getattr(call, field)!r:.60} would come back as "
                    f"{getattr(decoded, field)!r:.60}: annotate the parameter with its type"
                )
        # Only a null can be a number that JSON has no word for; looking for one costs nothing else.
        if b"null" in payload and (found := _not_a_number(call)):
            raise ArgumentError(f"{self._name}: {found} has no JSON form: pass a finite number or None")
        return payload

    def check(self, payload: bytes) -> None:
        """Refuse a payload, given by name, that the handler could not be called with."""
        try:
            self._decode(payload)
        except (TypeError, ValueError, RecursionError) as error:
            raise ArgumentError(f"{self._name}: {_explain(error)}") from None

    def unpack(self, payload: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the handler with."""
        values = msgspec.structs.astuple(self._decode(payload))
        if not self._keyword:
            return values, {}
        return values[: self._positional], dict(zip(self._keyword, values[self._positional :], strict=True))

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> msgspec.Struct:
        if len(args) > self._positional:
            plural = "argument" if self._positional == 1 else "arguments"
            raise ArgumentError(f"{self._name}() takes {self._positional} positional {plural}, {len(args)} were given")
        try:
            return self._struct(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self._name}(): {str(error).replace('Struct', 'the job')}") from None


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"job {name!r}: an annotation cannot be resolved ({error}): import the type where the job is defined, "
            f"not under TYPE_CHECKING"
        ) from None


def _is_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, JobContext)


def _refuse_impossible(parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any], name: str) -> None:
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise DefinitionError(f"job {name!r}: *{parameter.name} has no name to travel under: take a list instead")
        if parameter.kind is parameter.VAR_KEYWORD:
            raise DefinitionError(f"job {name!r}: **{parameter.name} cannot be checked: take a dict instead")
        if _is_context(hints.get(parameter.name)):
            raise DefinitionError(f"job {name!r}: a JobContext must be the first parameter, not {parameter.name!r}")


def _struct(name: str, parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Positional parameters in a base, keyword-only ones above it: each may have or lack defaults on its own."""
    fields: dict[bool, list[Any]] = {True: [], False: []}
    for parameter in parameters:
        field: Any = (parameter.name, hints.get(parameter.name, Any))
        if parameter.default is not parameter.empty:
            field = (*field, _default(parameter.default))
        fields[parameter.kind is parameter.KEYWORD_ONLY].append(field)
    options: dict[str, Any] = {"omit_defaults": True, "forbid_unknown_fields": True}
    positional = msgspec.defstruct(name.replace(".", "_"), fields[False], **options)
    if not fields[True]:
        return positional
    return msgspec.defstruct(positional.__name__, fields[True], bases=(positional,), kw_only=True, **options)


def _default(value: Any) -> Any:
    if isinstance(value, list | dict | set | bytearray) or type(value).__hash__ is None:
        return msgspec.field(default_factory=lambda: copy.deepcopy(value))
    return msgspec.field(default=value)


def _explain(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "an argument is nested too deeply"
    if isinstance(error, UnicodeEncodeError):
        return "an argument holds text that is not valid Unicode (a lone surrogate)"
    return str(error)


def _same(given: Any, decoded: Any) -> bool:
    """Equal, and of the same type all the way down: JSON turns tuples into lists and keys into text."""
    if type(given) is not type(decoded):
        return False
    if isinstance(given, dict):
        return given.keys() == decoded.keys() and all(_same(value, decoded[key]) for key, value in given.items())
    if isinstance(given, list):
        return len(given) == len(decoded) and all(map(_same, given, decoded))
    return bool(given == decoded)


def _not_a_number(value: Any) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else repr(value)
    if isinstance(value, msgspec.Struct):
        parts: Iterable[Any] = msgspec.structs.astuple(value)
    elif isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    else:
        parts = vars(value).values() if hasattr(value, "__dict__") and not isinstance(value, type) else ()
    return next((found for part in parts if (found := _not_a_number(part))), None)


# Pydantic models are met by the shape of their methods, so that nobody has to install pydantic.
def _encode_hook(value: Any) -> Any:
    if hasattr(value, "model_dump") and hasattr(type(value), "model_validate"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form: pass plain data, a dataclass or a pydantic model")


def _decode_hook(kind: Any, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise TypeError(f"{kind!r} cannot be read from JSON")


_encode_any = msgspec.json.Encoder(enc_hook=_encode_hook).encode


def encode_result(value: Any) -> bytes:
    """A handler's result as JSON.  Raises whatever is wrong with it: the caller keeps the job completed all the same."""
    return _encode_any(value)


def decode_result(data: bytes | None, kind: Any = Any) -> Any:
    """A stored result, as the type the handler says it returns where that can be done."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=_decode_hook)
    except (TypeError, ValueError):
        return msgspec.json.decode(data)
