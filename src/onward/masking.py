"""What must not be shown: arguments that are secret by their type or by their name, and what looks like a credential.

A job's arguments lie in the store as they were given; whoever may read the store reads them.  But people look at jobs
through records, error texts and logs, and these are copied, mailed and kept.  There a mask stands in their place.

    class             by                                 where
    `Secret[str]`     the parameter's annotation         in every record and error text
    a telling name    password, token, secret, …         the same, at any depth
    a telling shape   a URL's password, a JWT, a key     in error texts
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from onward.failure import Failure
from onward.shape import DEEPEST

__all__ = ["MASK", "Secret", "is_telling", "masked", "names_secret", "scrubbed", "scrubbed_text", "without_credentials"]

MASK = "***"
T_co = TypeVar("T_co", covariant=True)

# The end of a name, so that `db_password` and `X-Api-Key` are found too.
_TELLING = ("password", "passwd", "passphrase", "secret", "token", "authorization", "apikey", "privatekey")
# A name that ends so in JSON; or a letter that may be written in another way.
_MAY_TELL = re.compile(f'(?:{"|".join(_TELLING)})"|\\\\'.encode())
_SHORTEST = 4  # characters: a shorter secret would mask half of a text and protect nothing
# What a text must have in it before it is worth a search, which costs fifty times as much.
_SIGNS = (
    "://",
    "SharedAccessKey=",
    "password=",
    "eyJ",
    "earer ",
    "asic ",
    "AKIA",
    "ASIA",
    "_live_",
    "_test_",
    "ghp_",
    "gho_",
    "ghs_",
    "PRIVATE KEY",
)
_SHAPES = re.compile(
    r"(?P<before>\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)"
    r"|(?P<named>SharedAccessKey=|password=)[^\s;&'\"]+"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|\b(?P<scheme>[Bb]earer|[Bb]asic)\s+[\w.~+/=-]{8,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\b(?:sk|rk|pk)_(?:live|test)_\w{8,}"
    r"|\bgh[pos]_\w{20,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)


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


def names_secret(hint: Any) -> bool:
    """Whether an annotation has a `Secret` in it."""
    return hint is Secret or get_origin(hint) is Secret or any(map(names_secret, get_args(hint)))


def is_telling(name: str) -> bool:
    """
    >>> is_telling("password"), is_telling("X-Api-Key"), is_telling("db_token"), is_telling("tokens")
    (True, True, True, False)
    """
    return name.replace("_", "").replace("-", "").replace(" ", "").lower().endswith(_TELLING)


def masked(value: Any, secrets: Collection[str] = (), *, depth: int = DEEPEST) -> Any:
    """Data as it may be shown.  ``secrets`` are names at its top; what lies too deep to be looked at is not shown.

    >>> masked({"user": 7, "card": "4242", "http": {"Authorization": "Basic x"}}, {"card"})
    {'user': 7, 'card': '***', 'http': {'Authorization': '***'}}
    """
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return MASK
    if isinstance(value, list):
        return [masked(each, depth=depth - 1) for each in value]
    return {
        name: MASK if _is_secret(name, secrets) and each is not None else masked(each, depth=depth - 1)
        for name, each in value.items()
    }


def scrubbed(failure: Failure, payload: bytes | msgspec.Raw, secrets: Collection[str] = ()) -> Failure:
    """A failure without what its job's arguments keep secret, and without what looks like a credential."""
    texts = _secret_texts(payload, secrets)
    if not texts and not _shows_signs(f"{failure.message}\n{failure.traceback}"):
        return failure
    return Failure(failure.kind, _scrub(failure.message, texts), _scrub(failure.traceback, texts))


def scrubbed_text(text: str, payload: bytes | msgspec.Raw, secrets: Collection[str] = ()) -> str:
    """The same of a text that a handler gave."""
    return _scrub(text, _secret_texts(payload, secrets))


def without_credentials(text: str) -> str:
    """A text, such as a URL, that may be shown.

    >>> (
    ...     without_credentials("postgresql://ann:hunter2@db/shop"),
    ...     without_credentials("redis+sentinel://a/m?sentinel_password=x"),
    ... )
    ('postgresql://ann:***@db/shop', 'redis+sentinel://a/m?sentinel_password=***')
    """
    return _scrub(text, ())


def _secret_texts(payload: bytes | msgspec.Raw, secrets: Collection[str]) -> list[str]:
    """The secret values among arguments, as they could appear in a text; the longest first."""
    if not secrets and not _may_tell(bytes(payload)):
        return []
    try:
        arguments = msgspec.json.decode(payload)
        found = {text for text in _texts(_secret_values(arguments, secrets)) if len(text) >= _SHORTEST}
    except (ValueError, RecursionError):
        return []  # nobody could call a handler with them either
    return sorted(found, key=len, reverse=True)


def _may_tell(payload: bytes) -> bool:
    """Whether a name in it could be telling: a look at the bytes, which takes a fifth of the time of one at the names."""
    return not payload.isascii() or _MAY_TELL.search(payload.translate(None, b"_- ").lower()) is not None


def _is_secret(name: object, secrets: Collection[str]) -> bool:
    return name in secrets or (isinstance(name, str) and is_telling(name))


def _secret_values(value: Any, secrets: Collection[str]) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, each in value.items():
            if _is_secret(name, secrets):
                yield each
            else:
                yield from _secret_values(each, ())
    elif isinstance(value, list):
        for each in value:
            yield from _secret_values(each, ())


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
            yield repr(value)[1:-1]  # as an error quotes it
        elif isinstance(value, dict):
            yield from _texts(value.values())
        elif isinstance(value, list):
            yield from _texts(value)
        elif value is not None and not isinstance(value, bool):
            yield str(value)


def _scrub(text: str, texts: Iterable[str]) -> str:
    for secret in texts:
        text = text.replace(secret, MASK)
    return _SHAPES.sub(_without, text) if _shows_signs(text) else text


def _shows_signs(text: str) -> bool:
    return any([sign in text for sign in _SIGNS])  # noqa: C419  a generator would cost half as much again


def _without(found: re.Match[str]) -> str:
    if before := found["before"] or found["named"]:
        return before + MASK
    return f"{found['scheme']} {MASK}" if found["scheme"] else MASK
