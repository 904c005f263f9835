"""A broker with a companion store: the broker says which job is next, the store has its record.

Only `backends/opening` makes this backend.  Read it in this order: `backend` (the verbs, and what a process that dies
between two writes leaves), `messages` (to the broker), `putting`, `deliveries` (messages that this process holds),
`sweeping` (jobs without a message), `notes`, `schedules` and `flows` (the store keeps them), `health`.  The verbs that the
store needs are in `contract/companion`.
"""

from onward.backends.companion.backend import AccompaniedBackend

__all__ = ["AccompaniedBackend"]
