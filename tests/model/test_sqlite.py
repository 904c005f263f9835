"""The SQLite backend does what the model does, through one client and through two, and when its file is opened again."""

import itertools
import shutil
from functools import partial

import pytest

from onward.backends.sqlite import SqliteBackend
from tests.model.machines import compare_with_model

FAST = {"max_examples": 60, "stateful_step_count": 40}  # every commit waits for the disk


@pytest.mark.timeout(3_600)
@pytest.mark.promise("S128")
def test_the_sqlite_backend_does_what_the_model_does(tmp_path, report):
    empty = tmp_path / "empty.db"
    SqliteBackend.open(empty).close()
    numbers = itertools.count()

    def new_store(clock):
        # Creating the tables takes longer than most stories; copying an empty file does not.
        path = shutil.copy(empty, tmp_path / f"{next(numbers)}.db")
        return partial(SqliteBackend.open, path, clock=clock)

    compare_with_model("sqlite", new_store, report, fast=FAST)
