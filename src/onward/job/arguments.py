"""A handler's parameters as a codec: one generated struct per job, so that a job costs one C call to check or to decode.

The payload is a JSON object by parameter name.  It has every argument that was given, even one that equals a default; for
the others the worker uses its own defaults.  `Arguments.pack` decodes its own bytes before anything is stored, so a call
that a worker could not read is refused where it is enqueued.  A payload that a worker cannot read all the same comes from
another version of the code: `DoesNotFit`.
"""

from __future__ import annotations

import copy
import inspect
import marshal
import math
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, Literal

import msgspec

from onward.base.names import suggestion
from onward.base.wording import a
from onward.errors import ArgumentError, DefinitionError
from onward.job.definition import refused_as_argument
from onward.job.parameters import is_context, refuse_impossible, refuse_untold, signature
from onward.job.payload_limits import DEEPEST, refuse_misshapen
from onward.job.scrubbing import scrubber
from onward.job.secret_places import places_of
from onward.job.secrets import MASK, Secret, is_telling, secrets_in, within

__all__ = ["Arguments", "DoesNotFit", "decode_result", "encode_result", "encode_value", "read_as"]

_PLAIN = frozenset({bool, int, float, str, type(None)})
_PLACE = re.compile(r"(.*) - at `\$\.(\w+)[^`]*`")


DoesNotFitCode = Literal["missing_argument", "unknown_argument", "misfit"]


class DoesNotFit(Exception):
    """Arguments that fit another version of a job, the one for which they were enqueued, but not this one."""

    def __init__(self, told: str, code: DoesNotFitCode = "misfit", parameter: str = "") -> None:
        super().__init__(told)
        self.code = code
        self.parameter = parameter


