"""Which store a URL means."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from onward.backend import Backend
from onward.backends.memory import MemoryBackend
from onward.backends.sqlite import SqliteBackend
from onward.backends.sync import SyncBackend
from onward.clock import Clock
from onward.config import Settings
from onward.errors import BackendMisconfigured
from onward.names import suggestion

__all__ = ["open_store"]


def open_store(settings: Settings, clock: Clock | None = None) -> Backend:
    """The backend that the settings name."""
    schemes: dict[str, Callable[[], Backend]] = {
        "memory": lambda: MemoryBackend(clock=clock),
        "sync": lambda: SyncBackend(clock=clock),
        "sqlite": lambda: SqliteBackend.from_url(settings.url, clock=clock, namespace=settings.namespace),
        "postgresql": lambda: _open_postgres(settings, clock),
        "postgres": lambda: _open_postgres(settings, clock),
        "mysql": lambda: _open_mysql(settings, clock),
        "mariadb": lambda: _open_mysql(settings, clock),
    }
    scheme = urlsplit(settings.url).scheme
    if scheme not in schemes:
        raise BackendMisconfigured(f"there is no backend for {settings.url!r:.60}{suggestion(scheme, schemes)}")
    return schemes[scheme]()


def _open_postgres(settings: Settings, clock: Clock | None) -> Backend:
    # Imported by those who use it: its driver is an extra, and takes longer to load than all of Onward.
    from onward.backends.postgres import PostgresBackend

    return PostgresBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)


def _open_mysql(settings: Settings, clock: Clock | None) -> Backend:
    from onward.backends.mysql import MySQLBackend

    return MySQLBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)
