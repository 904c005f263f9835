"""Jobs in a MySQL or MariaDB database: many machines, durable before an enqueue returns.  The extra is ``onward[mysql]``.

Only `backends.opening` and tests import it, for `MySQLBackend`.  Read `backend` after `sql/server`, whose verbs it
completes; then `transaction` (statements travel together), `literals` and `connection`; then along a job: `enqueueing`,
`claiming`, `settling`, `reaping`, `holds`.  All SQL is in `queries.sql`, whose head says how rows are locked.
"""

from onward.backends.mysql.backend import MySQLBackend

__all__ = ["MySQLBackend"]
