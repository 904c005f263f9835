"""Many processes on one file: none sees a lock error, and no job is given to two of them."""

from tests.backends.contention import Processes


class TestContention(Processes):
    """As it is asked."""
