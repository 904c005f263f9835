"""The address of the jobs, from Django's settings of a database, and what is told where they say none."""

from types import SimpleNamespace

import pytest

from onward.backends.opening import open_store
from onward.config import load
from onward.integrations.django import databases
from onward.integrations.django.databases import MemoryDatabase, NoJobsThere, UnreadableOption, url_of

PASSWORD = {"USER": "ann", "PASSWORD": "p@ss/word", "NAME": "shop db"}


class Connections(dict):
    """What `django.db.connections` is, as far as it is asked."""

    @property
    def settings(self):
        return self


@pytest.fixture
def told(monkeypatch):
    """Set the one database that there is."""

    def tell(vendor, **settings):
        found = Connections(default=SimpleNamespace(vendor=vendor, settings_dict=settings))
        monkeypatch.setattr(databases, "connections", found)
        return url_of("default")

    return tell


@pytest.mark.parametrize(
    ("vendor", "settings", "url"),
    [
        ("sqlite", {"NAME": "/srv/shop #1.sqlite3"}, "sqlite:////srv/shop%20%231.sqlite3"),
        (
            "postgresql",
            {**PASSWORD, "HOST": "db.example", "PORT": 5433, "OPTIONS": {"sslmode": "verify-full", "pool": True}},
            "postgresql://ann:p%40ss%2Fword@db.example:5433/shop%20db?sslmode=verify-full",
        ),
        (
            "postgresql",
            {"NAME": "shop", "HOST": "/run/postgresql", "PORT": "5433"},
            "postgresql:///shop?host=%2Frun%2Fpostgresql&port=5433",
        ),
        ("postgresql", {"NAME": "shop", "HOST": "::1", "USER": "ann"}, "postgresql://ann@[::1]/shop"),
        (
            "mysql",
            {**PASSWORD, "HOST": "/run/mysqld.sock", "OPTIONS": {"charset": "utf8mb4", "connect_timeout": 5}},
            "mysql://ann:p%40ss%2Fword@/shop%20db?connect_timeout=5&unix_socket=%2Frun%2Fmysqld.sock",
        ),
        (
            "mysql",
            {"NAME": "shop", "HOST": "db", "PORT": 3307, "OPTIONS": {"ssl": {"ca": "/etc/ca.pem"}}},
            "mysql://db:3307/shop?ssl_ca=%2Fetc%2Fca.pem",
        ),
    ],
)
def test_the_settings_of_a_database_become_a_url_that_onward_reads(told, vendor, settings, url):
    found = told(vendor, **settings)

    assert found == url
    open_store(load({"url": found})).close()


@pytest.mark.parametrize(
    ("vendor", "settings", "kind", "fix"),
    [
        ("oracle", {"NAME": "x"}, NoJobsThere, "to a PostgreSQL, MariaDB, MySQL or SQLite database, or to Redis"),
        ("sqlite", {"NAME": ":memory:"}, MemoryDatabase, "'NAME': 'test.sqlite3'"),
        ("sqlite", {"NAME": "file:memorydb_default?mode=memory"}, MemoryDatabase, "'NAME': 'test.sqlite3'"),
        ("postgresql", {"NAME": "x", "OPTIONS": {"context": object()}}, UnreadableOption, "give OPTIONS"),
        ("mysql", {"NAME": "x", "OPTIONS": {"read_default_file": "/etc/my.cnf"}}, UnreadableOption, "give OPTIONS"),
    ],
)
def test_what_is_no_address_names_the_fix(told, vendor, settings, kind, fix):
    with pytest.raises(kind, match=fix) as refused:
        told(vendor, **settings)
    assert refused.type is kind
