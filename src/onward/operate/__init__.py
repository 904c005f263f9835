"""Looking at jobs, queues, sessions, schedules, dead letters and old jobs, and steering them.

Called by the methods of the application, and by workers at intervals; never by `client` or `attempt`.
Read `inspector` (one method per question or request), `steering` and `signalling` (one job), `why` (what holds it),
`filters` and `finding` (jobs by a filter), `bulk` (acts on all that match, written by `acts`), `dead_letters` with `deaths`,
`death_details` (their groups), `canary` and `editing` (a second run; `triage` holds both), `pruning`,
`unsupported_inspection` (for brokers).  Schedules: `declarations` (in the code), `schedules` (all of them).  `limits` and
`flows` are ``jobs.limits`` and ``jobs.flows``.  `transfer` moves them between stores.  `deploy` checks a build against what
waits.  `health` says what is wrong; `watching`, `death_watch`, `pacing`, `queue_pace` serve screens; `store_metrics`,
`series` serve charts.
"""
