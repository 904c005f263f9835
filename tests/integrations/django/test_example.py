"""The example of a shop on Django does what it says."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest


@pytest.fixture
def shop(request, tmp_path):
    manage = request.config.rootpath / "examples/django_shop/manage.py"
    environment = {**os.environ, "SHOP_FILE": str(tmp_path / "shop.sqlite3")}

    def run(*words):
        ran = subprocess.run(
            [sys.executable, manage, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


def test_orders_are_charged_once_and_those_that_were_refused_never(shop, tmp_path):
    shop("migrate", "-v0")
    assert shop("order", "ann", "bob", "cem").splitlines() == [
        "order 1 of ann",
        "refused: bob has no credit",
        "order 2 of cem",
    ]

    shop("onward", "worker", "--until-empty")

    listed = shop("onward", "job", "list", "--state", "completed")
    assert listed.count("shop.tasks.charge") == 2
    with closing(sqlite3.connect(tmp_path / "shop.sqlite3")) as database:
        orders = database.execute("SELECT customer, charged FROM shop_order ORDER BY id").fetchall()
    assert orders == [("ann", 1), ("cem", 1)]
