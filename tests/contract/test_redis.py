"""The Redis backend keeps the contract, through one client and through two, on Redis and on Valkey."""

from contextlib import ExitStack, closing

import pytest

from onward.backends.redis import RedisBackend
from onward.testing.contract import BackendContract
from tests.servers.redis import emptied


class TestRedis(BackendContract):
    @pytest.fixture
    def url(self, redis):
        return emptied(redis)

    @pytest.fixture
    def open_client(self, url, clock):
        with ExitStack() as clients:
            yield lambda: clients.enter_context(closing(RedisBackend.from_url(url, clock=clock)))

    @pytest.fixture
    def backend(self, open_client):
        return open_client()

    @pytest.fixture
    def lose_session(self, redis):
        def lose(owner):
            with redis.client() as client:
                client.hdel("{onward}:sessions", owner)
                client.zrem("{onward}:expiry", owner)

        return lose

    @pytest.fixture
    def damage_schedule(self, redis):
        def damage(name):
            with redis.client() as client:
                client.hset("{onward}:schedules", name, b"nonsense")

        return damage
