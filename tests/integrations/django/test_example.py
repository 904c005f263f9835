"""The example of a shop on Django does what it says."""

import os
import subprocess
import sys

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


def test_orders_are_charged_once_and_those_that_were_refused_never(shop):
    shop("migrate", "-v0")
    assert "order 1 of ann" in shop("order", "ann")
    assert "refused: bob has no credit" in shop("order", "bob")
    assert "order" in shop("order", "cem")

    shop("onward", "worker", "--until-empty")

    listed = shop("onward", "job", "list", "--state", "completed")
    assert listed.count("shop.tasks.charge") == 2
    asked = "from shop.models import Order; print(sorted(Order.objects.values_list('customer', 'charged')))"
    assert "[('ann', True), ('cem', True)]" in shop("shell", "-c", asked)
