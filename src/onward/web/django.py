"""The Django face: a list of URL patterns, for projects on WSGI and on ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from onward.web.request import Responder, Response, WebRequest
from onward.web.wsgi import read_body

__all__ = ["patterns"]

_OVER = object()


def patterns(dashboard: Responder) -> list[Any]:
    """Return what ``include`` takes: one pattern, below which everything is the dashboard's."""
    from django.urls import re_path
    from django.views.decorators.csrf import csrf_exempt

    def view(request: Any, path: str) -> Any:
        response = dashboard.respond(_request(request, path, dashboard))
        return _sent(response, is_async=hasattr(request, "scope"))

    # Its own rule, `check_write`, is stricter than a token in a form.
    return [re_path(r"^(?P<path>.*)$", csrf_exempt(view), name="onward")]


def _request(request: Any, path: str, dashboard: Responder) -> WebRequest:
    path_info: str = request.path
    mount = path_info.removesuffix(path).rstrip("/") if path else path_info.rstrip("/")
    headers = {name.lower(): str(value) for name, value in request.headers.items()}
    length = request.META.get("CONTENT_LENGTH") or "0"
    return WebRequest(
        method=request.method,
        mount=mount if dashboard.base_path is None else dashboard.base_path,
        path=path.lstrip("/"),
        query_string=request.META.get("QUERY_STRING", ""),
        headers=headers,
        body=read_body(request, str(length), dashboard.body_limit),
        peer=request.META.get("REMOTE_ADDR") or "",
        scheme=request.scheme,
        native=request,
    )


def _sent(response: Response, *, is_async: bool) -> Any:
    from django.http import HttpResponse, StreamingHttpResponse

    if isinstance(response.body, bytes):
        answer = HttpResponse(response.body, status=response.status)
    else:
        lines = _lines(response, response.body) if is_async else response.body
        answer = StreamingHttpResponse(lines, status=response.status)
    del answer.headers["Content-Type"]
    for name, value in response.headers.items():
        answer.headers[name] = value
    return answer


async def _lines(response: Response, lines: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Make lines on threads: on ASGI, Django would read a plain iterator to its end before it sends the first."""
    try:
        while (line := await asyncio.to_thread(next, lines, _OVER)) is not _OVER:
            assert isinstance(line, bytes)
            yield line
    finally:
        response.close()
