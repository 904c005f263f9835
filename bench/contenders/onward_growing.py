"""`onward worker` with as many processes as the configuration says, on the store that the bench names."""

from __future__ import annotations

import os

from bench.body import FOLDER
from bench.contenders import on_postgres, on_redis
from bench.contenders.onward_shop import Shop
from onward import Onward

CONFIGS = {f"{count} process{'es' if count > 1 else ''}": (count, True) for count in (1, 2, 8)}
_DATABASE = "onward_growing"


def _url() -> str:
    if os.environ["BENCH_STORE"] == "postgres":
        return on_postgres.url(_DATABASE)
    return on_redis.url() if os.environ["BENCH_STORE"] == "redis" else f"sqlite:///{FOLDER / 'growing.db'}"


_shop = Shop(__name__, _url, CONFIGS)
opened, processes, serve = _shop.opened, _shop.processes, _shop.serve
enqueue, bulk = _shop.enqueue, _shop.bulk


def __getattr__(name: str) -> Onward:
    """``jobs``, for the worker."""
    if name == "jobs":
        return _shop.application.jobs
    raise AttributeError(name)


def reset() -> None:
    if os.environ["BENCH_STORE"] == "postgres":
        on_postgres.fresh(_DATABASE)
    elif os.environ["BENCH_STORE"] == "redis":
        on_redis.fresh()
    for file in FOLDER.glob("growing.db*"):
        file.unlink()


def filled() -> None:
    if os.environ["BENCH_STORE"] == "postgres":
        on_postgres.rest(_DATABASE)
