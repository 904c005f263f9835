"""litequeue: a queue on SQLite without a worker; the loop is the smallest a user would write.

It runs at synchronous=NORMAL: a power cut may take the last commits with it.
"""

from __future__ import annotations

import json
import time
from typing import Any

from litequeue import LiteQueue

from bench.body import FOLDER, noop, payload

CONFIGS = {"1 process": 1, "2 processes": 2}

FILE = FOLDER / "litequeue.db"


def reset() -> None:
    for file in FOLDER.glob("litequeue.db*"):
        file.unlink()


def fill(n: int) -> None:
    reset()
    enqueue(n)


def enqueue(n: int) -> None:
    queue = LiteQueue(str(FILE))
    for number in range(n):
        queue.put(json.dumps(payload(number)))


def sender() -> Any:
    queue = LiteQueue(str(FILE))
    return lambda sent: queue.put(json.dumps(payload(1, sent)))


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
        queue.done(message.message_id, claim_id=message.claim_id)
