"""Where the jobs of an alias are: the URL of one of Django's databases, as Onward reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connections

from onward.errors import OptionError

__all__ = ["MemoryDatabase", "NoJobsThere", "UnreadableOption", "url_of"]

_GIVE = "give OPTIONS['url'] in TASKS"

# Options of Django's that change how Django itself uses a connection, and not where it leads.
_DJANGOS_OWN = {
    "sqlite": {"transaction_mode", "init_command", "timeout", "check_same_thread", "factory", "isolation_level"},
    "postgresql": {
        "isolation_level",
        "server_side_binding",
        "pool",
        "assume_role",
        "cursor_factory",
        "prepare_threshold",
    },
    "mysql": {"isolation_level", "sql_mode", "init_command", "charset", "use_unicode", "autocommit", "use_pure"},
}
_MYSQL_OPTIONS = {"unix_socket", "connect_timeout", "read_timeout"}


class NoJobsThere(OptionError):
    """The database is of a kind that holds no jobs, or is told in a way that Onward cannot read."""


class MemoryDatabase(NoJobsThere):
    """The database is in the memory of one process: no worker would see a job in it."""


class UnreadableOption(NoJobsThere):
    """An option of the database says how to connect, and has no place in a URL."""


def url_of(alias: str) -> str:
    """Return the URL of one of Django's databases, as it is now: a test runner renames it."""
    if alias not in connections.settings:
        raise NoJobsThere(
            f"there is no database {alias!r} in DATABASES: correct OPTIONS['database'] in TASKS, or {_GIVE}"
        )
    connection = connections[alias]
    match connection.vendor:
        case "sqlite":
            return _sqlite_url(alias, connection.settings_dict)
        case "postgresql":
            return _server_url("postgresql", alias, connection.settings_dict)
        case "mysql":
            return _server_url("mysql", alias, connection.settings_dict)
    raise NoJobsThere(
        f"jobs cannot be in the database {alias!r}, which is of {connection.vendor}: {_GIVE} "
        f"to a PostgreSQL, MariaDB, MySQL or SQLite database, or to Redis"
    )


def _sqlite_url(alias: str, settings: Mapping[str, Any]) -> str:
    name = str(settings["NAME"])
    if name == ":memory:" or name.startswith("file:"):
        raise MemoryDatabase(
            f"the database {alias!r} is SQLite in memory ({name}), which no worker sees: for tests set DATABASES[{alias!r}]"
            f"['TEST'] = {{'NAME': 'test.sqlite3'}}, or use OPTIONS = {{'url': 'memory://'}} and Onward's assertions"
        )
    return f"sqlite:///{quote(str(Path(name).absolute()))}"


def _server_url(scheme: str, alias: str, settings: Mapping[str, Any]) -> str:
    query = _options(scheme, alias, settings.get("OPTIONS") or {})
    host, port, name = str(settings.get("HOST") or ""), str(settings.get("PORT") or ""), str(settings.get("NAME") or "")
    if host.startswith("/"):  # the folder of a socket, or with MySQL the socket
        query["host" if scheme == "postgresql" else "unix_socket"] = host
        host = ""
    login = quote(str(settings.get("USER") or ""), safe="")
    if settings.get("PASSWORD"):
        login += f":{quote(str(settings['PASSWORD']), safe='')}"
    place = f"{login}@{_in_url(host)}" if login else _in_url(host)
    if port and (host or scheme == "mysql"):
        place += f":{port}"
    elif port:
        query["port"] = port
    return f"{scheme}://{place}/{quote(name, safe='')}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")


def _options(scheme: str, alias: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what goes into the query of the URL; raise for what cannot."""
    query: dict[str, Any] = {}
    for name, value in options.items():
        if name in _DJANGOS_OWN[scheme]:
            continue
        carried = isinstance(value, str | int | Path) and not isinstance(value, bool)
        if scheme == "mysql" and name == "ssl" and isinstance(value, Mapping):
            query |= {f"ssl_{part}": str(each) for part, each in value.items()}
        elif carried and (scheme == "postgresql" or name in _MYSQL_OPTIONS):
            query[name] = value
        else:
            raise UnreadableOption(
                f"the option {name!r} of DATABASES[{alias!r}] cannot be carried over to the jobs: {_GIVE}, with what the "
                f"driver needs in it"
            )
    return query


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
