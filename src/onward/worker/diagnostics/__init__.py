"""Asking a running worker process which line of code a job has reached.

Here: `frames` (the stack of one handler), `stacks` (requests and answers), `private_socket` (only the same user may ask),
`asking` (which process to ask about a job).
Called by `worker` and `entry`, which answer, and by the command line, which asks.  Read `stacks` first.
"""
