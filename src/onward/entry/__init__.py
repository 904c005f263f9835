"""Programs that processes of Onward start, not people: the top room, which no other room imports.

Here: `child` (a supervisor's worker process), `isolated` (a worker's process for one job at a time) and `template` (from
which those are forked);
`worker_template` (from which worker processes are forked) and `fork_safety` (whether a process may be forked).
All import the application, say so on a socket, and serve until the other end is gone.  Read
`child` first.
"""
