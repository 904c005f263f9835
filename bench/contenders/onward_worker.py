"""`onward worker` on SQLite: the supervisor and its processes, at their defaults."""

from __future__ import annotations

from bench.body import FOLDER
from bench.contenders.onward_shop import Shop
from onward import Onward

CONFIGS = {"1 process": (1, True), "2 processes": (2, True)}
SMALL = "2 processes"

_shop = Shop(__name__, lambda: f"sqlite:///{FOLDER / 'onward.db'}", CONFIGS)
opened, sender, processes, serve = _shop.opened, _shop.sender, _shop.processes, _shop.serve
enqueue, bulk, bulk_flaky = _shop.enqueue, _shop.bulk, _shop.bulk_flaky


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return _shop.application.jobs
    raise AttributeError(name)


def reset() -> None:
    for file in FOLDER.glob("onward.db*"):
        file.unlink()
