"""litequeue: a queue on SQLite without a worker; the loop is the smallest a user would write.

It runs at synchronous=NORMAL: a power cut may take the last commits with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from litequeue import LiteQueue

from bench.body import FOLDER, noop, payload

SMALL = "2 processes"
CONFIGS = {"1 process": 1, "2 processes": 2}

FILE = FOLDER / "litequeue.db"


def reset() -> None:
    for file in FOLDER.glob("litequeue.db*"):
        file.unlink()


@contextmanager
def opened() -> Iterator[Any]:
    yield LiteQueue(str(FILE))


def enqueue(queue: Any, n: int) -> None:
    for number in range(n):
        queue.put(json.dumps(payload(number)))


@contextmanager
def sender() -> Iterator[Any]:
    queue = LiteQueue(str(FILE))
    yield lambda sent: queue.put(json.dumps(payload(1, sent)))


def processes(config: str) -> int:
    return CONFIGS[config]


def serve(config: str) -> None:
    queue = LiteQueue(str(FILE))
    while True:
        message = queue.pop()
        if message is None:
            time.sleep(0.01)
            continue
        noop(json.loads(message.data))
        if hasattr(message, "claim_id"):  # from 0.10 on it fences
            queue.done(message.message_id, claim_id=message.claim_id)
        else:
            queue.done(message.message_id)
