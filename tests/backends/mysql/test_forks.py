"""A fork shares no connection: two processes that talk over one socket mix their sentences."""

import pytest

from tests.backends.forking import ForksOfDatabases


class TestForks(ForksOfDatabases):
    @pytest.fixture
    def connections(self, backend):
        return lambda: [each.number for each in backend._connections._open.values()]

    @pytest.fixture
    def is_left(self):
        return lambda connection: not connection.is_quiet
