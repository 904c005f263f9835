"""Jobs in a PostgreSQL database: many machines, durable before an enqueue returns.  The extra is ``onward[postgres]``.

Only `backends.opening` and tests import it, for `PostgresBackend`.  Read `backend` after `sql/server`, whose verbs it
completes; then `transaction`, `wire` (statements past the driver's cursors) and `connection`; then along a job:
`enqueueing`, `claiming`, `settling`, `reaping`; `wake` is LISTEN and NOTIFY, `queue_marks` says where claims begin under
an old snapshot, `lane_marks` where walks over lanes do.  All SQL is in `queries.sql`, whose head says how rows are locked.
"""

from onward.backends.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]