class Arguments:
    """The parameters of one handler: binds and checks a call, packs it, and unpacks it again."""

    __slots__ = (
        "_decode",
        "_keyword",
        "_most",
        "_name",
        "_names",
        "_positional",
        "_required",
        "_unannotated",
        "secrets",
        "struct",
        "takes_context",
    )

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        parameters, hints = signature(function, name)
        self._name = name
        self.takes_context = bool(parameters) and is_context(parameters[0], hints)
        if self.takes_context:
            del parameters[0]
        elif parameters:
            refuse_untold(parameters[0], hints, name)
        refuse_impossible(parameters, hints, name)
        self._positional = tuple(p.name for p in parameters if p.kind is not p.KEYWORD_ONLY)
        self._keyword = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        self._most = -1 if self._keyword else len(self._positional)  # arguments by position, if those are all
        self._names = frozenset((*self._positional, *self._keyword))
        self._required = frozenset(p.name for p in parameters if p.default is p.empty)
        self.secrets = tuple(sorted(each for p in parameters for each in _secrets_of(p, hints.get(p.name))))
        self._unannotated = frozenset(p.name for p in parameters if hints.get(p.name, Any) is Any)
        try:
            self.struct = _struct(name, parameters, hints)  # a field for each parameter
            self._decode = msgspec.json.Decoder(self.struct, dec_hook=_decode_hook).decode
        except TypeError as error:
            raise DefinitionError(f"job {name!r}: its parameters cannot travel as JSON: {error}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters, without the context."""
        return self._positional + self._keyword

    def pack(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes:
        """Return the payload of a call, or raise an `ArgumentError` that says which argument is wrong and how to fix it."""
        # The struct itself, where a call gives all by position: there is nothing to bind, and its names are encoded already.
        call = self.struct(*args) if not kwargs and len(args) == self._most else self._bind(args, kwargs)
        try:
            payload = _encode(call)
            if len(payload) > DEEPEST:  # else it cannot be too deep, or too wide
                refuse_misshapen(payload, self._name)
            decoded = self._decode(payload)
            # JSON carries nearly every value as it is; but a null can stand for a number that JSON cannot write.
            given = call.values() if type(call) is dict else args
            if (nulls := b"null" in payload) or not _PLAIN.issuperset(map(type, given)):
                self._compare(self._bind(args, kwargs), decoded, nulls=nulls)
        except ArgumentError:
            raise
        except Exception as error:  # noqa: BLE001  a model's own methods may raise anything
            named = self._bind(args, kwargs)
            raise ArgumentError(f"{self._name}: {_culprit(named)}{self._told(error, named)}") from None
        return payload

    def check(self, payload: bytes) -> None:
        """Raise for a payload, given by name, that the handler could not be called with."""
        try:
            self._decode(payload)
        except Exception as error:  # noqa: BLE001  see above
            raise ArgumentError(f"{self._name}: {scrubber(payload, self.secrets)(_explain(error))}") from None

    def unpack(self, payload: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments to call the handler with.  Raises `DoesNotFit`."""
        try:
            values = msgspec.structs.astuple(self._decode(payload))
        except msgspec.ValidationError as error:
            raise self._misread(payload, error) from None
        if not self._keyword:
            return values, {}
        positional = len(self._positional)
        return values[:positional], dict(zip(self._keyword, values[positional:], strict=True))

    def by_name(self, payload: bytes) -> dict[str, Any]:
        """Return the arguments by name as the handler would get them, defaults included."""
        return msgspec.structs.asdict(self._decode(payload))

    def _misread(self, payload: bytes | msgspec.Raw, error: msgspec.ValidationError) -> Exception:
        """Return the error that says why a payload does not fit; the given one if no version of the job could read it."""
        try:
            given = msgspec.json.decode(payload, type=dict[str, Any])
        except Exception:  # noqa: BLE001  it is damaged
            return error
        job, another = f"job {self._name!r}", "it was enqueued by another version of the code, so"
        if missing := sorted(self._required - given.keys()):
            fix = f"{another} give the parameter a default, or run that version until its jobs are done"
            return DoesNotFit(f"{job} has no value for parameter {missing[0]!r}: {fix}", "missing_argument", missing[0])
        if unknown := sorted(given.keys() - self._names):
            fix = f"{another} keep the parameter, or run that version until its jobs are done"
            return DoesNotFit(f"{job} has no parameter {unknown[0]!r:.100}: {fix}", "unknown_argument", unknown[0])
        problem = " ".join(str(error).split())
        if place := _PLACE.match(problem):
            told = f"{job}: parameter {place[2]!r} does not fit this version of the code: {place[1]}"
            return DoesNotFit(told, "misfit", place[2])
        return DoesNotFit(f"{job}: its arguments do not fit this version of the code: {problem}")

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given arguments by name."""
        call = dict(zip(self._positional, args)) if args else {}  # noqa: B905  `strict` alone costs as much as the rest
        if kwargs:
            call |= kwargs
        if len(call) == len(args) + len(kwargs):  # none twice, and none too many
            given = call.keys()
            if given == self._names or self._required <= given <= self._names:
                return call
        raise ArgumentError(self._misfit(args, kwargs))

    def _misfit(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return what is wrong with a call."""
        if len(args) > len(self._positional):
            plural = "argument" if len(self._positional) == 1 else "arguments"
            return f"{self._name}() takes {len(self._positional)} positional {plural}, {len(args)} were given"
        by_position = self._positional[: len(args)]
        for name in kwargs:
            if name in by_position:
                return f"{self._name}() got {name!r} twice, by position and by name"
            if name not in self._names:
                if (refused := refused_as_argument(self._name, name)) is not None:
                    return refused
                known = suggestion(name, (*self._positional, *self._keyword))
                return f"{self._name}() has no parameter {name!r}{known}"
        missing = ", ".join(sorted(self._required.difference(by_position, kwargs)))
        return f"{self._name}() lacks a value for {missing}"

    def _told(self, error: Exception, call: Mapping[str, Any]) -> str:
        """Return what is wrong, without secrets: a model's own error quotes the value it was given."""
        try:
            payload = _encode(call)
        except Exception:  # noqa: BLE001  see above
            payload = b"{}"
        return scrubber(payload, self.secrets, lambda: call)(_explain(error))

    def _compare(self, call: Mapping[str, Any], decoded: msgspec.Struct, *, nulls: bool) -> None:
        """Raise for an argument that would reach the handler as another value.  ``nulls``: the payload has one at least."""
        for name, given in call.items():
            arrived, exactly = getattr(decoded, name), name in self._unannotated
            if _equal(given, arrived, exactly=exactly or nulls):
                continue
            if nulls and (found := _not_a_number(msgspec.to_builtins(given, enc_hook=_encode_hook))):
                raise ArgumentError(f"{self._name}: {name}: {found} has no JSON form: pass a finite number or None")
            if not _survived(given, arrived, exactly=exactly):
                hidden = is_telling(name) or any(secrets_in(given)) or any(secrets_in(arrived))
                shown = [MASK, MASK] if hidden else [f"{value!r:.60}" for value in (given, arrived)]
                raise ArgumentError(
                    f"{self._name}: {name}={shown[0]} would come back as {shown[1]}: annotate the parameter with its type"
                )


def _struct(name: str, parameters: Iterable[inspect.Parameter], hints: Mapping[str, Any]) -> type[msgspec.Struct]:
    """Build a struct: positional parameters in a base, keyword-only ones above it, each with or without a default."""
    fields: dict[bool, list[Any]] = {True: [], False: []}
    for parameter in parameters:
        field: Any = (parameter.name, hints.get(parameter.name, Any))
        if parameter.default is not parameter.empty:
            field = (*field, _default(parameter.default))
        fields[parameter.kind is parameter.KEYWORD_ONLY].append(field)
    positional = msgspec.defstruct(name.replace(".", "_"), fields[False], forbid_unknown_fields=True)
    if not fields[True]:
        return positional
    return msgspec.defstruct(positional.__name__, fields[True], bases=(positional,), kw_only=True)


def _secrets_of(parameter: inspect.Parameter, hint: Any) -> Iterable[str]:
    """Return the places of a parameter's secrets; all of it, if its default is a `Secret` and its annotation is silent."""
    places = places_of(hint) or (("",) if any(secrets_in(parameter.default)) else ())
    return within(parameter.name, places)


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


def _culprit(call: Mapping[str, Any]) -> str:
    """Return the name of the argument that has no JSON form; of one that cannot be read back, the error itself names it."""
    for name, given in call.items():
        try:
            _encode(given)
        except Exception:  # noqa: BLE001  see above
            return f"{name}: "
    return ""


def _equal(given: Any, arrived: Any, *, exactly: bool) -> bool:
    """Return whether a comparison in C finds both equal.  ``exactly``: in types and in fields that `==` leaves out, too.

    An order of twenty lines is compared in a tenth of the time that `_survived` takes.
    """
    try:
        if exactly:  # version 2 writes equal values alike, whether or not their parts are one object or interned
            return marshal.dumps(given, 2) == marshal.dumps(arrived, 2)
        return bool(given == arrived)
    except Exception:  # noqa: BLE001  marshal refuses what is not built in; a model's own methods may raise anything
        return False


def _survived(given: Any, arrived: Any, *, exactly: bool) -> bool:
    """Return whether no value was turned into text and no key was changed.  ``exactly``: nor was any type."""
    if exactly and type(given) is not type(arrived):
        return False
    if isinstance(arrived, str):
        return isinstance(given, str)
    if isinstance(arrived, dict):
        return (
            isinstance(given, Mapping)
            and given.keys() == arrived.keys()
            and all(_survived(value, arrived[key], exactly=exactly) for key, value in given.items())
        )
    if isinstance(arrived, list) and isinstance(given, list | tuple):
        return all(_survived(*pair, exactly=exactly) for pair in zip(given, arrived, strict=True))
    return not exactly or bool(given == arrived)


def _not_a_number(value: Any) -> str | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        value = list(value.values())
    parts = value if isinstance(value, list | tuple | set | frozenset) else ()
    return next((found for part in parts if (found := _not_a_number(part))), None)


# A secret travels as the value that it holds.
# Pydantic models are recognised by their methods, so that pydantic need not be installed.
def _encode_hook(value: Any) -> Any:
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "model_dump") and hasattr(type(value), "model_validate"):
        return value.model_dump(mode="json", by_alias=True, round_trip=True)
    raise TypeError(f"{type(value).__name__} has no JSON form: pass plain data, a dataclass or a pydantic model")


def _decode_hook(kind: Any, value: Any) -> Any:
    if kind is Secret or typing.get_origin(kind) is Secret:
        (inner,) = typing.get_args(kind) or (Any,)
        try:
            return Secret(msgspec.convert(value, inner, dec_hook=_decode_hook))
        except msgspec.ValidationError:
            raise ValueError(
                f"the secret is not {a(getattr(inner, '__name__', str(inner)))}"
            ) from None  # without the value
    if isinstance(kind, type) and issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise ValueError(f"expected the text of a path, got {a(type(value).__name__)}")  # noqa: TRY004  it is caught
        return kind(value)
    if hasattr(kind, "model_validate"):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise ValueError(_without_input(error)) from None
    raise TypeError(f"{kind!r} cannot be read from JSON")


def _without_input(error: Any) -> str:
    """Return what pydantic finds wrong, without the values: it quotes a whole object where one field is missing."""
    if not hasattr(error, "errors"):
        return str(error)
    found = error.errors(include_input=False, include_context=False, include_url=False)
    return "; ".join(": ".join(filter(None, (".".join(map(str, each["loc"])), each["msg"]))) for each in found)


_encode = msgspec.json.Encoder(enc_hook=_encode_hook).encode


def encode_value(value: Any) -> bytes:
    """Encode any value as JSON.  Raises if it has no JSON form, also where JSON would silently put a null."""
    return _whole(value, _encode(value))


def encode_result(value: Any) -> bytes:
    """Encode what a handler returned.  Refuses a secret: programs read results, and people see them."""
    return _whole(value, _encode_shown(value))


def _shown_hook(value: Any) -> Any:
    if isinstance(value, Secret) or places_of(type(value)):
        raise TypeError("the result holds a Secret, and results are shown: leave it out, or return what it reveals")
    return _encode_hook(value)


_encode_shown = msgspec.json.Encoder(enc_hook=_shown_hook).encode


def _whole(value: Any, encoded: bytes) -> bytes:
    if b"null" in encoded and (found := _not_a_number(msgspec.to_builtins(value, enc_hook=_encode_hook))):
        raise ValueError(f"{found} has no JSON form: return a finite number or None")
    return encoded


def decode_result(data: bytes | None, kind: Any = Any) -> Any:
    """Decode a stored result, as the type the handler says it returns where that can be done."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind, dec_hook=_decode_hook)
    except (TypeError, ValueError):
        return msgspec.json.decode(data)


def read_as(kind: Any, value: Any) -> Any:
    """Read plain data as a type.  Raises if it does not fit."""
    return msgspec.convert(value, kind, dec_hook=_decode_hook, str_keys=True)
