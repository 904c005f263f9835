"""Reading the URL of a job, and checking that its host is allowed.

There are many ways to write an address, and two programs that read one differently let a check be circumvented.  So this
module accepts few: a name in ASCII whose last label begins with a letter, four plain decimals, or IPv6 in brackets.  Any
other form that a resolver might understand (``0x7f.1``, ``2130706433``, ``①②⑦.0.0.1``) is an error, and so is user
information.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

from onward.errors import ArgumentError, OptionError
from onward.handlers.address import Address

__all__ = ["Hosts", "Target", "read_url"]

_LONGEST = 8_192
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?(?P<fragment>#.*)?"
)
_SAFE = re.compile(r"[!#-;=?-\[\]_a-z~]+")  # printable ASCII, without what a URL must encode: " < > \ ^ ` { | }
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[1-9][0-9]{0,4}))?")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*(?=[a-z]){_LABEL}")
_LONGEST_NAME = 253
_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """The parts of a URL."""

    scheme: str
    host: str  # a name, or an address without brackets
    port: int
    path: str  # and query
    address: Address | None  # if the host is one

    @property
    def origin(self) -> str:
        """The URL without path and query, for messages: these may hold secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")


def read_url(url: str) -> Target:
    """Return the parts of a URL; an `ArgumentError` says what is wrong with it.

    >>> read_url("https://example.org/a?b").path
    '/a?b'
    """
    if len(url) > _LONGEST:
        raise ArgumentError(f"url: the URL has {len(url):,} characters, and the limit is {_LONGEST:,}")
    if not _SAFE.fullmatch(url):
        raise ArgumentError(
            "url: the URL has a character that must be percent-encoded; write a host that is not ASCII as xn--…"
        )
    parts = _URL.fullmatch(url)
    if parts is None:
        raise ArgumentError("url: write a URL such as https://host/path")
    scheme = parts["scheme"].lower()
    if scheme not in _PORTS:
        raise ArgumentError(f"url: {scheme}: is not http: or https:")
    if parts["fragment"] is not None:
        raise ArgumentError("url: a fragment (#…) is never sent: leave it out")
    host, port = _authority(parts["authority"])
    name, address = _host(host)
    return Target(scheme, name, port or _PORTS[scheme], (parts["path"] or "/") + (parts["query"] or ""), address)


def _authority(text: str) -> tuple[str, int | None]:
    if "@" in text:
        raise ArgumentError("url: user and password do not belong in a URL: send an Authorization header")
    parts = _AUTHORITY.fullmatch(text)
    if parts is None or int(parts["port"] or 0) > 65_535:
        raise ArgumentError("url: after // comes a host, and then nothing or a colon and a port from 1 to 65535")
    return parts["host"], None if parts["port"] is None else int(parts["port"])


def _host(text: str) -> tuple[str, Address | None]:
    """Return a name in lower case, or an address."""
    try:
        if text.startswith("["):
            if "%" in text:
                raise ArgumentError("url: an address with a zone is valid on one link only: leave the zone out")
            return _of(IPv6Address(text[1:-1]))
        if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text):
            return _of(IPv4Address(text))  # which takes no leading zeros
    except AddressValueError as error:
        raise ArgumentError(f"url: {error}") from None
    name = text.lower()
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise ArgumentError(
            f"url: {text!r:.100} is neither a host's name in ASCII, nor four decimals, nor IPv6 in brackets"
        )
    return name, None


def _of(address: Address) -> tuple[str, Address]:
    return str(address), address


class Hosts:
    """The allowed hosts: ``api.example.com``; ``*.example.com``, all below it; ``*``, every name but no address."""

    def __init__(self, patterns: Iterable[str]) -> None:
        if isinstance(patterns, str):
            raise OptionError(f"handler 'url': hosts is a list, such as ['api.example.com'], not {patterns!r:.60}")
        self._exact: set[str] = set()
        self._below: set[str] = set()
        self._every_name = False
        for pattern in patterns:
            self._add(pattern)

    def _add(self, pattern: str) -> None:
        if pattern == "*":
            self._every_name = True
            return
        below = isinstance(pattern, str) and pattern.startswith("*.")
        try:
            name, address = _host(pattern[2:] if below else pattern)
        except (ArgumentError, AttributeError, TypeError):
            name, address = "", None
        if not name or (below and address is not None):
            raise OptionError(
                f"handler 'url': {pattern!r:.100} names no host: write 'api.example.com', '*.example.com', '*', an IPv4 "
                f"address, or an IPv6 address in brackets"
            )
        if below:
            self._below.add(f".{name}")
        else:
            self._exact.add(name)

    def __contains__(self, target: Target) -> bool:
        if target.host in self._exact:
            return True
        if target.address is not None:
            return False
        return self._every_name or any(target.host.endswith(suffix) for suffix in self._below)
