"""Reading ``redis://user:password@host:6379/0?option=value`` and its relatives.

    redis://host:6379/0                          one server; valkey:// is the same
    rediss://host:6380/0                         with TLS; valkeys:// is the same
    redis+unix:///run/redis.sock?db=0            a socket of this machine
    redis+sentinel://a:26379,b:26379/mymaster/0  the server that the sentinels call the master
    redis+cluster://a:7000,b:7001                the node that owns the namespace's slot

``rediss+sentinel://`` and ``rediss+cluster://`` are the last two with TLS.
"""

from __future__ import annotations

from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

from onward.backends.options import flag, number
from onward.base.names import suggestion
from onward.errors import BackendMisconfigured

__all__ = ["SCHEMES", "Address", "Kind", "Options", "parse_url"]

Kind = Literal["server", "unix", "sentinel", "cluster"]

_KINDS: dict[str, tuple[Kind, bool]] = {
    "redis": ("server", False),
    "rediss": ("server", True),
    "redis+unix": ("unix", False),
    "redis+sentinel": ("sentinel", False),
    "rediss+sentinel": ("sentinel", True),
    "redis+cluster": ("cluster", False),
    "rediss+cluster": ("cluster", True),
}
SCHEMES = {**_KINDS, **{scheme.replace("redis", "valkey"): kind for scheme, kind in _KINDS.items()}}

# The certificate of another host proves nothing, and drivers before 6.0 do not compare the name.
_CHECKED = {"ssl_check_hostname": True}
_TLS = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
_OURS = ("allow_lossy", "db", "pool_size", "sentinel_password", "sentinel_username", "timeout", *_TLS)
_PORTS: dict[Kind, int] = {"server": 6379, "unix": 0, "sentinel": 26379, "cluster": 6379}


class Address(NamedTuple):
    """The address of the server, or of the sentinels and nodes that know it."""

    kind: Kind
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""  # of a socket
    master: str = ""  # its name among the sentinels
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: bool = False

    @property
    def place(self) -> str:
        """The address without its password, for messages."""
        scheme = "rediss" if self.tls else "redis"
        if self.kind == "unix":
            return f"{scheme}+unix://{self.path}"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        if self.kind == "server":
            return f"{scheme}://{hosts}/{self.db}"
        return f"{scheme}+{self.kind}://{hosts}" + (f"/{self.master}/{self.db}" if self.kind == "sentinel" else "")


class Options(NamedTuple):
    """Onward's options after the question mark."""

    allow_lossy: bool = False
    pool_size: int = 4
    timeout: float = 20.0
    sentinel_username: str | None = None
    sentinel_password: str | None = None
    tls: tuple[tuple[str, str | bool], ...] = ()


def parse_url(url: str) -> tuple[Address, Options]:
    """Read a URL.

    >>> address, options = parse_url("redis://:secret@cache/1?allow_lossy=true")
    >>> address.hosts, address.db, address.place, options.allow_lossy
    ((('cache', 6379),), 1, 'redis://cache:6379/1', True)
    >>> parse_url("redis+sentinel://a,b:1234/mymaster")[0].place
    'redis+sentinel://a:26379,b:1234/mymaster/0'
    """
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise BackendMisconfigured(f"{scheme[:30]!r} is no scheme of Redis{suggestion(scheme[:30], SCHEMES)}")
    kind, tls = SCHEMES[scheme]
    rest, _, query = rest.partition("?")
    given = _given(query)
    netloc, slash, path = rest.partition("/")
    login, _, hosts = netloc.rpartition("@")
    username, _, password = login.partition(":")
    address = Address(
        kind=kind, tls=tls, username=unquote(username) or None, password=unquote(password) or None, db=_db(given)
    )
    if kind == "unix":
        if hosts or not path:
            raise BackendMisconfigured(f"{scheme}:// names no socket: write {scheme}:///run/redis.sock")
        return address._replace(path=unquote(slash + path)), _options(given)
    address = address._replace(hosts=tuple(_host(each, _PORTS[kind]) for each in hosts.split(",")))
    if kind == "sentinel":
        master, _, path = path.partition("/")
        if not master:
            raise BackendMisconfigured(f"{address.place} names no master: write {scheme}://host:26379/mymaster")
        address = address._replace(master=unquote(master))
    if path:
        address = address._replace(db=number("the database", path, 0, 10_000))
    if kind == "cluster" and address.db:
        raise BackendMisconfigured(f"{address.place}: a cluster has no database but 0: leave the number out")
    return address, _options(given)


def _given(query: str) -> dict[str, str]:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in _OURS:
            raise BackendMisconfigured(f"there is no option {name[:40]!r} for redis://{suggestion(name[:40], _OURS)}")
    return given


def _options(given: dict[str, str]) -> Options:
    options = Options(
        sentinel_username=given.get("sentinel_username"),
        sentinel_password=given.get("sentinel_password"),
        tls=tuple((_CHECKED | _tls(given)).items()),
    )
    if "allow_lossy" in given:
        options = options._replace(allow_lossy=flag("allow_lossy", given["allow_lossy"]))
    if "pool_size" in given:
        options = options._replace(pool_size=number("pool_size", given["pool_size"], 1, 1000))
    if "timeout" in given:
        options = options._replace(timeout=float(number("timeout", given["timeout"], 1, 3600)))
    return options


def _tls(given: dict[str, str]) -> dict[str, str | bool]:
    chosen: dict[str, str | bool] = {name: given[name] for name in _TLS if name in given}
    if "ssl_check_hostname" in given:
        chosen["ssl_check_hostname"] = flag("ssl_check_hostname", given["ssl_check_hostname"])
    elif given.get("ssl_cert_reqs") == "none":  # where any certificate is trusted there is no name to compare
        chosen["ssl_check_hostname"] = False
    return chosen


def _db(given: dict[str, str]) -> int:
    return number("db", given["db"], 0, 10_000) if "db" in given else 0


def _host(text: str, port: int) -> tuple[str, int]:
    host, colon, given = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, given = text, ""
    if host.startswith("[") and not host.endswith("]"):
        raise BackendMisconfigured("an address in brackets is not closed: write redis://[::1]:6379/0")
    if ":" in host and not host.startswith("["):
        raise BackendMisconfigured("write an IPv6 address in brackets: redis://[::1]:6379/0")
    return unquote(host).strip("[]") or "localhost", number("a port", given, 1, 65535) if given else port
