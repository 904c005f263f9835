"""Jobs in one SQLite file: no server, every process of the machine, durable before an enqueue returns.

Only `backends.opening` and tests import it, for `SqliteBackend`.  Read `backend` (the verbs), `transaction` and
`connection` (two connections, one write lock); then along a job: `enqueueing`, `claiming`, `settling`, `reaping`; `wake`
wakes idle workers.  All SQL is in `queries.sql`; tests compare its plans with EXPLAIN.
"""

from onward.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
