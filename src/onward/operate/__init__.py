"""Looking at jobs, queues, sessions, schedules, dead letters and old jobs, and steering them.

Called by the methods of the application, and by workers that reap and prune at intervals; never by `client` or
`attempt`.
Read `inspector` (one method per question or request), `steering` and `signalling` (one job), `why` (what holds it),
`filters` and `finding` (jobs by a filter), `bulk` (acts on all that match, written by `acts`), `dead_letters` with `deaths`
(groups of them), `canary` and `editing` (their repair, held by `triage`), `pruning`, `unsupported_inspection` (answers for
brokers).  Schedules: `declarations` (in the code), `schedules` (all: ``jobs.schedules``).  `limits` is ``jobs.limits``,
`flows` is ``jobs.flows``.  `transfer` moves jobs between stores.  `deploy` checks whether a build can run what waits.
`health` says what is wrong with a fleet, and what to type; `watching` and `death_watch` look again and again, for screens.
`store_metrics` is what a store holds, as metrics.
"""
