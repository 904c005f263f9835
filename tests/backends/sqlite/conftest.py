"""A file, a clock that stands still, and ways to open and run things on them."""

from contextlib import ExitStack, closing

import pytest

from onward.backends.sqlite import SqliteBackend


@pytest.fixture
def store_name():
    """As reports name it."""
    return "SQLite"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def address(file):
    return file


@pytest.fixture
def url(file):
    return f"sqlite:///{file}"


@pytest.fixture
def open_backend(file, clock):
    """Open the file as often as asked for; what was opened is closed at the end."""
    with ExitStack() as opened:

        def open_it(path=file, **options):
            return opened.enter_context(closing(SqliteBackend.open(path, **{"clock": clock, **options})))

        yield open_it


@pytest.fixture
def backend(open_backend):
    return open_backend()
