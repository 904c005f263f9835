"""Looking at jobs, queues, sessions, schedules, dead letters and old jobs, and steering them.

Called by the methods of the application, and by workers at intervals; never by `client` or `attempt`.
Read `inspector` (one method per question or request), `steering` and `signalling` (one job), `why` (what holds it),
`filters` and `finding` (jobs by a filter), `bulk` (acts on all that match, written by `acts`), `dead_letters` with `deaths`,
`death_details` (their groups), `canary` and `editing` (a second run; `triage` holds both), `pruning`,
`unsupported_inspection` (for brokers), `declarations` and `schedules`, `limits`, `flows` and `composing`,
`transfer` (between stores), `deploy` (a build against what waits), `health` (what is wrong) with `commands` (what to type).
For screens: `watching`, `shared_watch`, `death_watch`, `pacing`, `queue_pace`, `counting`; `store_metrics`, `series`;
`timeline`, `retry_times`, `queue_rows`, `shown` (of arguments), `offering`, `refusals` (what a store or an act cannot do).
"""
