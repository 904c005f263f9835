"""A request and a response, without a framework: what the three faces turn theirs into, and out of."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qsl

__all__ = ["Lines", "Responder", "Response", "WebRequest", "mount_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """One HTTP request, as `auth` sees it, too."""

    method: str
    mount: str  # where the dashboard is mounted: "" or "/jobs"
    path: str  # below that, without a slash at its beginning
    query_string: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # by lower-case names
    body: bytes | None = b""  # None: it is larger than the limit
    peer: str = ""  # the address that the connection comes from; "": not known
    scheme: str = "http"
    native: Any = None  # the ASGI scope, the WSGI environ, or Django's request

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self.query_string, keep_blank_values=True, max_num_fields=100))

    @property
    def cookies(self) -> Iterator[tuple[str, str]]:
        for part in self.header("cookie").split(";"):
            name, equals, value = part.strip().partition("=")
            if equals:
                yield name, value.strip('"')

    @property
    def bearer(self) -> str | None:
        """The token of the Authorization header."""
        kind, _, token = self.header("authorization").partition(" ")
        return token.strip() if kind.lower() == "bearer" and token.strip() else None

    @property
    def is_write(self) -> bool:
        return self.method not in ("GET", "HEAD")


class Lines:
    """The lines of a stream.  `close` may be called while another thread makes a line: then that one is the last."""

    def __init__(self, lines: Generator[bytes, None, None]) -> None:
        self._lines = lines
        self._lock = threading.Lock()
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        with self._lock:
            if self._closed:
                raise StopIteration
            line = next(self._lines)
            if self._closed:
                self._lines.close()
            return line

    def close(self) -> None:
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._lines.close()
            finally:
                self._lock.release()


@dataclass(slots=True, kw_only=True)
class Response:
    """What is sent back: a body, or lines that are made while they are sent."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Lines = b""

    def close(self) -> None:
        """End a stream that was not sent to its end."""
        if isinstance(self.body, Lines):
            self.body.close()


class Responder(Protocol):
    """What a face needs of a dashboard."""

    base_path: str | None
    body_limit: int

    def respond(self, request: WebRequest) -> Response: ...


def mount_of(prefix: str, path: str) -> tuple[str, str]:
    """Split a path into where the dashboard is mounted and what is below.

    Servers and frameworks disagree on whether the path begins with the prefix.

    >>> mount_of("/jobs", "/jobs/api/v1/pulse"), mount_of("/jobs/", "/api/v1/pulse"), mount_of("", "/")
    (('/jobs', 'api/v1/pulse'), ('/jobs', 'api/v1/pulse'), ('', ''))
    """
    mount = prefix.rstrip("/")
    if mount and (path == mount or path.startswith(f"{mount}/")):
        path = path[len(mount) :]
    return mount, path.lstrip("/")
