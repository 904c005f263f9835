"""Reading ``servicebus://``: a namespace with a key, without one, or a whole connection string."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from onward.errors import BackendMisconfigured
from onward.names import suggestion

__all__ = ["Address", "parse_url"]

_SCHEME = "servicebus://"
_FORMS = "write servicebus://NAMESPACE.servicebus.windows.net, servicebus://KEYNAME:KEY@NAMESPACE… or servicebus://Endpoint=…"


class Address(NamedTuple):
    """Where the namespace is, and what is ours of the things that may follow the question mark."""

    host: str
    connection_string: str | None = None  # None: a credential says who we are
    ca: str | None = None  # a file of certificates to trust; None: those that everybody trusts
    timeout: float = 30.0  # seconds to wait for an answer
    patience: float = 0.5  # seconds that a claim waits for a message that it has seen
    unchecked: bool = False  # the key may not read a queue's properties, and somebody has looked at them

    @property
    def place(self) -> str:
        return _SCHEME + self.host

    @property
    def namespace(self) -> str:
        """Its name in the commands of `az`.

        >>> Address("shop.servicebus.windows.net").namespace
        'shop'
        """
        return self.host.partition(".")[0]


def parse_url(url: str) -> Address:
    """
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
    host = urlsplit(parts["endpoint"]).netloc
    if not host:
        raise BackendMisconfigured(f"the connection string names no Endpoint=sb://…: {_FORMS}")
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


def _seconds(least: float, most: float) -> Callable[[str, str], float]:
    def read(name: str, value: str) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1
        if not least <= seconds <= most:
            raise BackendMisconfigured(f"{name} is {value!r}: use seconds from {least:g} to {most:g}")
        return seconds

    return read


def _flag(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise BackendMisconfigured(f"{name} is {value!r}: use 'true' or 'false'")
    return value == "true"


def _text(name: str, value: str) -> str:
    if not value:
        raise BackendMisconfigured(f"{name} is empty: name a file")
    return value


_READ: dict[str, Callable[[str, str], Any]] = {
    "ca": _text,
    "timeout": _seconds(1, 600),
    "patience": _seconds(0.01, 30),
    "unchecked": _flag,
}
