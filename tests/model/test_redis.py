"""The Redis backend does what the model does, through one client and through two, and when it is opened again."""

from functools import partial

import pytest

from onward.backends.redis import RedisBackend, backend
from tests.model.machines import compare_with_model
from tests.servers.redis import emptied

# A server is asked over a socket: a story takes several times as long as one of a file.
FAST = {"max_examples": 30, "stateful_step_count": 40}
PROOF = {"max_examples": 4_000, "stateful_step_count": 60}


@pytest.mark.timeout(3_600)
@pytest.mark.promise("S128")
def test_the_redis_backend_does_what_the_model_does(redis, report, monkeypatch):
    # Or nearly no turn of a story would try the script for usual ones: the first unusual one is followed by whole ones.
    monkeypatch.setattr(backend, "_WHOLE_TURNS", 0)

    def new_store(clock):
        return partial(RedisBackend.from_url, emptied(redis), clock=clock)

    compare_with_model(redis.product.capitalize(), new_store, report, fast=FAST, proof=PROOF)
