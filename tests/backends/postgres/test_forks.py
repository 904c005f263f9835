"""A fork shares no connection: two processes that talk over one socket mix their sentences."""

import pytest

from tests.backends.forking import ForksOfDatabases, ForksWhileWaiting


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
