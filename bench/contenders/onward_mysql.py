"""Onward on MariaDB at its defaults: its worker inside a program, and `onward worker`."""

from __future__ import annotations

from bench.contenders import on_mysql
from bench.contenders.onward_shop import ALL_CONFIGS, Shop
from onward import Onward

CONFIGS = ALL_CONFIGS
SMALL = "2 processes"
DATABASE = "onward"

_shop = Shop(__name__, lambda: on_mysql.url(DATABASE), CONFIGS)
opened, sender, processes, serve = _shop.opened, _shop.sender, _shop.processes, _shop.serve
enqueue, bulk, bulk_flaky, crowd = _shop.enqueue, _shop.bulk, _shop.bulk_flaky, _shop.crowd


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return _shop.application.jobs
    raise AttributeError(name)


def reset() -> None:
    on_mysql.fresh(DATABASE)
