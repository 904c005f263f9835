"""Celery with its usual pool: a parent that has imported the application, and forks as many processes as it is told."""

from __future__ import annotations

import os
import sys

from bench.contenders import celery_redis, weight

CONFIGS = {"1 process": 1, "2 processes": 2, "8 processes": 8}

app, work = celery_redis.app, celery_redis.work
reset, opened, enqueue = celery_redis.reset, celery_redis.opened, celery_redis.enqueue

if "worker" in sys.argv:
    weight.carry()


def processes(_config: str) -> int:
    return 1


def serve(config: str) -> None:
    options = ["-P", "prefork", "-c", str(CONFIGS[config]), "-l", "ERROR", "-n", f"{os.getpid()}@bench"]
    options += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    os.execv(sys.executable, [sys.executable, "-m", "celery", "-A", __name__, "worker", *options])  # noqa: S606
