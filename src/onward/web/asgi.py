"""The ASGI face: for Starlette, FastAPI, Litestar, Django on ASGI, and bare servers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from onward.web.request import Responder, Response, WebRequest, mount_of

__all__ = ["AsgiFace"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_OVER = object()


class AsgiFace:
    """An ASGI application.  The store is asked on threads, so the event loop never waits for it."""

    def __init__(self, dashboard: Responder) -> None:
        self._dashboard = dashboard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "lifespan":
                await _live(receive, send)
            case "http":
                await self._answer(scope, receive, send)
            case "websocket":
                await send({"type": "websocket.close", "code": 1003})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive, self._dashboard.body_limit)
        if body == _GONE:
            return
        request = _request(scope, body, self._dashboard.base_path)
        response = await asyncio.to_thread(self._dashboard.respond, request)
        headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if isinstance(response.body, bytes):
            await send({"type": "http.response.body", "body": response.body})
        else:
            await _stream(response, response.body, receive, send)


_GONE = b"\x00gone"


async def _body(receive: Receive, limit: int) -> bytes | None:
    """Read the body; None if it is larger than the limit."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return _GONE
        size += len(message.get("body", b""))
        if size <= limit:
            parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts) if size <= limit else None


def _request(scope: Scope, body: bytes | None, base_path: str | None) -> WebRequest:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}{'; ' if key == 'cookie' else ', '}{text}" if key in headers else text
    mount, path = mount_of(scope.get("root_path", "") or _cut_off(scope), scope["path"])
    client = scope.get("client") or ("",)
    return WebRequest(
        method=scope["method"],
        mount=mount if base_path is None else base_path,
        path=path,
        query_string=scope.get("query_string", b"").decode("latin-1"),
        headers=headers,
        body=body,
        peer=str(client[0]),
        scheme=scope.get("scheme", "http"),
        native=scope,
    )


def _cut_off(scope: Scope) -> str:
    """Return what a framework that names no root path has cut off from the path: Litestar."""
    whole = unquote(scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1")).rstrip("/")
    below = scope["path"].rstrip("/")
    return whole[: len(whole) - len(below)] if len(whole) > len(below) and whole.endswith(below) else ""


async def _stream(response: Response, lines: Iterator[bytes], receive: Receive, send: Send) -> None:
    """Send lines as they are made.  A client that goes away ends them after the one that is being made."""
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        while not gone.done():
            line = await asyncio.to_thread(next, lines, _OVER)
            if line is _OVER:
                break
            await send({"type": "http.response.body", "body": line, "more_body": True})
        if not gone.done():
            await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone
        response.close()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
