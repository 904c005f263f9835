"""Where the secrets of a payload are: by the types of a handler's parameters, or by the values that were given.

A place names its parts as they travel: an encoded name, or every item of a list.  Where places cannot be named exactly, the
whole value is secret: for a recursive type, a tuple, a struct that travels as a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, get_args

from msgspec import inspect

from onward.job.secrets import Secret, names_secret, parts_of, place, secrets_in

__all__ = ["places_in", "places_of"]

_Place = tuple[str | None, ...]
_MOST = 50  # places of one value, which every letter carries: with more the whole of it is secret


def places_of(hint: Any) -> tuple[str, ...]:
    """Return where in a value of this type secrets are.

    >>> places_of(dict[str, Secret[str]] | None), places_of(Secret[int]), places_of(list[str])
    (('*',), ('',), ())
    """
    try:
        return _places_of(hint)
    except TypeError:  # it cannot be hashed, and so not be remembered
        return _places_of.__wrapped__(hint)


@lru_cache(1_024)
def _places_of(hint: Any) -> tuple[str, ...]:
    try:
        info = inspect.type_info(hint)
    except Exception:  # noqa: BLE001  a type that msgspec does not know; annotations in quotes are any expression
        return ("",) if names_secret(hint) or any(map(places_of, get_args(hint))) else ()
    found = sorted({place(each) for each in _walk(info, ())}) if _holds(info, set()) else []
    return tuple(found) if len(found) <= _MOST and "" not in found else ("",)


def places_in(value: Any) -> tuple[str, ...]:
    """Return where in a given value secrets are."""
    found = sorted({place(each) for each in _given(value, ())})
    return tuple(found) if len(found) <= _MOST else ("",)


def _given(value: Any, above: _Place) -> Iterator[_Place]:
    if isinstance(value, Secret):
        yield above
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _given(each, (*above, str(name)))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _given(each, (*above, str(number)))
    elif isinstance(value, set | frozenset):
        for each in value:
            yield from _given(each, (*above, None))
    elif (parts := parts_of(value)) is not None:  # an object: its type knows under which names it travels
        by_type = places_of(type(value))
        yield from ((*above, *_parts(each)) for each in by_type)
        if not by_type and any(secrets_in(parts)):
            yield above


def _parts(text: str) -> _Place:
    return tuple(None if part == "*" else part for part in text.split("/")) if text else ()


def _walk(info: inspect.Type, stack: tuple[Any, ...]) -> Iterator[_Place]:
    """Yield the places of secrets in a type."""
    if _is_secret(info):
        yield ()
        return
    key = getattr(info, "cls", None) or id(info)
    if key in stack:  # a recursive type
        yield ()
        return
    for part, below in _parts_of_type(info):
        if _holds(below, set()):
            yield from ((*part, *rest) for rest in _walk(below, (*stack, key)))


def _holds(info: inspect.Type, seen: set[Any]) -> bool:
    key = getattr(info, "cls", None) or id(info)
    if key in seen:
        return False
    seen.add(key)
    return _is_secret(info) or any(_holds(below, seen) for _, below in _parts_of_type(info))


def _is_secret(info: inspect.Type) -> bool:
    return isinstance(info, inspect.CustomType) and names_secret(info.cls)


def _parts_of_type(info: inspect.Type) -> Iterable[tuple[_Place, inspect.Type]]:
    match info:
        case inspect.Metadata():
            return [((), info.type)]
        case inspect.UnionType():
            return [((), each) for each in info.types]
        case inspect.CollectionType():
            return [((None,), info.item_type)]
        case inspect.TupleType():
            return [((None,), each) for each in info.item_types]
        case inspect.DictType():
            return [((None,), info.value_type)]
        case inspect.StructType(array_like=True) | inspect.NamedTupleType():
            return [((None,), each.type) for each in info.fields]
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType():
            return [((each.encode_name,), each.type) for each in info.fields]
        case inspect.CustomType() if hasattr(info.cls, "model_fields"):
            return list(_fields_of_model(info.cls))
        case _:
            return ()


def _fields_of_model(model: Any) -> Iterator[tuple[_Place, inspect.Type]]:
    """Return the fields of a pydantic model, under every name that a field may have."""
    for name, field in model.model_fields.items():
        aliases = (field.alias, field.serialization_alias, field.validation_alias)
        for each in {name, *(alias for alias in aliases if isinstance(alias, str))}:
            try:
                yield (each,), inspect.type_info(field.annotation)
            except Exception:  # noqa: BLE001  see above
                if places_of(field.annotation):
                    yield (each,), inspect.CustomType(Secret)
