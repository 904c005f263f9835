"""Turns of plain jobs, as many as each line of the input says, until it ends: prints the microseconds that each took.

Runs with the source of any commit: ``python plain_turns.py sqlite|mariadb PLACE JOBS TURNS``; JOBS are those of a turn.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

from onward.backend import Claim, Session, Settlement, Turn
from onward.base.clock import SystemClock
from onward.base.ids import IdMaker
from onward.job.envelope import Letter, seal


def _opened(store: str, place: str) -> Any:
    if store == "sqlite":
        from onward.backends.sqlite import SqliteBackend

        return SqliteBackend.open(place)
    from onward.backends.mysql import MySQLBackend

    backend = MySQLBackend.from_url(place)
    backend.connect()
    return backend


def main() -> None:
    store, place = sys.argv[1:3]
    jobs, turns = map(int, sys.argv[3:])
    backend, clock = _opened(store, place), SystemClock()
    backend.empty()
    new_id, now = IdMaker(clock), clock.micros()
    letters = [
        Letter(
            id=new_id(), namespace="default", queue="default", job="work", max_retries=0, max_crashes=3, enqueued_at=now
        )
        for _ in range(jobs * (turns + 2))
    ]
    for start in range(0, len(letters), 1000):
        backend.enqueue([seal(letter) for letter in letters[start : start + 1000]])
    backend.open_session(Session(owner="bench"))
    claim = Claim(queues=("default",), limit=jobs)
    leases = backend.turn(Turn(owner="bench", claim=claim)).leases
    gc.collect()
    gc.disable()
    print("ready", flush=True)
    for line in sys.stdin:
        took = []
        for _ in range(int(line)):
            turn = Turn(owner="bench", settlements=[Settlement.ack(lease) for lease in leases], claim=claim)
            began = time.thread_time_ns()
            leases = backend.turn(turn).leases
            took.append((time.thread_time_ns() - began) / 1000)
            assert len(leases) == jobs
        print(json.dumps(took), flush=True)
    backend.close()


if __name__ == "__main__":
    main()
