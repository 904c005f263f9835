"""The supervisor: worker processes that cannot lose a job, and the process without user code that looks after them."""
