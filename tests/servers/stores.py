"""Empty stores on a running server, as often as there are tests.

What takes time in a test is not what it does: it is to make tables, to connect, and to let the server plan every statement
anew for every connection.  So tables are emptied, and connections that are not in use are kept for the next test, as the
backend itself keeps them between two calls.
"""

import contextlib

import psycopg

from onward.backends.postgres import PostgresBackend
from tests.servers.connecting import connected

TABLES = (
    "jobs",
    "finished",
    "attempts",
    "sessions",
    "queues",
    "holds",
    "notes",
    "audit",
    "schedules",
    "limits",
    "gates",
    "series",
    "flows",
    "nodes",
    "additions",
    "waiters",
)
_EMPTY = "; ".join(f"DELETE FROM onward_{table}" for table in TABLES)


def emptied(server):
    """The URL of a database that has the tables of the default namespace, and nothing in them."""
    url = server.url()
    if not server.has_tables:
        connected(PostgresBackend.from_url(url)).close()
        server.has_tables = True
    connection = server.broom
    if connection is None or connection.closed:
        connection = server.broom = psycopg.connect(url, autocommit=True, application_name="broom")
    try:
        connection.execute(_EMPTY)  # in one go: a single message is a single transaction
    except psycopg.OperationalError:  # the server was restarted
        connection.close()
        return emptied(server)
    return url


class WarmClients:
    """Backends for one test each, on connections that outlive it."""

    def __init__(self, url):
        self._url = url
        self._idle = []

    @contextlib.contextmanager
    def lent(self, clock):
        """Gives what opens one."""
        backends = []

        def open_client():
            connections = (
                self._idle.pop() if self._idle else connected(PostgresBackend.from_url(self._url))._connections
            )
            backends.append(backend := PostgresBackend(connections, clock=clock, prefix="onward_"))
            return backend

        try:
            yield open_client
        finally:
            for backend in backends:
                self._take_back(backend)

    def close(self):
        for connections in self._idle:
            connections.close()

    def _take_back(self, backend):
        backend._waiting.close()
        backend._lender.close()
        connections = backend._connections
        if connections.closed or connections._borrowed:  # the test has closed it, or left it in the middle of something
            backend.close()
        else:
            self._idle.append(connections)
