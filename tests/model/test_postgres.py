"""The PostgreSQL backend does what the model does, through one client and through two, and when it is opened again."""

from functools import partial

import pytest

from onward.backends.postgres import PostgresBackend
from tests.model.machines import compare_with_model
from tests.servers.stores import emptied

# A server is asked over a socket and commits to a disk: a story takes ten times as long as one of a file.
FAST = {"max_examples": 25, "stateful_step_count": 40}
PROOF = {"max_examples": 2_000, "stateful_step_count": 60}


@pytest.mark.timeout(3_600)
@pytest.mark.promise("S128")
def test_the_postgres_backend_does_what_the_model_does(postgres, report):
    def new_store(clock):
        return partial(PostgresBackend.from_url, emptied(postgres), clock=clock)

    compare_with_model(f"PostgreSQL {postgres.version}", new_store, report, fast=FAST, proof=PROOF)
