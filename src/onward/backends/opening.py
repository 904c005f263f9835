"""Opening the store that a URL names, the store beside a broker, and the tables of either.

A backend is imported when it is chosen: every process of an application starts faster without the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar, cast

from onward.backend import Backend, Inspection, Tables
from onward.base.clock import Clock
from onward.base.credentials import secrets_of_url, unquoted
from onward.base.names import suggestion
from onward.config import Settings
from onward.contract.companion import Companion, CompanionStore
from onward.errors import BackendError, BackendMisconfigured
from onward.job.scrubbing import scrubber_of_url

__all__ = ["BROKERS", "located", "open_store", "scheme_of", "tables_of"]

Choice = TypeVar("Choice")

BROKERS = ("beanstalk", "servicebus")  # backends that take a store beside them
_DATABASES = ("sqlite", "postgresql", "postgres", "mysql", "mariadb")
_REDIS = (
    *("redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
    *("valkey", "valkeys", "valkey+unix", "valkey+sentinel", "valkeys+sentinel", "valkey+cluster", "valkeys+cluster"),
)


def open_store(settings: Settings, clock: Clock | None = None) -> Backend:
    """Open the backend that the settings name; a broker together with the store beside it, if they name one.

    Settings, URL and driver are checked; the server is reached at the first use, or by `connect`.
    """
    with _discreet(settings):
        return _open_both(settings, clock)


def _open_both(settings: Settings, clock: Clock | None) -> Backend:
    backend = _open(settings, clock)
    if settings.store is None:
        return backend
    try:
        from onward.backends.companion import AccompaniedBackend

        return AccompaniedBackend(backend, _open_beside(backend, settings, settings.store, clock), clock=clock)
    except BaseException:
        backend.close()
        raise


def located(settings: Settings, backend: Backend) -> Settings:
    """Return the settings with absolute paths: a relative one means nothing after the process has changed its folder."""
    beside = getattr(backend, "store", None)
    return replace(
        settings,
        url=str(getattr(backend, "url", settings.url)),
        store=getattr(beside, "url", settings.store),
    )


def _open_beside(broker: Backend, settings: Settings, url: str, clock: Clock | None) -> CompanionStore:
    scheme = scheme_of(url)
    if isinstance(broker, Inspection):
        raise BackendMisconfigured(
            f"{scheme_of(settings.url)}:// keeps history, dead letters and keys by itself: leave `store` out (or "
            f"ONWARD_STORE), which is for brokers such as beanstalk://"
        )
    if scheme not in _DATABASES:
        raise BackendMisconfigured(
            f"a {scheme!r} URL cannot be the store beside a broker{suggestion(scheme, _DATABASES)}: use a database, such as "
            f"sqlite:///onward.db or postgresql://"
        )
    store = _open(replace(settings, url=url, store=None), clock)
    assert isinstance(store, Companion)
    return cast("CompanionStore", store)


def _open(settings: Settings, clock: Clock | None) -> Backend:
    schemes: dict[str, Callable[[], Backend]] = {
        "memory": lambda: _open_memory(clock),
        "sync": lambda: _open_sync(clock),
        "sqlite": lambda: _open_sqlite(settings, clock),
        "postgresql": lambda: _open_postgres(settings, clock),
        "postgres": lambda: _open_postgres(settings, clock),
        "mysql": lambda: _open_mysql(settings, clock),
        "mariadb": lambda: _open_mysql(settings, clock),
        **dict.fromkeys(_REDIS, lambda: _open_redis(settings, clock)),
        "beanstalk": lambda: _open_beanstalk(settings, clock),
        "servicebus": lambda: _open_servicebus(settings, clock),
    }
    return _chosen(schemes, settings.url)()


@contextmanager
def _discreet(settings: Settings) -> Iterator[None]:
    """Remove passwords from errors, however they were written and wherever a driver split the URL."""
    urls = [url for url in (settings.url, settings.store) if url is not None]
    for url in urls:
        _refuse_unquoted(url)
    try:
        yield
    except BackendError as error:
        scrub = scrubber_of_url([form for url in urls for form in secrets_of_url(url)])
        told = scrub(str(error))
        if told != str(error) or scrub(str(error.__cause__)) != str(error.__cause__):
            error.args = (told, *error.args[1:])
            raise error from None
        raise


def _refuse_unquoted(url: str) -> None:
    scheme = scheme_of(url)
    found = unquoted(url)
    if found is None and scheme in ("postgresql", "postgres") and re.match("[^/?#]*@[^/?#]*@", url.partition("://")[2]):
        found = "@"  # libpq ends a password at the first, other drivers at the last
    if found is not None and scheme != "sqlite":
        raise BackendMisconfigured(
            f"{scheme}://: there is a {found!r} in the password of this URL: write %{ord(found):02X} for it"
        )


def tables_of(settings: Settings) -> Tables:
    """Return the tables of the store that the settings name, or of the store beside a broker, without opening it."""
    with _discreet(settings):
        return _tables_of(settings)


def _tables_of(settings: Settings) -> Tables:
    if settings.store is not None:
        settings = replace(settings, url=settings.store, store=None)
    schemes: dict[str, Callable[[], Tables]] = {
        "sqlite": lambda: _sqlite_tables(settings),
        "postgresql": lambda: _postgres_tables(settings),
        "postgres": lambda: _postgres_tables(settings),
        "mysql": lambda: _mysql_tables(settings),
        "mariadb": lambda: _mysql_tables(settings),
    }
    scheme = scheme_of(settings.url)
    if scheme in ("memory", "sync", "beanstalk", "servicebus", *_REDIS):
        raise BackendMisconfigured(f"{scheme}:// has no tables: there is nothing to migrate")
    return _chosen(schemes, settings.url)()


def scheme_of(url: str) -> str:
    """Return the scheme of a URL, whatever else is wrong with it.

    >>> scheme_of("redis://[::1/0"), scheme_of("jobs.db")
    ('redis', '')
    """
    scheme, colon, _ = url.partition(":")
    return scheme.lower() if colon else ""


def _chosen(schemes: Mapping[str, Choice], url: str) -> Choice:
    scheme = scheme_of(url)
    if scheme not in schemes:
        # Without the rest of the URL: it may have a password.
        meant = _meant(url)
        if meant is not None:
            raise BackendMisconfigured(f"a store is named by a URL: write {meant}")
        raise BackendMisconfigured(f"there is no backend for {scheme!r} URLs{suggestion(scheme, schemes)}")
    return schemes[scheme]


_FILE = re.compile(r"[^:@?]*(?:\.db3?|\.sqlite3?|[/\\][^:@?]*)")
_HOST = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):(?P<port>\d{1,5})(?:/\w*)?")
_PORTS = {
    "6379": "redis://{}",
    "5432": "postgresql://USER@{}/DATABASE",
    "3306": "mysql://USER@{}/DATABASE",
    "11300": "beanstalk://{}",
}


def _meant(url: str) -> str | None:
    """Return the URL that a user means by a path, or by a server's address.

    >>> _meant("jobs.db"), _meant("/tmp/jobs"), _meant("localhost:6379"), _meant("me:secret@host:5432")
    ('sqlite:///jobs.db', 'sqlite:////tmp/jobs', 'redis://localhost:6379', None)
    """
    if url == ":memory:":
        return "memory://"
    if _FILE.fullmatch(url):
        return f"sqlite:///{url}"
    if (found := _HOST.fullmatch(url)) is not None:
        place = f"{found['host']}:{found['port']}"
        if found["port"] in _PORTS:
            return _PORTS[found["port"]].format(place)
        return f"what kind of server it is, such as redis://{place} or postgresql://USER@{place}/DATABASE"
    return None


def _open_memory(clock: Clock | None) -> Backend:
    from onward.backends.memory import MemoryBackend

    return MemoryBackend(clock=clock)


def _open_sync(clock: Clock | None) -> Backend:
    from onward.backends.sync import SyncBackend

    return SyncBackend(clock=clock)


def _open_sqlite(settings: Settings, clock: Clock | None) -> Backend:
    from onward.backends.sqlite import SqliteBackend

    return SqliteBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)


def _sqlite_tables(settings: Settings) -> Tables:
    from onward.backends.sqlite.tables import SqliteTables

    return SqliteTables(settings.url, settings.namespace)


def _open_postgres(settings: Settings, clock: Clock | None) -> Backend:
    # The driver is an extra, and takes longer to load than all of Onward.
    from onward.backends.postgres import PostgresBackend

    return PostgresBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)


def _postgres_tables(settings: Settings) -> Tables:
    from onward.backends.postgres.tables import PostgresTables

    return PostgresTables(settings.url, settings.namespace)


def _open_mysql(settings: Settings, clock: Clock | None) -> Backend:
    from onward.backends.mysql import MySQLBackend

    return MySQLBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)


def _mysql_tables(settings: Settings) -> Tables:
    from onward.backends.mysql.tables import MySQLTables

    return MySQLTables(settings.url, settings.namespace)


def _open_redis(settings: Settings, clock: Clock | None) -> Backend:
    from onward.backends.redis import RedisBackend

    return RedisBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)


def _open_beanstalk(settings: Settings, clock: Clock | None) -> Backend:
    from onward.backends.beanstalk import BeanstalkBackend

    return BeanstalkBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)


def _open_servicebus(settings: Settings, clock: Clock | None) -> Backend:
    from onward.backends.servicebus import ServiceBusBackend

    return ServiceBusBackend.from_url(settings.url, clock=clock, namespace=settings.namespace)
