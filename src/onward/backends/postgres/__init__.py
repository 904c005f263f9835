"""Jobs in a PostgreSQL database: many machines, durable before an enqueue returns.  Needs the extra ``onward[postgres]``."""

from onward.backends.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]
