"""Requests to web servers: only allowed hosts and methods, only addresses of the public Internet.

The handler resolves the name once, checks every address, and connects to a checked one, with the name in the Host header and
in the handshake.  So a name server that would answer differently a second time is never asked again, and a redirect is an
answer like any other.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from onward.base.durations import Duration, seconds
from onward.base.failure import escaped, storable
from onward.errors import ArgumentError, OptionError
from onward.handlers.address import Reach
from onward.handlers.exchange import HttpAnswer, Resolver, connect, exchange, resolve, system_resolver
from onward.handlers.target import Hosts, Target, read_url
from onward.handlers.time_left import TimeLeft
from onward.handlers.typed import TypedHandler
from onward.job.arguments import encode_value
from onward.job.context import JobContext
from onward.job.registry import NotAllowed
from onward.job.signals import Discard, Retry
from onward.version import __version__

__all__ = ["AskedToWait", "Request", "RequestFailed", "Url", "retry_after"]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_HARMLESS = ("GET", "HEAD", "OPTIONS")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(r"[\t -~]{0,8192}")
_OURS = re.compile(  # headers that only Onward sets: they frame the request, name the host or allow other answers
    r"host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-length|accept-encoding|proxy-.*"
)
_CHARSET = re.compile(r"charset=\"?(utf-8|us-ascii|iso-8859-1|windows-1252)\b", re.IGNORECASE)


class RequestFailed(Exception):
    """The server answered that it cannot answer the request now; the job's retry policy decides about the next try."""


class AskedToWait(Retry):
    """The server answered that it cannot answer the request now, and when to try again."""


