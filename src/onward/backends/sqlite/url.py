"""Reading ``sqlite:///file?option=value``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NotRequired, TypedDict
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from onward.backends.options import Durability, durability
from onward.errors import BackendMisconfigured

__all__ = ["Options", "anchored", "parse_url"]


class Options(TypedDict):
    """Onward's options after the question mark."""

    durability: NotRequired[Durability]
    busy_timeout: NotRequired[float]


def parse_url(url: str) -> tuple[str, Options]:
    """Return the path, relative or absolute, and the options.

    >>> parse_url("sqlite:///jobs.db"), parse_url("sqlite:////srv/jobs.db?busy_timeout=10")
    (('jobs.db', {}), ('/srv/jobs.db', {'busy_timeout': 10.0}))
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket that is not closed
        parts = urlsplit("")
    path = unquote(parts.path[1:])
    if parts.scheme != "sqlite" or parts.netloc or not path:
        raise BackendMisconfigured(f"{url!r} names no file: write sqlite:///relative.db or sqlite:////absolute/path.db")
    if path.startswith("file:"):
        raise BackendMisconfigured(
            f"{url!r} would make a file of the name {path!r}: write the path itself, sqlite:///jobs.db; for jobs in memory "
            f"the url is memory://"
        )
    options = Options()
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name == "durability":
            options["durability"] = durability(value)
        elif name == "busy_timeout":
            options["busy_timeout"] = _seconds(name, value)
        else:
            known = ", ".join(sorted(Options.__annotations__))
            raise BackendMisconfigured(f"{url!r}: there is no option {name!r}; the options are {known}")
    return path, options


def anchored(url: str, path: Path) -> str:
    """Return the URL with the absolute path of its file.

    >>> anchored("sqlite:///jobs.db?busy_timeout=10", Path("/srv/my jobs.db"))
    'sqlite:////srv/my%20jobs.db?busy_timeout=10'
    """
    query = urlsplit(url).query
    return f"sqlite:///{quote(str(path))}" + (f"?{query}" if query else "")


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < math.inf:
        raise BackendMisconfigured(f"{name} is {value!r}: use a number of seconds")
    return seconds
