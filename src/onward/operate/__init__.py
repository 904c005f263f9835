"""Looking at jobs, queues, sessions, dead letters and old jobs, and steering them.

Called by the methods of the application, and by workers that reap and prune at intervals.  Read `inspector` (one method per
question or request), `dead_letters`, `pruning`; `unsupported_inspection` answers for brokers, and `transfer` moves jobs
from one store to another.
"""
