"""Requests as jobs: what is sent, what comes of the answer, and how long and how large it may be."""

import gzip
import http.client
import itertools
import ssl
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from onward.errors import ArgumentError, OptionError
from onward.handlers import build
from onward.handlers.exchange import HeadTooLong
from onward.handlers.time_left import Stopped
from onward.handlers.url import AskedToWait, RequestFailed, Url
from onward.job.registry import NotAllowed
from onward.job.signals import Discard
from tests.handlers.servers import http as answer
from tests.handlers.servers import server_tls

CERTIFICATE = Path(__file__).with_name("certificate.pem")
HOST = "files.example.org"


@pytest.fixture
def ask(a_context):
    """Send a request to a server on this machine that goes by a public name."""

    def ask(server, path="/", *, context=None, request=None, **options):
        scheme = options.pop("scheme", "http")
        settings = {
            "hosts": [HOST],
            "schemes": [scheme],
            "ports": [server.port],
            "networks": ["127.0.0.0/8"],
            "resolver": lambda host, port: ["127.0.0.1"],
            **options,
        }
        payload = {"url": f"{scheme}://{HOST}:{server.port}{path}", **(request or {})}
        return Url(**settings).run(context or a_context(payload, timeout=60))

    return ask


# What is sent


def test_a_request_carries_the_name_and_not_the_address(serve, ask):
    server = serve(lambda request: answer())

    result = ask(server, "/a?b=c")

    assert result == {"status": 200, "content_type": None, "body": "hello", "truncated": False}
    (request,) = server.requests
    assert (request["method"], request["path"]) == ("GET", "/a?b=c")
    assert request["headers"]["Host"] == f"{HOST}:{server.port}"
    assert request["headers"]["Accept-Encoding"] == "identity"
    assert request["headers"]["Connection"] == "close"
    assert "Idempotency-Key" not in request["headers"]


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [({"json": {"a": [1, None]}}, b'{"a":[1,null]}', "application/json"), ({"body": "grüße"}, "grüße".encode(), None)],
)
def test_a_body_is_sent_with_a_key_by_which_the_server_can_tell_a_second_run(serve, ask, body, sent, kind):
    server = serve(lambda request: answer(201))

    ask(server, request={"method": "POST", **body})

    (request,) = server.requests
    assert (request["method"], request["body"], request["headers"].get("Content-Type")) == ("POST", sent, kind)
    assert request["headers"]["Idempotency-Key"] == "the-id"


def test_headers_of_the_configuration_are_sent_to_their_host_and_beat_the_job_s(serve, ask):
    server = serve(lambda request: answer())
    configured = {HOST.upper(): {"Authorization": "Bearer s3cret"}, "other.example": {"X-Other": "1"}}

    ask(server, request={"headers": {"authorization": "mine", "X-Trace": "7", "user-agent": "me"}}, headers=configured)

    headers = server.requests[0]["headers"]
    assert (headers["Authorization"], headers["X-Trace"], headers["user-agent"]) == ("Bearer s3cret", "7", "me")
    assert not {"authorization", "X-Other", "User-Agent"} & headers.keys()


def test_the_certificate_must_be_for_the_name(serve, ask):
    server = serve(lambda request: answer(200, b"safe"), tls=server_tls(CERTIFICATE))

    assert ask(server, scheme="https", ca_file=str(CERTIFICATE))["body"] == "safe"
    assert server.names == [HOST]


@pytest.mark.parametrize(
    "options", [{"ca_file": None}, {"host": "elsewhere.example.org"}], ids=["unknown", "other name"]
)
def test_a_certificate_that_proves_nothing_ends_it_before_anything_is_sent(serve, a_context, options):
    server = serve(lambda request: answer(), tls=server_tls(CERTIFICATE))
    host = options.get("host", HOST)
    url = Url(
        hosts=["*"],
        ports=[server.port],
        networks=["127.0.0.0/8"],
        resolver=lambda host, port: ["127.0.0.1"],
        ca_file=options.get("ca_file", str(CERTIFICATE)),
    )

    with pytest.raises(ssl.SSLCertVerificationError):
        url.run(a_context({"url": f"https://{host}:{server.port}/"}, timeout=60))

    assert server.requests == []


# What is allowed


