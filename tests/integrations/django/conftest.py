"""A Django project on three databases.  Its modules are imported by Django, in processes of their own."""

import pytest

from tests.integrations.django.running import Project
from tests.servers.databases import in_mariadb, in_postgres, in_sqlite
from tests.servers.mysqlclient import importable_from

collect_ignore = ["project", "standins.py", "djangos_own.py"]


@pytest.fixture
def sqlite_project(tmp_path):
    return Project(in_sqlite(tmp_path), tmp_path)


@pytest.fixture
def postgres_project(newest_postgres, tmp_path):
    return Project(in_postgres(newest_postgres), tmp_path)


@pytest.fixture
def mariadb_project(mariadb, tmp_path):
    (tmp_path / "drivers").mkdir()
    return Project(in_mariadb(mariadb), tmp_path, extra=importable_from(tmp_path / "drivers"))


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def project(request):
    return request.getfixturevalue(f"{request.param}_project")
