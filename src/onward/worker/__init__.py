"""The engine that runs jobs in one process.

Here: `worker` (the parts and the threads), `pump` with `outbox` and `recovery` (the one thread that talks to the store about
jobs), `inflight` (the leases of this process), `handler_threads`, `handler_tasks` and `isolated` (where handlers run),
`session` with `store_contact` (the name under which leases are held, and the sweep); `inline` is the engine of
`process_once` and `drain`.
Called by the application, by `supervisor` and by `entry`.  Read `worker`, `pump`, `inflight`, `handler_threads`, `outbox`,
`session`, `recovery`, then the rest as needed.
"""
