"""The MySQL backend does what the model does, through one client and through two, and when it is opened again."""

from functools import partial

import pytest

from onward.backends.mysql import MySQLBackend
from tests.model.machines import compare_with_model

FAST = {"max_examples": 15, "stateful_step_count": 40}
PROOF = {"max_examples": 2_000, "stateful_step_count": 60}


@pytest.mark.timeout(3_600)
@pytest.mark.promise("S128")
def test_the_mysql_backend_does_what_the_model_does(mariadb, report):
    def new_store(clock):
        return partial(MySQLBackend.from_url, mariadb.emptied(), clock=clock)

    compare_with_model("MariaDB", new_store, report, fast=FAST, proof=PROOF)
