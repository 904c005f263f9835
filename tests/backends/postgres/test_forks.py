"""A fork shares no connection: two processes that talk over one socket mix their sentences."""

import pytest

from tests.backends.forking import ForksOfDatabases, ForksWhileWaiting, in_child


class TestForks(ForksOfDatabases, ForksWhileWaiting):
    @pytest.fixture
    def connections(self, backend):
        return lambda: [each.info.backend_pid for each in backend._connections._open.values()]

    @pytest.fixture
    def is_left(self):
        return lambda connection: connection.closed

    @pytest.fixture
    def is_waiting(self, sql):
        return lambda: sql("SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%%'")

    def test_each_process_has_a_row_of_its_own_among_the_idle_workers(self, backend, sql):
        """In one row for all, the process that looks last says for how long the others are notified."""
        assert [in_child(lambda: backend.wait(["default"], 0.01)) for _ in range(2)] == [0, 0]
        backend.wait(["default"], 0.01)

        assert sql("SELECT count(*) FROM onward_waiters") == [(3,)]
