"""`onward worker` on SQLite with an application of some weight: its worker processes are forked, or not."""

from __future__ import annotations

import os
import sys

from bench.body import FOLDER
from bench.contenders import weight
from bench.contenders.onward_shop import Shop
from onward import Onward

CONFIGS = {"1 process": (1, True), "2 processes": (2, True), "8 processes": (8, True)}

_shop = Shop(__name__, lambda: f"sqlite:///{FOLDER / 'onward.db'}", CONFIGS)
opened, processes = _shop.opened, _shop.processes
enqueue, bulk = _shop.enqueue, _shop.bulk


def serve(config: str) -> None:
    count, _ = CONFIGS[config]
    options = ["worker", f"{__name__}:jobs", "--processes", str(count), "--quiet", *os.environ["BENCH_OPTIONS"].split()]
    os.execv(sys.executable, [sys.executable, "-m", "onward", *options])  # noqa: S606


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        if not weight.HELD:
            weight.carry()
        return _shop.application.jobs
    raise AttributeError(name)


def reset() -> None:
    for file in FOLDER.glob("onward.db*"):
        file.unlink()
