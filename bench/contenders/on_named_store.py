"""What contenders share that run on the store which the bench names: SQLite, PostgreSQL or Redis."""

from __future__ import annotations

import os

from bench.body import FOLDER
from bench.contenders import on_postgres, on_redis

__all__ = ["NamedStore"]


class NamedStore:
    """A file or a database of one contender's own; the Redis server is everybody's, one after the other."""

    def __init__(self, name: str) -> None:
        self._name = name

    def url(self) -> str:
        match os.environ["BENCH_STORE"]:
            case "postgres":
                return on_postgres.url(f"onward_{self._name}")
            case "redis":
                return on_redis.url()
        return f"sqlite:///{FOLDER}/{self._name}.db"

    def reset(self) -> None:
        match os.environ["BENCH_STORE"]:
            case "postgres":
                on_postgres.fresh(f"onward_{self._name}")
            case "redis":
                on_redis.fresh()
        for file in FOLDER.glob(f"{self._name}.db*"):
            file.unlink()

    def filled(self) -> None:
        """Let the server do now what it does now and then."""
        if os.environ["BENCH_STORE"] == "postgres":
            on_postgres.rest(f"onward_{self._name}")
