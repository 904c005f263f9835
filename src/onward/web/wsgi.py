"""The WSGI face: for Flask, Django on WSGI through `onward.web.django`, and bare servers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from onward.web.request import Responder, Response, WebRequest, mount_of

__all__ = ["WsgiFace", "read_body"]

Environ = dict[str, Any]
StartResponse = Callable[..., Any]


class WsgiFace:
    """A WSGI application."""

    def __init__(self, dashboard: Responder) -> None:
        self._dashboard = dashboard

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        dashboard = self._dashboard
        length = environ.get("CONTENT_LENGTH") or "0"
        body = read_body(environ["wsgi.input"], length, dashboard.body_limit)
        response = dashboard.respond(_request(environ, body, dashboard.base_path))
        phrase = HTTPStatus(response.status).phrase
        start_response(f"{response.status} {phrase}", list(response.headers.items()))
        return [response.body] if isinstance(response.body, bytes) else WsgiStream(response, response.body)


class WsgiStream:
    """Lines that a server sends as they are made, and closes when the client is gone."""

    def __init__(self, response: Response, lines: Iterator[bytes]) -> None:
        self._response = response
        self._lines = lines

    def __iter__(self) -> Iterator[bytes]:
        return self._lines

    def close(self) -> None:
        self._response.close()


def read_body(stream: Any, length: str, limit: int) -> bytes | None:
    """Read the body; None if it is larger than the limit, or does not say how large it is."""
    if not length.isdecimal():
        return None
    size = int(length)
    return None if size > limit else stream.read(size) if size else b""


def _request(environ: Environ, body: bytes | None, base_path: str | None) -> WebRequest:
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_") or name in ("CONTENT_TYPE", "CONTENT_LENGTH")
    }
    prefix = _text(environ.get("SCRIPT_NAME", ""))
    mount, path = mount_of(prefix, _text(environ.get("PATH_INFO", "")))
    return WebRequest(
        method=environ["REQUEST_METHOD"],
        mount=mount if base_path is None else base_path,
        path=path,
        query_string=environ.get("QUERY_STRING", ""),
        headers=headers,
        body=body,
        peer=environ.get("REMOTE_ADDR") or "",
        scheme=environ.get("wsgi.url_scheme", "http"),
        native=environ,
    )


def _text(part: str) -> str:
    """Return a part of a path: WSGI carries its bytes as Latin-1."""
    return part.encode("latin-1").decode("utf-8", "replace")
