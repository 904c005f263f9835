"""Reading ``servicebus://``: a namespace with a key, without one, or a whole connection string."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from onward.backends.options import flag, number
from onward.base.names import suggestion
from onward.errors import BackendMisconfigured

__all__ = ["Address", "parse_url"]

_SCHEME = "servicebus://"
_FORMS = "write servicebus://NAMESPACE.servicebus.windows.net, servicebus://KEYNAME:KEY@NAMESPACE… or servicebus://Endpoint=…"


class Address(NamedTuple):
    """The address of the namespace, and Onward's options after the question mark."""

    host: str
    connection_string: str | None = None  # None: a credential logs in
    ca: str | None = None  # a file of certificates to trust; None: those that the system trusts
    timeout: float = 30.0  # seconds to wait for an answer
    patience_ms: int = 500  # that a claim waits for a message that it has seen
    unchecked: bool = False  # the key may not read a queue's properties, and a person has checked them

    @property
    def place(self) -> str:
        return _SCHEME + self.host

    @property
    def patience(self) -> float:
        """The patience in seconds."""
        return self.patience_ms / 1000

    @property
    def namespace(self) -> str:
        """The name of the namespace in commands of `az`.

        >>> Address("shop.servicebus.windows.net").namespace
        'shop'
        """
        return self.host.partition(".")[0]


def parse_url(url: str) -> Address:
    """Read a URL.

    >>> parse_url("servicebus://shop.servicebus.windows.net?timeout=10").timeout
    10.0
    >>> parse_url("servicebus://worker:a%2Bb%3D@shop.servicebus.windows.net").connection_string
    'Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=worker;SharedAccessKey=a+b='
    """
    rest, _, query = url.removeprefix(_SCHEME).partition("?")
    address = _of_connection_string(rest) if rest.lower().startswith("endpoint=") else _of_namespace(rest)
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _READ:
            raise BackendMisconfigured(f"servicebus:// has no option {name!r}{suggestion(name, _READ)}")
        address = address._replace(**{name: _READ[name](name, value)})
    return address


def _of_connection_string(text: str) -> Address:
    parts = dict(_pair(part) for part in text.split(";") if part.strip())
    if "entitypath" in parts:
        raise BackendMisconfigured(
            "this connection string is of one queue only (EntityPath): use one of the whole namespace"
        )
    host = ""
    with suppress(ValueError):
        host = urlsplit(parts["endpoint"]).netloc
    if not host:
        raise BackendMisconfigured(f"the connection string names no Endpoint=sb://…: {_FORMS}")
    if not ({"sharedaccesskeyname", "sharedaccesskey"} <= parts.keys() or "sharedaccesssignature" in parts):
        raise BackendMisconfigured(f"the connection string has no SharedAccessKeyName and SharedAccessKey: {_FORMS}")
    return Address(host, text)


def _pair(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name.strip().lower(), value.strip()


def _of_namespace(text: str) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        host = parts.hostname
        port = parts.port
    except ValueError:
        raise BackendMisconfigured(f"this URL cannot be read: {_FORMS}") from None
    if not host or parts.path.strip("/"):
        raise BackendMisconfigured(f"a namespace is needed, and no queue: {_FORMS}")
    if port is not None:
        host = f"{host}:{port}"
    if parts.username is None:
        return Address(host)
    if not parts.password:
        raise BackendMisconfigured(f"there is a name of a key, but no key: {_FORMS}")
    name, key = unquote(parts.username), unquote(parts.password)
    return Address(host, f"Endpoint=sb://{host}/;SharedAccessKeyName={name};SharedAccessKey={key}")


def _seconds(name: str, value: str) -> float:
    return float(number(name, value, 1, 600))


def _text(name: str, value: str) -> str:
    if not value:
        raise BackendMisconfigured(f"{name} is empty: name a file")
    return value


_READ: dict[str, Callable[[str, str], Any]] = {
    "ca": _text,
    "timeout": _seconds,
    "patience_ms": lambda name, value: number(name, value, 10, 30_000),
    "unchecked": flag,
}
