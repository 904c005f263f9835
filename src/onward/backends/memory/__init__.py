"""Jobs in this process's memory: the reference backend, the contract in its plainest form.

Only `backends.opening`, `backends.sync` and tests import it, for `MemoryBackend`.  Read `store` (the tables), `backend`
(the verbs, under one lock), `settling` (how leases end), `lanes` (limits), `flows` with `flow_tables`; then
`inspection`, `overview`, `deaths`, `audit`, `samples`, `notes`, `schedules` and `transfer`.
"""

from onward.backends.memory.backend import MemoryBackend

__all__ = ["MemoryBackend"]
