"""Programs that processes of Onward start, not people: the top room, which no other room imports.

Here: `child` (a supervisor's worker process) and `isolated` (a worker's process for one job at a time).
Both import the application, say so on a socket, and serve until the other end is gone.  Read `child` first.
"""
