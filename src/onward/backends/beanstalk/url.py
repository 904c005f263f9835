"""Reading ``beanstalk://host:port?option=value``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from onward.backends.options import flag, number
from onward.base.names import suggestion
from onward.errors import BackendMisconfigured

__all__ = ["Address", "parse_url"]

_PORT = 11300


class Address(NamedTuple):
    """The address of the server, and Onward's options after the question mark."""

    host: str
    port: int
    ttr: int = 120  # seconds for which a worker has a job, unless it touches it; a job with a longer time-out gets more
    timeout: float = 10.0  # seconds to wait for an answer
    allow_lossy: bool = False  # whether a server that keeps nothing on a disk is accepted

    @property
    def place(self) -> str:
        return f"beanstalk://{self.host}:{self.port}"


def parse_url(url: str) -> Address:
    """Read a URL.

    >>> parse_url("beanstalk://queue.example?ttr=300")
    Address(host='queue.example', port=11300, ttr=300, timeout=10.0, allow_lossy=False)
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "127.0.0.1", parts.port or _PORT
    except ValueError:
        raise BackendMisconfigured("this URL cannot be read: write beanstalk://host:port") from None
    if parts.username is not None or parts.path.strip("/"):
        raise BackendMisconfigured("beanstalkd knows no users and no databases: write beanstalk://host:port")
    address = Address(host, port)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _READ:
            raise BackendMisconfigured(f"beanstalk:// has no option {name!r}{suggestion(name, _READ)}")
        address = address._replace(**{name: _READ[name](name, value)})
    return address


def _ttr(name: str, value: str) -> int:
    # Under three seconds the server answers DEADLINE_SOON instead of jobs, and no renewal would be in time.
    return number(name, value, 10, 86_400)


def _timeout(name: str, value: str) -> float:
    return float(number(name, value, 1, 600))


_READ: dict[str, Callable[[str, str], Any]] = {"ttr": _ttr, "timeout": _timeout, "allow_lossy": flag}
