"""The engine that runs jobs in one process.  Called by the application, by `supervisor` and by `entry`.

Read `worker` (the parts and the threads; `options` and `events` are what it is given and told), `pump` with `outbox` and
`recovery` (the one thread that claims and settles; `patterns` says from which queues, `breaker` when not), `inflight`
(the leases of this process), `handler_threads`, `handler_tasks` with `event_loop` and `loop_watch`, and `isolated` with
`isolated_process`, `isolated_messages`, `template` and `template_messages` (where handlers run), `session` with
`store_contact` (the name under which leases are held, and the sweep), `describing` (what the worker says of itself),
`run_recorder` (what has begun, for the supervisor).  `inline` is the engine of ``process_once`` and ``drain``.  `ticker`
books schedules; `diagnostics` shows which line a job has reached.
"""
