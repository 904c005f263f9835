"""What contenders on Redis share: the server that the bench started, which everybody finds empty."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


def url() -> str:
    return os.environ["BENCH_REDIS"]


def apart(package: str) -> None:
    """Use a package that was installed in a folder of its own, because it cannot live with the versions of the others."""
    folder = str(Path(sys.prefix) / "apart" / package)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ["PYTHONPATH"]])


def client() -> Any:
    import redis

    # A server that held ten million jobs takes its time to be empty.
    return redis.Redis.from_url(url(), socket_timeout=300)


def fresh() -> None:
    """Empty, and so is the server's file: it would be written anew in the middle of somebody's measure."""
    with client() as server:
        server.flushall()
        server.execute_command("BGREWRITEAOF")
        while _is_rewriting(server.info("persistence")):
            time.sleep(0.01)


def _is_rewriting(said: dict[str, Any]) -> bool:
    return bool(said["aof_rewrite_in_progress"] or said["aof_rewrite_scheduled"])
