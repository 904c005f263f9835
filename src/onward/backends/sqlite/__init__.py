"""Jobs in one SQLite file: no server, every process of the machine, durable before an enqueue returns."""

from onward.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
