"""The memory backend keeps the contract."""

import pytest

from onward.backends.memory import MemoryBackend
from onward.testing.contract import BackendContract


class TestMemory(BackendContract):
    @pytest.fixture
    def backend(self, clock):
        return MemoryBackend(clock=clock)

    @pytest.fixture
    def open_client(self, backend):
        return lambda: backend

    @pytest.fixture
    def lose_session(self, backend):
        return backend._store.sessions.pop
