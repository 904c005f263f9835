"""Many processes on one database: no claim waits, and no job is given to two of them."""

from tests.backends.contention import ClientsOfAServer


class TestContention(ClientsOfAServer):
    # InnoDB locks gaps where a unique index had an entry: of two that ask for such a key at once, one may be undone.
    unique_keys = False
