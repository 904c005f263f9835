"""A name server that changes its mind between the check and the connection, and servers that send on to others."""

import pytest

from onward.handlers import url as url_module
from onward.handlers.exchange import connect
from onward.handlers.url import Url
from onward.job.registry import NotAllowed
from onward.job.signals import Discard
from tests.handlers.servers import http

OUTSIDE, INSIDE = "127.0.0.2", "127.0.0.1"  # of which the first is allowed, as if it were public
NAME = "shop.example"


@pytest.fixture
def both(serve):
    """A server outside and one inside, on the same port."""
    while True:
        outside = serve(lambda request: http(200, b"outside"), host=OUTSIDE)
        try:
            return outside, serve(lambda request: http(200, b"inside"), host=INSIDE, port=outside.port)
        except OSError:  # another program has that port
            continue


@pytest.fixture
def ask(a_context):
    def ask(names, port, **options):
        settings = {"hosts": [NAME], "schemes": ["http"], "ports": [port], "networks": [f"{OUTSIDE}/32"], **options}
        url = Url(resolver=names.resolve, **settings)
        return url.run(a_context({"url": f"http://{NAME}:{port}/"}, timeout=60))

    return ask


@pytest.mark.promise("S39", "CVE-2020-17513")
def test_the_name_is_asked_for_once_and_what_it_says_next_changes_nothing(both, name_server, ask):
    outside, inside = both
    names = name_server({NAME: [[OUTSIDE], [INSIDE]]})

    assert ask(names, outside.port)["body"] == "outside"

    assert (outside.connections, inside.connections) == (1, 0)
    assert names.asked == [(NAME, 1), (NAME, 28)]


def test_a_handler_that_asks_again_is_led_inside(both, name_server, ask, monkeypatch):
    """The same attack on a handler that connects to the name: so the test above can fail."""
    outside, inside = both
    names = name_server({NAME: [[OUTSIDE], [INSIDE]]})

    def connect_to_the_name(addresses, port, patience):
        return connect([type(addresses[0])(text) for text in names.resolve(NAME, port)], port, patience)

    monkeypatch.setattr(url_module, "connect", connect_to_the_name)

    assert ask(names, outside.port)["body"] == "inside"
    assert (outside.connections, inside.connections) == (0, 1)


@pytest.mark.promise("S39")
@pytest.mark.parametrize(
    "answer", [[INSIDE], [OUTSIDE, INSIDE], [INSIDE, OUTSIDE], [OUTSIDE, "::1"], [OUTSIDE, "::ffff:127.0.0.1"]]
)
def test_one_address_inside_among_the_answers_refuses_all(both, name_server, ask, answer):
    outside, inside = both

    with pytest.raises(NotAllowed, match=r"its address .* is"):
        ask(name_server({NAME: [answer]}), outside.port)

    assert (outside.connections, inside.connections) == (0, 0)


def test_with_the_check_off_it_is_reached(both, name_server, ask):
    outside, inside = both

    assert ask(name_server({NAME: [[INSIDE]]}), outside.port, networks=["127.0.0.0/8"])["body"] == "inside"
    assert inside.connections == 1


def test_a_name_without_an_address_is_a_plain_failure(both, name_server, ask):
    with pytest.raises(OSError, match="has no address"):
        ask(name_server({}), both[0].port)


def test_if_one_address_does_not_answer_the_next_is_asked(serve, name_server, ask):
    server = serve(lambda request: http(200, b"second"), host=OUTSIDE)
    names = name_server({NAME: [["127.0.0.3", OUTSIDE]]})

    assert ask(names, server.port, networks=["127.0.0.2/31"])["body"] == "second"


@pytest.mark.promise("S39", "CVE-2026-21441")
@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308])
def test_a_redirect_is_not_followed(serve, name_server, ask, status):
    inside = serve(lambda request: http(200, b"secret"), host=INSIDE)
    place = f"http://{INSIDE}:{inside.port}/"
    outside = serve(lambda request: http(status, b"", Location=place, Refresh=f"0; url={place}"), host=OUTSIDE)
    names = name_server({NAME: [[OUTSIDE]]})

    with pytest.raises(Discard, match=f"answered {status}, a redirect to {place}"):
        ask(names, outside.port)

    assert (outside.connections, inside.connections) == (1, 0)


def test_a_chain_of_redirects_ends_at_its_first_link(serve, name_server, ask):
    last = serve(lambda request: http(200, b"secret"), host=INSIDE)
    second = serve(lambda request: http(302, b"", Location=f"http://{INSIDE}:{last.port}/"), host=OUTSIDE)
    first = serve(lambda request: http(302, b"", Location=f"http://{NAME}:{second.port}/"), host=OUTSIDE)

    with pytest.raises(Discard, match="redirects are not followed"):
        ask(name_server({NAME: [[OUTSIDE]]}), first.port)

    assert (first.connections, second.connections, last.connections) == (1, 0, 0)


def test_no_proxy_is_taken_from_the_environment(both, serve, name_server, ask, monkeypatch):
    proxy = serve(lambda request: http(200, b"proxied"))
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    monkeypatch.delenv("no_proxy", raising=False)

    assert ask(name_server({NAME: [[OUTSIDE]]}), both[0].port)["body"] == "outside"
    assert proxy.connections == 0
