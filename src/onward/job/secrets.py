"""Masking secrets among a job's arguments: values that are secret by their type or by their name.

The store has a job's arguments as they were given: a program that may read the store can read them.  But people look at jobs
through records, error texts and logs, and these are copied, mailed and kept.  There Onward puts a mask in place of a secret.

    class             by                                 where
    `Secret[str]`     an annotation, at any depth        in every record and text
    a telling name    password, token, secret, …         the same
    a telling shape   a URL's password, a JWT, a key     in texts (`onward.base.credentials`)

A letter says where its secrets are: ``card``, ``order/card``, ``cards/3``, ``cards/*`` (every item of a list or an object).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from onward.base.credentials import MASK
from onward.job.payload_limits import DEEPEST

__all__ = [
    "MASK",
    "Secret",
    "is_telling",
    "masked",
    "names_secret",
    "parts_of",
    "place",
    "secret_values",
    "secrets_in",
    "within",
]

T_co = TypeVar("T_co", covariant=True)
_Tree = dict[str, Any]  # a part of a place -> the parts below it; "" -> the whole value there is secret

# The end of a name, so that `db_password` and `X-Api-Key` are found too.
_TELLING = ("password", "passwd", "passphrase", "secret", "token", "authorization", "apikey", "privatekey")
_ESCAPES = str.maketrans({"~": "~0", "/": "~1", "*": "~2"})


class Secret(Generic[T_co]):
    """An argument that no record, error text or log shows.  The handler reads it with ``reveal()``.

    >>> card = Secret("4242 4242 4242 4242")
    >>> card
    Secret(***)
    >>> card.reveal()
    '4242 4242 4242 4242'
    """

    __slots__ = ("_value",)

    def __init__(self, value: T_co) -> None:
        self._value = value

    def reveal(self) -> T_co:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Let a pydantic model have a field of this type.  The model dumps it in the clear only if the dump is read back."""
        from pydantic_core import core_schema

        (inner,) = get_args(source) or (Any,)
        schema = handler.generate_schema(inner)
        return core_schema.no_info_wrap_validator_function(
            lambda value, validate: value if isinstance(value, Secret) else Secret(validate(value)),
            schema,
            serialization=core_schema.wrap_serializer_function_ser_schema(_dumped, schema=schema, info_arg=True),
        )


def _dumped(value: Secret[Any], dump: Any, info: Any) -> Any:
    if info.round_trip:
        return dump(value.reveal())
    return value if info.mode == "python" else MASK


def names_secret(hint: Any) -> bool:
    """Return whether an annotation has a `Secret` in it."""
    return hint is Secret or get_origin(hint) is Secret or any(map(names_secret, get_args(hint)))


def is_telling(name: str) -> bool:
    """Return whether a name says that its value is secret.

    >>> is_telling("password"), is_telling("X-Api-Key"), is_telling("db_token"), is_telling("tokens")
    (True, True, True, False)
    """
    return name.replace("_", "").replace("-", "").replace(" ", "").lower().endswith(_TELLING)


def place(parts: Iterable[str | None]) -> str:
    """Return the place of a secret, as a letter writes it.  None stands for every item.

    >>> place(["orders", None, "card/no"])
    'orders/*/card~1no'
    """
    return "/".join("*" if part is None else part.translate(_ESCAPES) for part in parts)


def within(name: str, places: Iterable[str]) -> list[str]:
    """Return the same places, as seen from an object that has the value under ``name``.

    >>> within("order", ["card", ""])
    ['order/card', 'order']
    """
    return [f"{name}/{each}" if each else name for each in places]


def masked(value: Any, secrets: Collection[str] = ()) -> Any:
    """Return data as it may be shown.  ``secrets`` are places in it; values that are nested too deeply are masked.

    >>> masked({"order": {"id": 7, "card": "4242"}, "http": {"Authorization": "Basic x"}}, ["order/card"])
    {'order': {'id': 7, 'card': '***'}, 'http': {'Authorization': '***'}}
    """
    tree = _tree(tuple(secrets)) if secrets else {}
    return MASK if "" in tree and value is not None else _masked(value, [tree], DEEPEST)


def secret_values(value: Any, secrets: Collection[str] = ()) -> Iterator[Any]:
    """Yield all values that `masked` would mask."""
    tree = _tree(tuple(secrets)) if secrets else {}
    return iter([value]) if "" in tree else _hidden(value, [tree])


def secrets_in(value: Any) -> Iterator[Secret[Any]]:
    """Yield every `Secret` in decoded arguments, however deep."""
    waiting, seen = [value], set[int]()
    while waiting:
        each = waiting.pop()
        if isinstance(each, Secret):
            yield each
        elif (parts := parts_of(each)) is not None and id(each) not in seen:  # a default may contain itself
            seen.add(id(each))
            waiting += parts.values() if isinstance(parts, Mapping) else parts


def parts_of(value: Any) -> Mapping[Any, Any] | Sequence[Any] | None:
    """Return the parts of a value, by name or in order; None if it has none."""
    match value:
        case Mapping():
            return value
        case list() | tuple() | AbstractSet():
            return list(value)
        case msgspec.Struct():
            names = type(value).__struct_fields__
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = tuple(field.name for field in dataclasses.fields(value))
        case _ if hasattr(type(value), "model_validate") or hasattr(type(value), "__attrs_attrs__"):
            return dict(getattr(value, "__dict__", {}))
        case _:
            return None
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


@lru_cache(1_024)
def _tree(places: tuple[str, ...]) -> _Tree:
    tree: _Tree = {}
    for each in places:
        branch = tree
        for part in each.split("/") if each else ():
            name = part if part == "*" else part.replace("~2", "*").replace("~1", "/").replace("~0", "~")
            branch = branch.setdefault("*" if part == "*" else f".{name}", {})
        branch[""] = {}
    return tree


def _below(trees: list[_Tree], name: object) -> list[_Tree]:
    return [tree[part] for tree in trees for part in (f".{name}", "*") if part in tree] if any(trees) else []


def _is_secret(name: object, below: list[_Tree]) -> bool:
    return any("" in tree for tree in below) or (isinstance(name, str) and is_telling(name))


def _masked(value: Any, trees: list[_Tree], depth: int) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return MASK
    shown = {
        name: MASK
        if _is_secret(name, below := _below(trees, name)) and each is not None
        else _masked(each, below, depth - 1)
        for name, each in _named(value)
    }
    return shown if isinstance(value, dict) else list(shown.values())


def _hidden(value: Any, trees: list[_Tree]) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for name, each in _named(value):
            below = _below(trees, name)
            if _is_secret(name, below):
                yield each
            else:
                yield from _hidden(each, below)


def _named(value: dict[Any, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    """Return the items of an object or a list, by name or by number."""
    return value.items() if isinstance(value, dict) else enumerate(value)