@pytest.mark.promise("CVE-2022-43183")
@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        ({"method": "DELETE"}, "method DELETE is not allowed"),
        ({"url": "https://elsewhere.example/"}, "host 'elsewhere.example' is not allowed"),
        ({"url": f"https://{HOST}:8080/"}, "port 8080 is not allowed"),
        ({"url": f"http://{HOST}/"}, "http: is not allowed"),
        ({"url": "https://8.8.8.8/"}, "host '8.8.8.8' is not allowed"),
    ],
)
def test_what_was_not_allowed_is_refused_without_a_lookup_of_the_name(a_context, request_, refused):
    asked = []
    url = Url(hosts=[HOST], resolver=lambda host, port: asked.append(host) or [])
    payload = {"url": f"https://{HOST}/", **request_}
    url.check(payload)  # another program may allow it

    with pytest.raises(NotAllowed, match=refused):
        url.run(a_context(payload))
    assert asked == []


@pytest.mark.parametrize(
    ("payload", "complaint"),
    [
        ({}, "missing required field `url`"),
        ({"url": 5}, "Expected `str`, got `int`"),
        ("https://example.org", "Expected `object`"),
        ({"url": "https://example.org/", "allow_redirects": True}, "unknown field `allow_redirects`"),
        ({"url": "https://example.org/", "proxy": "http://evil"}, "unknown field `proxy`"),
        ({"url": "https://example.org/", "verify": False}, "unknown field `verify`"),
        ({"url": "https://example.org/", "method": "CONNECT"}, "method 'CONNECT' is none of"),
        ({"url": "https://example.org/", "method": "get"}, "method 'get' is none of"),
        ({"url": "https://example.org/", "body": "a", "json": 1}, "body or json, not both"),
        ({"url": "https://127.1/"}, "neither a host's name"),
        ({"url": "https://example.org/", "headers": {"Host": "inside"}}, "header 'Host' cannot be set"),
        ({"url": "https://example.org/", "headers": {"transfer-encoding": "chunked"}}, "cannot be set"),
        ({"url": "https://example.org/", "headers": {"Proxy-Authorization": "x"}}, "cannot be set"),
        ({"url": "https://example.org/", "headers": {"A b": "x"}}, "cannot be set"),
        ({"url": "https://example.org/", "headers": {"A": "x\r\nHost: inside"}}, "one line of ASCII"),
        ({"url": "https://example.org/", "headers": {"A": "ü"}}, "one line of ASCII"),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused_where_it_is_enqueued_and_where_it_would_run(
    a_context, payload, complaint
):
    url = Url(hosts=["*"], resolver=lambda host, port: ["127.0.0.1"])

    with pytest.raises(ArgumentError, match=complaint):
        url.check(payload)
    with pytest.raises(NotAllowed, match="is not allowed"):
        url.run(a_context(payload))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hosts": "example.org"},
        {"hosts": [HOST], "methods": "GET"},
        {"hosts": [HOST], "methods": ["CONNECT"]},
        {"hosts": [HOST], "schemes": ["ftp"]},
        {"hosts": [HOST], "ports": [0]},
        {"hosts": [HOST], "ports": 443},
        {"hosts": [HOST], "networks": ["ten"]},
        {"hosts": [HOST], "max_bytes": 0},
        {"hosts": [HOST], "ca_file": "/nowhere.pem"},
        {"hosts": [HOST], "headers": {HOST: {"Host": "x"}}},
        {"hosts": [HOST], "verify": False},
        {"hosts": [HOST], "follow_redirects": True},
    ],
    ids=str,
)
def test_a_configuration_that_makes_no_sense_is_refused(options):
    with pytest.raises(OptionError):
        build({"url": options})


# What comes of the answer


@pytest.mark.parametrize("status", [200, 201, 202, 204, 206, 299])
def test_an_answer_that_it_is_done_is_a_success(serve, ask, status):
    server = serve(lambda request: answer(status, b""))

    assert ask(server)["status"] == status


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
def test_a_server_that_cannot_now_is_asked_again(serve, ask, status):
    server = serve(lambda request: answer(status, b"too\x1b[2J busy\r\n"))

    with pytest.raises(RequestFailed, match=rf"answered {status}: too\\x1b\[2J busy$"):
        ask(server)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 408, 409, 410, 418, 422, 451])
def test_a_request_that_is_wrong_is_given_up(serve, ask, status):
    server = serve(lambda request: answer(status, b"no such order"))

    with pytest.raises(Discard, match=f"answered {status}: no such order"):
        ask(server)


NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("120", 120),
        (" 5 ", 5),
        (format_datetime(NOW + timedelta(minutes=2), usegmt=True), 120),
        ("Tuesday, 01-Jan-30 00:02:00 GMT", 120),
        ("Tue Jan  1 00:02:00 2030", 120),
        ("999999999", 3600),
        (format_datetime(NOW + timedelta(days=9000), usegmt=True), 3600),
    ],
)
def test_it_is_asked_again_when_it_says(serve, ask, said, wait):
    server = serve(lambda request: answer(503, b"", Retry_After=said))

    with pytest.raises(AskedToWait, match="as it asked") as asked:
        ask(server, now=NOW.timestamp)
    assert asked.value.after == pytest.approx(wait)


@pytest.mark.parametrize(
    "said",
    ["0", "-5", "soon", "1.5", "٣", "1e9", "", format_datetime(NOW - timedelta(days=1), usegmt=True), "99999999999"],
)
def test_what_it_says_without_sense_leaves_it_to_the_policy(serve, ask, said):
    server = serve(lambda request: answer(429, b"", Retry_After=said))

    with pytest.raises(RequestFailed):
        ask(server, now=NOW.timestamp)


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"\xe9", "é"),
        ("text/plain; charset=utf-8", "é".encode(), "é"),
        ("text/plain; charset=idna", b"xn--", "xn--"),
        ("text/plain", b"a\0b\xff", "a\\x00b\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_body_becomes_text(serve, ask, kind, body, text):
    server = serve(lambda request: answer(200, body, Content_Type=kind))

    assert ask(server)["body"] == text


# Limits


def test_a_long_answer_is_cut_and_says_so(serve, ask):
    server = serve(lambda request: answer(200, b"x" * 100_000))

    result = ask(server, max_bytes=1_000)

    assert (len(result["body"]), result["truncated"]) == (1_000, True)


@pytest.mark.promise("CVE-2026-44432")
def test_an_answer_in_chunks_without_end_is_cut(serve, ask):
    chunk = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = serve(lambda request: itertools.chain([head], itertools.repeat(chunk)))

    assert ask(server, max_bytes=10_000)["truncated"]


@pytest.mark.promise("CVE-2025-66471")
def test_what_is_compressed_is_not_unpacked(serve, ask):
    bomb = gzip.compress(b"\0" * 10_000_000)
    server = serve(lambda request: answer(200, bomb, Content_Encoding="gzip"))

    assert ask(server)["body"] == ""


def endless(*parts):
    return lambda request: itertools.chain(parts[:-1], itertools.repeat(parts[-1]))


@pytest.mark.parametrize(
    "parts",
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: y\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"y" * 1000),
        (b"HTTP/1.1 100 Continue\r\n\r\n",),
        (b"x" * 1000,),
    ],
    ids=["headers", "one header", "interim answers", "no answer at all"],
)
def test_an_endless_head_is_a_failure(serve, ask, parts):
    server = serve(endless(*parts))

    with pytest.raises((HeadTooLong, http.client.HTTPException)):
        ask(server)


def test_an_answer_that_ends_too_early_is_a_failure(serve, ask):
    server = serve(lambda request: answer(200, b"half", Content_Length="8"))

    with pytest.raises(http.client.IncompleteRead):
        ask(server)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_dribbles_is_late_all_the_same(serve, ask, scheme):
    go_on = threading.Event()

    def dribble(request):
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while not go_on.wait(0.02):
            yield b"x"

    tls = server_tls(CERTIFICATE) if scheme == "https" else None
    server = serve(dribble, tls=tls)

    with pytest.raises(TimeoutError, match=f"{HOST}:{server.port} did not answer in time"):
        ask(server, scheme=scheme, timeout=0.5, ca_file=str(CERTIFICATE))
    go_on.set()


def test_a_name_that_is_never_resolved_is_late_too(a_context):
    answered = threading.Event()
    url = Url(hosts=[HOST], timeout=0.3, resolver=lambda host, port: answered.wait(60) and [])

    with pytest.raises(TimeoutError, match="did not answer in time"):
        url.run(a_context({"url": f"https://{HOST}/"}))
    answered.set()


def test_the_time_of_the_job_counts_as_well(serve, ask, a_context):
    enough = threading.Event()
    server = serve(lambda request: enough.wait(60) and b"")
    context = a_context({"url": f"http://{HOST}:{server.port}/"}, timeout=0.3)

    with pytest.raises(TimeoutError):
        ask(server, context=context)
    enough.set()


def test_it_ends_when_the_job_is_cancelled(serve, ask, a_context):
    enough = threading.Event()

    def cancel(request):
        context.ask_to_stop()
        enough.wait(60)
        return b""

    server = serve(cancel)
    context = a_context({"url": f"http://{HOST}:{server.port}/"}, timeout=60)

    with pytest.raises(Stopped):
        ask(server, context=context)
    enough.set()
