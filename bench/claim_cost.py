"""What a turn costs in a file with a long history and a full calendar, beside an empty one."""

from __future__ import annotations

import time
from pathlib import Path

from onward.backend import Claim, Session, Settlement, Turn
from onward.backends.sqlite import SqliteBackend
from onward.base.ids import IdMaker
from onward.job.envelope import Letter, seal

BATCH = 100

_BODY = seal(
    Letter(id="0" * 32, namespace="default", queue="default", job="work", max_retries=0, max_crashes=3, enqueued_at=1),
).data


def fill(file: Path, count: int) -> None:
    """So many finished jobs, and as many due in a year."""
    backend = SqliteBackend.open(file)
    with backend._connections.writing() as connection:  # noqa: SLF001  a million by the front door would take all day
        connection.execute(
            """INSERT INTO onward_finished (id, state, finished_at, queue, job, rank, delivery, attempts, crashes,
                      interruptions, max_crashes, available_at, enqueued_at, started_at, owner, waits, idempotency_ttl,
                      sealed)
               WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
               SELECT printf('0%031x', n), 'completed', n, 'default', 'work', 0, 1, 1, 0, 0, 3, n, n, n, 'w', 0, 0, ?2
                 FROM number""",
            (count, _BODY),
        )
        connection.execute(
            """INSERT INTO onward_jobs (id, queue, state, rank, available_at, max_crashes, enqueued_at, idempotency_ttl,
                                        job, sealed)
               WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < ?1)
               SELECT printf('1%031x', n), 'default', 'scheduled', 0, ?3 + n, 3, n, 0, 'work', ?2 FROM number""",
            (count, _BODY, backend.clock.micros() + 31_536_000_000_000),
        )
    backend.close()


def turns(file: Path, count: int) -> list[float]:
    """Milliseconds of each of so many turns that settle a batch and claim the next."""
    backend = SqliteBackend.open(file)
    ids = IdMaker(backend.clock)
    now = backend.clock.micros()
    letters = [
        Letter(
            id=ids(), namespace="default", queue="default", job="work", max_retries=0, max_crashes=3, enqueued_at=now
        )
        for _ in range(BATCH * (count + 1))
    ]
    for start in range(0, len(letters), 1000):
        backend.enqueue([seal(letter) for letter in letters[start : start + 1000]])
    backend.open_session(Session(owner="bench"))
    claim = Claim(queues=("default",), limit=BATCH)
    leases = backend.turn(Turn(owner="bench", claim=claim)).leases
    took: list[float] = []
    for _ in range(count):
        settlements = [Settlement.ack(lease) for lease in leases]
        started = time.perf_counter()
        leases = backend.turn(Turn(owner="bench", settlements=settlements, claim=claim)).leases
        took.append((time.perf_counter() - started) * 1000)
    backend.close()
    return took
