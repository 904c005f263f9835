"""A broker with a companion store: the broker hands jobs out, the store knows what they are.

Only `backends/opening` makes this backend.  Read it in this order: `backend` (the verbs, and what a death between two writes
leaves), `messages` (what goes to the broker), `putting`, `deliveries` (messages that this process holds), `sweeping` (jobs
without a message), `health`, `store` (what is asked of the store).
"""

from onward.backends.companion.backend import AccompaniedBackend

__all__ = ["AccompaniedBackend"]
