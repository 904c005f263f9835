"""What people look at and steer: jobs, queues, sessions, dead letters, old jobs.

Called by the application, whose methods hand on to it, and by workers for what they do at intervals: reap and prune.
Read `inspector` (one method per question or order), `dead_letters`, `pruning`; `unsupported_inspection` answers for brokers,
and `transfer` moves jobs from one store to another.
"""
