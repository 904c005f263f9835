"""The host of a URL: however it is written, nothing inside is reached."""

import contextlib
import ipaddress
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onward.errors import ArgumentError, OptionError
from onward.handlers.address import Reach
from onward.handlers.target import Hosts, read_url
from onward.handlers.url import Url
from onward.job.registry import NotAllowed
from tests.handlers.servers import http

# Each stands for this machine, its network or a cloud's metadata, or is how a parser might be made to think so.
HOSTS = [
    *Path(__file__).with_name("hosts.txt").read_text("utf-8").split(),
    "",
    " localhost",
    "local host",
    "localhost\t",
    "\tlocalhost",
    "loc\nalhost",
    "localhost\r",
    "[::1 ]",
    "[::1 ::1]",
    "127.0.0.1\u200b",
    "\xad127.0.0.1",
    "localhost\x00",
]


def everything_is_allowed(**options):
    """But the address: what is shown here must hold without the list of hosts."""
    url = Url(hosts=["*"], schemes=["http", "https"], ports=list(range(1, 65536)), timeout=20, **options)
    url._hosts = type("All", (), {"__contains__": lambda self, target: True})()
    return url


def outcome(url, context):
    try:
        return url.run(context)
    except NotAllowed as refusal:
        return str(refusal)


def test_the_list_is_long_enough_and_says_nothing_twice():
    assert len(HOSTS) >= 60
    assert len(set(HOSTS)) == len(HOSTS)


@pytest.mark.promise("S39", "CVE-2020-17513")
def test_no_way_to_write_a_host_reaches_anything_inside(serve, a_context, report):
    servers = [inside := serve(lambda request: http())]
    with contextlib.suppress(OSError):  # not every machine has IPv6, nor this very port free there
        servers.append(serve(lambda request: http(), host="::1", port=inside.port))
    url = everything_is_allowed(resolver=lambda host, port: ["127.0.0.1"])  # whatever name it is

    for host in HOSTS:
        for text in (f"http://{host}:{inside.port}/", f"http://{host}/"):
            assert "not allowed" in outcome(url, a_context({"url": text})), text

    assert [server.connections for server in servers] == [0] * len(servers)
    report(f"url: {len(HOSTS)} ways to write a host that is not public, nothing reached")


def test_with_the_check_off_some_of_them_do(serve, a_context):
    inside = serve(lambda request: http())
    url = everything_is_allowed(resolver=lambda host, port: ["127.0.0.1"], networks=["0.0.0.0/0", "::/0"])

    for host in ("127.0.0.1", "localhost", "LocalTest.Me", "[::ffff:127.0.0.1]"):
        assert outcome(url, a_context({"url": f"http://{host}:{inside.port}/"}))["status"] == 200

    assert inside.connections == 4


def test_what_we_do_not_read_the_system_would():
    """Or refusing it would show nothing."""
    understood = {}
    for host in HOSTS:
        with contextlib.suppress(OSError, ValueError):
            (*_, (address, *_)), *_ = socket.getaddrinfo(host, 80, flags=socket.AI_NUMERICHOST)  # no name is looked up
            understood[host] = address

    assert {understood.get(host) for host in ("0x7f.1", "2130706433", "017700000001", "127.1")} == {"127.0.0.1"}
    assert len(understood) > 40


# Reading


