"""Which addresses belong to the public Internet.

The table is Onward's own.  Python's `is_global` differs from version to version, and never excludes NAT64; an address with
another one inside (mapped, NAT64, 6to4, Teredo) would circumvent every other line.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from onward.errors import OptionError

__all__ = ["Address", "Reach"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_INSIDE: tuple[tuple[Network, str], ...] = tuple(
    (ip_network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier's customers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "metadata of a cloud"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "this host"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4 address written as IPv6"),
        ("::ffff:0:0:0/96", "an IPv4 address written as IPv6"),
        ("::/96", "an IPv4 address written as IPv6"),
        ("64:ff9b::/96", "an IPv4 address behind NAT64"),
        ("64:ff9b:1::/48", "an IPv4 address behind NAT64"),
        ("100::/64", "discarded by routers"),
        ("2001::/32", "an IPv4 address behind Teredo"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "an IPv4 address behind 6to4"),
        ("3ffe::/16", "returned"),
        ("3fff::/20", "for documentation"),
        ("5f00::/16", "for segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    )
)
_UNICAST = IPv6Network("2000::/3")  # all addresses that were ever assigned


class Reach:
    """The addresses that may be connected to: public and allowed ones, without denied ones."""

    def __init__(self, *, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        self._allowed = _networks(allow, "networks")
        self._denied = _networks(deny, "denied_networks")

    def refusal(self, address: Address) -> str | None:
        """Return why an address may not be connected to; None if it may."""
        if any(address in network for network in self._denied):
            return "denied"
        if any(address in network for network in self._allowed):
            return None
        for network, what in _INSIDE:
            if address in network:
                return what
        if isinstance(address, IPv6Address) and address not in _UNICAST:
            return "not assigned to a network"
        return None


def _networks(texts: Iterable[str], what: str) -> list[Network]:
    if isinstance(texts, str):
        raise OptionError(f"handler 'url': {what} is a list, such as ['10.1.0.0/16'], not {texts!r:.60}")
    try:
        return [ip_network(text) for text in texts]
    except ValueError as error:
        raise OptionError(f"handler 'url': {what}: {error}") from None
