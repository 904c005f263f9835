"""The files of the page: read once, with a digest each, compressed if the browser likes that.

The page names its files with their digests, so a browser that has them asks for none of them again.
"""

from __future__ import annotations

import gzip
import mimetypes
import re
from functools import lru_cache
from hashlib import blake2b
from html import escape
from importlib import resources
from typing import NamedTuple

from onward.web.failures import Refused
from onward.web.request import Response, WebRequest

__all__ = ["page", "static_file"]

_FOLDER = resources.files("onward.web") / "static"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BASE = '<base href="/">'
_NO_LOOK = '<meta name="onward-look" content="none">'  # this store is not asked for a look: it cannot give one
_FILE = re.compile(r'(?<=")static/([^"]+)(?=")')
_TYPES = {".js": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2", ".map": "application/json"}


class StaticFile(NamedTuple):
    data: bytes
    zipped: bytes | None  # None: it is not smaller
    digest: str
    kind: str


def page(request: WebRequest, *, can_look: bool) -> Response:
    """Return the page, for every path that it draws.  It holds no data; where it is mounted is written into it."""
    base = f'<base href="{escape(request.mount, quote=True)}/">{"" if can_look else _NO_LOOK}'
    headers = {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-cache"}
    return Response(body=_page_with_digests().replace(_BASE, base, 1).encode(), headers=headers)


@lru_cache(1)
def _page_with_digests() -> str:
    text = _read("index.html").data.decode()
    return _FILE.sub(lambda found: f"{found[0]}?v={_read(found[1]).digest}", text)


def static_file(request: WebRequest, name: str) -> Response:
    """Return a file, for a year if it is asked for with its digest."""
    if _NAME.fullmatch(name) is None:
        raise Refused(404, "not_found", f"there is no file {name!r:.60}")
    try:
        file = _read(name)
    except (FileNotFoundError, IsADirectoryError):
        raise Refused(404, "not_found", f"there is no file {name!r:.60}") from None
    tag = f'"{file.digest}"'
    lasts = "public, max-age=31536000, immutable" if request.query.get("v") == file.digest else "no-cache"
    headers = {"ETag": tag, "Cache-Control": lasts, "Content-Type": file.kind, "Vary": "Accept-Encoding"}
    if request.header("if-none-match") == tag:
        return Response(status=304, headers=headers)
    if file.zipped is not None and "gzip" in request.header("accept-encoding"):
        return Response(body=file.zipped, headers={**headers, "Content-Encoding": "gzip"})
    return Response(body=file.data, headers=headers)


@lru_cache(64)
def _read(name: str) -> StaticFile:
    data = (_FOLDER / name).read_bytes()
    zipped = gzip.compress(data, 9, mtime=0)
    suffix = name[name.rfind(".") :]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    if kind.startswith("text/") or suffix == ".json":
        kind += "; charset=utf-8"
    digest = blake2b(data, digest_size=9).hexdigest()
    return StaticFile(data, zipped if len(zipped) < len(data) else None, digest, kind)