@pytest.mark.parametrize(
    ("url", "host", "port", "path"),
    [
        ("https://example.org", "example.org", 443, "/"),
        ("http://example.org", "example.org", 80, "/"),
        ("HTTPS://EXAMPLE.org:8443/A?b=C", "example.org", 8443, "/A?b=C"),
        ("https://example.org?q=1", "example.org", 443, "/?q=1"),
        ("https://8.8.8.8/", "8.8.8.8", 443, "/"),
        ("https://[2606:4700:0::1111]/", "2606:4700::1111", 443, "/"),
        ("https://xn--bcher-kva.example/%C3%BC", "xn--bcher-kva.example", 443, "/%C3%BC"),
        ("https://a.b/@x:80//../?u=http://c@d/", "a.b", 443, "/@x:80//../?u=http://c@d/"),
    ],
)
def test_a_plain_url_is_read(url, host, port, path):
    target = read_url(url)

    assert (target.host, target.port, target.path) == (host, port, path)


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://example.org/", "is not http: or https:"),
        ("file:///etc/passwd", "is not http: or https:"),
        ("gopher://127.0.0.1:6379/_FLUSHALL", "is not http: or https:"),
        ("example.org", "write a URL such as"),
        ("//example.org/", "write a URL such as"),
        ("http:example.org", "write a URL such as"),
        ("http:///path", "neither a host's name"),
        ("http://", "neither a host's name"),
        ("https://user:secret@example.org/", "Authorization header"),
        ("https://example.org/#top", "fragment"),
        ("https://bücher.example/", "xn--"),
        ("https://example.org/a b", "percent-encoded"),
        ("https://example.org/\r\nX: y", "percent-encoded"),
        ("https://example.org\\@evil.example/", "percent-encoded"),
        ("https://example.org:0/", "a port from 1 to 65535"),
        ("https://example.org:99999/", "a port from 1 to 65535"),
        ("https://" + "a" * 64 + ".example/", "neither a host's name"),
        ("https://" + "a." * 130 + "example/", "neither a host's name"),
        ("https://example.org/" + "a" * 9000, "the limit is 8,192"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_what_to_do(url, complaint):
    with pytest.raises(ArgumentError, match=complaint):
        read_url(url)


TEXT = st.one_of(
    st.text(),
    st.text("htps:/[]@.?#%\\0123456789abcdefx-_:", max_size=40).map(lambda rest: f"http://{rest}"),
    st.sampled_from(HOSTS).map(lambda host: f"https://{host}/"),
)


@pytest.mark.promise("CVE-2023-24329")
@given(TEXT)
@example("http://[::ffff:127.0.0.1%25]:80")
def test_any_text_is_read_or_refused_and_read_as_others_read_it(text):
    try:
        target = read_url(text)
    except ArgumentError:
        return

    other = urlsplit(text)
    assert other.username is other.password is None
    assert other.port in (None, target.port)
    same = target.address == ipaddress.ip_address(other.hostname) if target.address else target.host == other.hostname
    assert same
    assert read_url(target.origin + target.path) == target


@pytest.mark.promise("CVE-2021-29921")
@given(
    st.ip_addresses(v=4),
    st.lists(st.sampled_from(["{:d}", "{:#x}", "0{:o}", "{:03d}", "{:#X}"]), min_size=4, max_size=4),
)
def test_an_address_is_read_as_itself_or_not_at_all(address, forms):
    host = ".".join(form.format(part) for form, part in zip(forms, address.packed, strict=True))

    try:
        target = read_url(f"http://{host}/")
    except ArgumentError:
        return
    assert (target.address, host) == (address, str(address))


# Addresses


@pytest.mark.promise("CVE-2024-4032")
@given(st.ip_addresses(v=4))
@example(ipaddress.ip_address("8.8.8.8"))
def test_an_address_inside_another_is_refused_whatever_it_is(inner):
    bits = int(inner)
    for outer in (
        0xFFFF << 32 | bits,
        bits,
        0x64FF9B << 96 | bits,
        0x2002 << 112 | bits << 80 | 1,
        0x2001 << 112 | bits << 64 | 1,
        0x64FF9B0001 << 80 | bits,
    ):
        assert Reach().refusal(ipaddress.IPv6Address(outer)) is not None


@pytest.mark.promise("CVE-2024-4032")
@given(st.ip_addresses())
def test_what_python_knows_to_be_special_is_refused_too(address):
    special = not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local

    assert not special or Reach().refusal(address) is not None


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "100.128.0.1", "172.32.0.1", "193.0.0.1", "2606:4700::1111"])
def test_public_addresses_are_not_refused(address):
    assert Reach().refusal(ipaddress.ip_address(address)) is None


def test_networks_can_be_allowed_and_denied():
    reach = Reach(allow=["10.1.0.0/16", "::1/128"], deny=["10.1.2.0/24", "8.8.8.0/24"])

    assert [reach.refusal(ipaddress.ip_address(text)) for text in ("10.1.0.1", "::1")] == [None, None]
    assert reach.refusal(ipaddress.ip_address("10.1.2.3")) == "denied"
    assert reach.refusal(ipaddress.ip_address("8.8.8.8")) == "denied"
    assert reach.refusal(ipaddress.ip_address("10.2.0.1")) == "private"
    assert reach.refusal(ipaddress.ip_address("::ffff:10.1.0.1")) is not None


@pytest.mark.parametrize("networks", ["10.0.0.0/8", ["10.0.0.1/8"], ["ten"], [None]])
def test_networks_that_are_none_are_refused(networks):
    with pytest.raises(OptionError, match="networks"):
        Reach(allow=networks)


# The list of hosts


@pytest.mark.parametrize(
    ("patterns", "host", "allowed"),
    [
        (["example.org"], "example.org", True),
        (["Example.ORG"], "EXAMPLE.org", True),
        (["example.org"], "www.example.org", False),
        (["example.org"], "example.org.evil.example", False),
        (["*.example.org"], "a.b.example.org", True),
        (["*.example.org"], "example.org", False),
        (["*.example.org"], "evil-example.org", False),
        (["*.example.org"], "example.org.evil.example", False),
        ([], "example.org", False),
        (["*"], "anything.example", True),
        (["*"], "8.8.8.8", False),
        (["*"], "[2606:4700::1111]", False),
        (["8.8.8.8"], "8.8.8.8", True),
        (["[2606:4700:0:0::1111]"], "[2606:4700::1111]", True),
    ],
)
def test_a_host_is_allowed_as_it_is_listed(patterns, host, allowed):
    assert (read_url(f"https://{host}/") in Hosts(patterns)) is allowed


@pytest.mark.parametrize(
    "patterns", ["example.org", ["*example.org"], ["https://example.org"], ["a b"], ["*.8.8.8.8"], [""], [None], ["**"]]
)
def test_a_pattern_that_names_no_host_is_refused(patterns):
    with pytest.raises(OptionError, match="handler 'url'"):
        Hosts(patterns)
