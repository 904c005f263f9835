"""Reading ``postgresql://user@host/database?option=value``."""

from __future__ import annotations

from typing import Literal, NamedTuple
from urllib.parse import unquote

from onward.backends.options import Durability, durability, number
from onward.errors import BackendMisconfigured

__all__ = ["Durability", "Options", "Pooler", "parse_url"]

Pooler = Literal["none", "transaction"]

_OURS = ("durability", "pool_size", "pooler")


class Options(NamedTuple):
    """Onward's options after the question mark; all others are the driver's."""

    durability: Durability = "full"
    pooler: Pooler = "none"
    pool_size: int = 4


def parse_url(url: str) -> tuple[str, Options]:
    """Return the URL as the driver takes it, and Onward's options.

    >>> parse_url("postgresql://db/shop?sslmode=require&pooler=transaction")
    ('postgresql://db/shop?sslmode=require', Options(durability='full', pooler='transaction', pool_size=4))
    """
    address, _, query = url.partition("?")
    # The driver's options are left as they are written: it has its own rules, in which a plus is a plus.
    given = [(unquote(part.partition("=")[0]), part) for part in query.split("&") if part]
    ours = {name: unquote(part.partition("=")[2]) for name, part in given if name in _OURS}
    rest = "&".join(part for name, part in given if name not in _OURS)
    options = Options()
    if "durability" in ours:
        options = options._replace(durability=durability(ours["durability"]))
    if "pooler" in ours:
        options = options._replace(pooler=_pooler(ours["pooler"]))
    if "pool_size" in ours:
        options = options._replace(pool_size=number("pool_size", ours["pool_size"], 1, 1000))
    if (options.pooler, options.durability) == ("transaction", "relaxed"):
        raise BackendMisconfigured(
            "durability=relaxed is a setting of a session, and a pooler shares sessions: leave durability or pooler out"
        )
    return f"{address}?{rest}" if rest else address, options


def _pooler(value: str) -> Pooler:
    if value == "none":
        return "none"
    if value == "transaction":
        return "transaction"
    raise BackendMisconfigured(f"pooler is {value!r}: use 'transaction', or nothing if there is none")