class Request(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The request of a job.  ``body`` is text, ``json`` any plain data; give one of them, or neither."""

    url: str
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None
    json: Any = None


class Url(TypedHandler[Request]):
    """``jobs.define("url", {"url": "https://api.example.com/orders", "method": "POST", "json": {"order": 42}})``."""

    payload_type = Request

    def __init__(
        self,
        *,
        hosts: Sequence[str],
        methods: Sequence[str] = ("GET", "HEAD", "POST"),
        schemes: Sequence[str] = ("https",),
        ports: Sequence[int] = (80, 443),
        networks: Sequence[str] = (),
        denied_networks: Sequence[str] = (),
        headers: Mapping[str, Mapping[str, str]] | None = None,
        timeout: Duration = 30,
        max_bytes: int = 64 * 1024,
        max_retry_after: Duration = 3600,
        ca_file: str | None = None,
        resolver: Resolver = system_resolver,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._hosts = Hosts(hosts)
        self._methods = _some_of(METHODS, methods, "methods")
        self._schemes = _some_of(("http", "https"), schemes, "schemes")
        self._ports = _ports(ports)
        self._reach = Reach(allow=networks, deny=denied_networks)
        self._headers = {host.lower(): _checked_headers(each) for host, each in (headers or {}).items()}
        self._timeout = seconds(timeout, "timeout")
        self._max_bytes = _positive(max_bytes, "max_bytes")
        self._max_retry_after = seconds(max_retry_after, "max_retry_after")
        self._tls = _tls(ca_file) if "https" in self._schemes else None
        self._resolver = resolver
        self._now = now

    def read(self, payload: Any) -> Request:
        """Return the request; raise if no worker could send it."""
        request = super().read(payload)
        read_url(request.url)
        if request.method not in METHODS:
            raise ArgumentError(f"url: method {request.method!r:.40} is none of {', '.join(METHODS)}")
        if request.body is not None and request.json is not None:
            raise ArgumentError("url: give body or json, not both")
        try:
            _checked_headers(request.headers)
        except OptionError as error:
            raise ArgumentError(f"url: {error}") from None
        return request

    def handle(self, ctx: JobContext, payload: Request) -> dict[str, Any]:
        target = self._allowed(payload)
        time_left = TimeLeft(ctx, self._timeout)
        try:
            answer = self._ask(ctx, payload, target, time_left)
        except TimeoutError:
            raise TimeoutError(f"{target.origin} did not answer in time") from None
        return self._judged(ctx, target, answer)

    def _allowed(self, request: Request) -> Target:
        target = read_url(request.url)
        if request.method not in self._methods:
            raise NotAllowed(f"method {request.method} is not allowed: the url handler lists {_list(self._methods)}")
        if target.scheme not in self._schemes:
            raise NotAllowed(f"{target.scheme}: is not allowed: the url handler lists {_list(self._schemes)}")
        if target not in self._hosts:
            raise NotAllowed(f"host {target.host!r:.100} is not allowed: the url handler's hosts do not name it")
        if target.port not in self._ports:
            raise NotAllowed(f"port {target.port} is not allowed: the url handler lists {_list(self._ports)}")
        return target

    def _ask(self, ctx: JobContext, request: Request, target: Target, time_left: TimeLeft) -> HttpAnswer:
        addresses = resolve(target, self._resolver, time_left)
        for address in addresses:  # all of them: the name server chooses which one would answer
            if refusal := self._reach.refusal(address):
                raise NotAllowed(f"host {target.host!r:.100} is not allowed: its address {address} is {refusal}")
        body = _body(request)
        return exchange(
            connect(addresses, target.port, time_left),
            target,
            self._tls if target.scheme == "https" else None,
            method=request.method,
            headers=self._headers_of(ctx, request, target),
            body=body,
            limit=self._max_bytes,
            time_left=time_left,
        )

    def _headers_of(self, ctx: JobContext, request: Request, target: Target) -> dict[str, str]:
        headers = {"User-Agent": f"onward/{__version__}", "Accept": "*/*"}
        if request.method not in _HARMLESS:
            headers["Idempotency-Key"] = ctx.id  # a job may run twice; the server can recognise it
        if request.json is not None:
            headers["Content-Type"] = "application/json"
        named: dict[
            str, tuple[str, str]
        ] = {}  # the job's headers replace Onward's, the configuration's replace the job's
        for source in (headers, request.headers, self._headers.get(target.host, {})):
            named |= {name.lower(): (name, value) for name, value in source.items()}
        return dict(named.values())

    def _judged(self, ctx: JobContext, target: Target, answer: HttpAnswer) -> dict[str, Any]:
        status = answer.status
        if 200 <= status < 300:
            return {
                "status": status,
                "content_type": answer.headers.get("content-type"),
                "body": self._text(answer),
                "truncated": answer.truncated,
            }
        said = f"{target.origin} answered {status}"
        if status == 429 or status >= 500:
            problem = f"{said}: {_quoted(ctx, self._text(answer))}"
            wait = min(retry_after(answer.headers.get("retry-after", "").strip(), self._now()), self._max_retry_after)
            if wait > 0:
                raise AskedToWait(wait, f"{problem} (again in {wait:g} s, as it asked)")
            raise RequestFailed(problem)
        if 300 <= status < 400:
            place = _quoted(ctx, answer.headers.get("location", "nowhere"))
            raise Discard(
                f"{said}, a redirect to {place}: redirects are not followed; enqueue the URL that it leads to"
            )
        raise Discard(f"{said}: {_quoted(ctx, self._text(answer))}")

    def _text(self, answer: HttpAnswer) -> str:
        """Return the body as text.  A compressed one, which was not requested, is not unpacked: it could be endless."""
        if answer.headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
            return ""
        charset = _CHARSET.search(answer.headers.get("content-type", ""))
        text = answer.body.decode(charset[1] if charset else "utf-8", "replace")
        return storable(text, self._max_bytes)


def retry_after(text: str, now: float) -> float:
    """Return the seconds that a server asks to wait; 0 if it names no valid time.

    >>> retry_after("120", now=0), retry_after("Thu, 01 Jan 1970 00:02:00 GMT", now=60), retry_after("soon", now=0)
    (120.0, 60.0, 0.0)
    """
    if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)  # HTTP knows no other
        return max(0.0, until.timestamp() - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0


def _quoted(ctx: JobContext, text: str) -> str:
    """Return the beginning of an answer, scrubbed: some servers repeat the request."""
    return escaped(ctx.scrub(text.strip())[:500])


def _body(request: Request) -> bytes | None:
    if request.json is not None:
        return encode_value(request.json)
    return None if request.body is None else request.body.encode()


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name) or _OURS.fullmatch(name.lower()):
            raise OptionError(f"header {name!r:.60} cannot be set")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise OptionError(f"header {name}: its value must be one line of ASCII text")
    return dict(headers)


def _some_of(known: Sequence[str], given: Sequence[str], what: str) -> frozenset[str]:
    if isinstance(given, str) or not set(given) <= set(known):
        raise OptionError(f"handler 'url': {what} is a list of some of {', '.join(known)}, not {given!r:.60}")
    return frozenset(given)


def _ports(given: Sequence[int]) -> frozenset[int]:
    if isinstance(given, int | str) or not all(type(port) is int and 0 < port < 65_536 for port in given):
        raise OptionError(f"handler 'url': ports is a list of numbers from 1 to 65535, not {given!r:.60}")
    return frozenset(given)


def _positive(value: int, what: str) -> int:
    if type(value) is not int or value < 1:
        raise OptionError(f"handler 'url': {what} must be a whole number above 0, not {value!r:.60}")
    return value


def _list(words: frozenset[Any]) -> str:
    return ", ".join(map(str, sorted(words))) or "none"


def _tls(ca_file: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise OptionError(f"handler 'url': ca_file {ca_file!r}: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
