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


@pytest.fixture
def steps_of(backend, monkeypatch):
    """``steps_of(act)``: steps of SQLite's virtual machine, the same on every machine, however busy it is."""
    # A look limits its time by the handler that counts here.
    monkeypatch.setattr(backend, "_read_briefly", backend._read)

    def count(act):
        steps = 0

        def step():
            nonlocal steps
            steps += 1

        with backend._connections.tidying() as writer, backend._reading() as reading:
            connections = writer, reading._connection
            for connection in connections:
                connection.set_progress_handler(step, 10)
        act()
        for connection in connections:
            connection.set_progress_handler(None, 0)
        return steps

    return count
