"""Many processes on one database: no claim waits, and no job is given to two of them."""

from tests.backends.contention import ClientsOfAServer


class TestContention(ClientsOfAServer):
    """As it is asked."""
