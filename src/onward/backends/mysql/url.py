"""Reading ``mysql://user:password@host/database?option=value``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from onward.backends.options import flag, number
from onward.base.names import suggestion
from onward.errors import BackendMisconfigured

__all__ = ["Address", "Options", "Writers", "parse_url"]

Writers = Literal["one", "many"]

_SSL = ("ssl_ca", "ssl_cert", "ssl_key")


class Options(NamedTuple):
    """Onward's options after the question mark."""

    pool_size: int = 4
    lock_timeout: int = 30  # seconds
    writers: Writers = "many"  # of a Galera cluster: only "one" is safe, and only its user knows


class Address(NamedTuple):
    """The address of the database and the login, as the driver takes them."""

    place: str  # without the password
    arguments: dict[str, Any]


def parse_url(url: str) -> tuple[Address, Options]:
    """Read a URL.

    >>> address, options = parse_url("mysql://ann:secret@db:3307/shop?pool_size=2")
    >>> address.place, address.arguments["password"], options.pool_size
    ('mysql://db:3307/shop', 'secret', 2)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port or 3306
    except ValueError:
        raise BackendMisconfigured(
            "this MySQL URL cannot be read: write mysql://user:password@host:port/database"
        ) from None
    database = unquote(parts.path.lstrip("/"))
    if not database or "/" in database:
        raise BackendMisconfigured("name one database in the URL: mysql://user@host/database")
    arguments: dict[str, Any] = {
        "host": host,
        "port": port,
        "database": database,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
    }
    options = Options()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _READ:
            raise BackendMisconfigured(f"mysql:// has no option {name!r}{suggestion(name, _READ)}")
        read = _READ[name](name, value)
        if name in Options._fields:
            options = options._replace(**{name: read})
        else:
            arguments[name] = read
    where = arguments.get("unix_socket") or (host if port == 3306 else f"{host}:{port}")
    return Address(f"mysql://{where}/{database}", arguments), options


def _text(_name: str, value: str) -> str:
    return value


def _count(name: str, value: str) -> int:
    return number(name, value, 1, 1000)


def _writers(name: str, value: str) -> Writers:
    if value != "one":
        raise BackendMisconfigured(f"{name} is {value!r}: use 'one', if every process writes to the same node")
    return "one"


_READ: dict[str, Callable[[str, str], Any]] = {
    "pool_size": _count,
    "lock_timeout": _count,
    "writers": _writers,
    "unix_socket": _text,
    "connect_timeout": _count,
    "read_timeout": _count,
    "ssl_verify_cert": flag,
    "ssl_verify_identity": flag,
    **dict.fromkeys(_SSL, _text),
}
