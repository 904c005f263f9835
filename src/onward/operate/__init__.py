"""Looking at jobs, queues, sessions, schedules, dead letters and old jobs, and steering them.

Called by the methods of the application, and by workers that reap and prune at intervals; never by `client` or
`attempt`.
Read `inspector` (one method per question or request), `steering` and `signalling` (one job), `why` (what holds it),
`dead_letters` with `deaths` (groups of them), `pruning`, `unsupported_inspection` (answers for brokers).
Schedules: `declarations` (those in the code), `schedules` (all of them: ``jobs.schedules``).  `limits` is ``jobs.limits``,
`flows` is ``jobs.flows``.  `transfer` moves jobs from one store to another.  `deploy` checks whether a build can run what
waits.
"""
