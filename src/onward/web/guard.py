"""What every request must pass before its route is looked at: the host, the origin of a write, the form of its body."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from onward.web.failures import Refused
from onward.web.request import WebRequest

__all__ = ["HEADERS", "LOOPBACK", "check_host", "check_write"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer: no script or style but the dashboard's own files, no other host, no frame, no text as script."""


def check_host(request: WebRequest, allowed: Sequence[str] | None) -> None:
    """Refuse a host that is not allowed: a name of somebody else's that leads here (DNS rebinding)."""
    if allowed is not None and not _is_allowed(_without_port(request.header("host")), allowed):
        raise Refused(
            403,
            "wrong_host",
            f"this dashboard does not answer for host {request.header('host')!r:.80}",
            fix="if it is yours, add it to allowed_hosts, or start `onward web` with --allow-host",
        )


def check_write(request: WebRequest, allowed: Sequence[str] | None) -> None:
    """Refuse a write that another site may have caused, or whose body is not JSON, which forms cannot send."""
    site, origin = request.header("sec-fetch-site").lower(), request.header("origin")
    if site:
        fits = site == "same-origin"
    elif origin:
        host = urlsplit(origin).netloc.lower() if origin.startswith(("http://", "https://")) else ""
        named = allowed is not None and _is_allowed(_without_port(host), allowed)
        fits = bool(host) and (host == request.header("host").lower() or named)
    else:
        fits = request.bearer is not None  # a program; no page of another site can send a token
    if not fits:
        raise Refused(
            403,
            "wrong_origin",
            "this write does not come from the dashboard's own page",
            fix="a program sends `Authorization: Bearer` with a token, and no Origin",
        )
    kind = request.header("content-type").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(
            415, "wrong_content_type", "the body of a write is JSON", fix="send Content-Type: application/json"
        )


def _is_allowed(host: str, allowed: Sequence[str]) -> bool:
    """Return whether a host is among these; ``*.example.org`` stands for all below it."""
    host = host.lower().rstrip(".")
    return any(host == each or (each.startswith("*.") and host.endswith(each[1:])) for each in map(str.lower, allowed))


def _without_port(host: str) -> str:
    """Return a host without its port.

    >>> _without_port("localhost:80"), _without_port("[::1]:80"), _without_port("example.org")
    ('localhost', '[::1]', 'example.org')
    """
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
