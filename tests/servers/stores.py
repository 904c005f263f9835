"""Empty stores on a running server, as often as there are tests: emptying tables is quicker than making them."""

import psycopg

from onward.backends.postgres import PostgresBackend

TABLES = ("jobs", "finished", "attempts", "sessions", "queues", "holds", "waiters")


def emptied(server):
    """The URL of a database that has the tables of the default namespace, and nothing in them."""
    url = server.url()
    if not getattr(server, "has_tables", False):
        PostgresBackend.from_url(url).close()
        server.has_tables = True
    with psycopg.connect(url) as connection:
        # What is empty already need not be emptied: most tests touch two or three tables.
        for table in TABLES:
            connection.execute(f"DELETE FROM onward_{table}")
    return url
