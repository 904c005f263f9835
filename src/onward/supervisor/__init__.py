"""The process without user code, and the worker processes under it.

Here: `supervisor` (the loop), `fleet` and `process` (the worker processes), `store_thread` (all that it asks the store),
`run_board` (what a process has begun and counted, readable after its death), `boards` (those of all processes), `messages`
and `pending_messages` (what both ends say), `child_link` (the worker process's end);
`template`, `worker_forks` and `template_messages` (forking worker processes); `options`, `posix_signals`,
`subreaper`, `systemd`, `reload`, `mailbox`.  `probes` (what the worker tells of itself) and `http` (how it is asked).
Called by the command line, and by `entry` for the worker process's end.  Read `supervisor`, `fleet`, `process`,
`store_thread`, `child_link`.
"""
