"""Serving the dashboard with uvicorn, on a thread of its own: the caller's thread watches, waits or works meanwhile."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from onward.app import Onward

__all__ = ["DEFAULT", "WebAddress", "dashboard_of", "hosts_of", "new_token", "require_uvicorn", "serving"]

DEFAULT = ("127.0.0.1", 8321)

_GRACE = 2  # seconds for an answer that is being streamed when the server is told to stop
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  compared with, not listened on


class WebAddress(NamedTuple):
    """Where the dashboard is served."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as a browser on this machine takes it."""
        host = "127.0.0.1" if self.host in _EVERYWHERE else self.host
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"


def require_uvicorn() -> None:
    """Raise if uvicorn is not installed: before a socket is opened or a store is asked."""
    try:
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise CommandError('the dashboard needs a server here: pip install "onward[web]"', Exit.CONFIG) from missing


def new_token() -> str:
    return secrets.token_urlsafe(24)


def hosts_of(address: WebAddress, named: Sequence[str]) -> list[str]:
    """Return the hosts that a browser may ask for: names of this machine alone, unless others are given."""
    own = [] if address.host in _EVERYWHERE else [f"[{address.host}]" if ":" in address.host else address.host]
    return list(dict.fromkeys([*_LOOPBACK, *own, *named]))


def dashboard_of(app: Onward, address: WebAddress, *, token: str, hosts: Sequence[str] = (), **options: Any) -> Any:
    """Make a dashboard that is opened by a token, for the hosts of this address."""
    from onward.web import Dashboard, Token

    return Dashboard(app, auth=Token(token), allowed_hosts=hosts_of(address, hosts), **options)


@contextmanager
def serving(asgi: Any, listening: socket.socket) -> Iterator[threading.Thread]:
    """Serve until the block ends.  The thread ends by itself only if the server fails."""
    import uvicorn

    config = uvicorn.Config(
        asgi,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whoever sends them is not known here
        timeout_graceful_shutdown=_GRACE,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="onward-web", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
