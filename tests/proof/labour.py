"""What every worker of a proof does: enqueue its share, and take turns until no job lives.

Each job is claimed four times: it fails, is given back, is put off, succeeds.  So every kind of move meets every other, and
the counters of a finished job say whether one of them was applied twice or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from onward.backend import Claim, Lease, Query, Session, Settled, Settlement, StoredJob, Turn
from onward.backends.sqlite import SqliteBackend
from onward.job.states import State
from onward.testing.contract.builders import some_envelopes
from tests.proof.crowd import Common, Tell, in_processes, in_threads
from tests.proof.ledger import Ledger, integrity_of

__all__ = ["CLAIMS_PER_JOB", "of_processes", "of_threads"]

_FATES = (
    lambda lease: Settlement.nack(lease, 0),
    Settlement.release,
    lambda lease: Settlement.snooze(lease, 0),
    Settlement.ack,
)
CLAIMS_PER_JOB = len(_FATES)

_BATCH = 100
_QUEUE = ("default",)


class Crew(NamedTuple):
    """Who does how much, and where it is written down."""

    records: Path
    jobs: int
    processes: int
    threads: int

    def share(self, worker: int) -> int:
        workers = self.processes * self.threads
        return self.jobs // workers + (worker < self.jobs % workers)


def of_processes(file: Path, *, jobs: int, processes: int = 4, threads: int = 4, tell: Tell) -> Ledger:
    """Processes on one file, each with threads on one backend object."""
    crew = Crew(file.parent / "records", jobs, processes, threads)
    crew.records.mkdir()
    with closing(SqliteBackend.open(file)) as backend:
        begun = time.monotonic()
        errors = in_processes(processes, _process, crew, file, tell=tell)
        seconds = time.monotonic() - begun
        ledger = _ledger("processes, sqlite", crew, backend, errors, seconds)
    ledger.errors.extend(integrity_of(file))
    return ledger


def of_threads(backend: Any, records: Path, *, name: str, jobs: int, threads: int = 16, tell: Tell) -> Ledger:
    """Threads of one process on one backend object."""
    crew = Crew(records, jobs, 1, threads)
    records.mkdir()
    begun = time.monotonic()
    errors = in_threads(threads, _work, crew, backend, tell=tell)
    return _ledger(f"threads, {name}", crew, backend, errors, time.monotonic() - begun)


def _process(number: int, crew: Crew, file: Path, common: Common) -> None:
    workers = range(number * crew.threads, (number + 1) * crew.threads)
    with closing(SqliteBackend.open(file)) as backend, ThreadPoolExecutor(crew.threads) as pool:
        for worker in workers:
            pool.submit(common.attempt, _work, worker, crew, backend)


def _work(worker: int, crew: Crew, backend: Any, common: Common) -> None:
    """Enqueue and take turns, writing down every claim and every answer."""
    owner = f"worker-{worker}"
    left = crew.share(worker)
    held: Sequence[Lease] = ()
    backend.open_session(Session(owner=owner, lease_for=timedelta(days=1)))
    with (
        (crew.records / f"{owner}.claims").open("w") as claims,
        (crew.records / f"{owner}.answers").open("w") as answers,
    ):
        while not common.stop.is_set():
            if left:
                backend.enqueue(some_envelopes(min(left, _BATCH)))
                left -= min(left, _BATCH)
            settlements = [_FATES[lease.token - 1](lease) for lease in held]
            result = backend.turn(Turn(owner=owner, settlements=settlements, claim=Claim(queues=_QUEUE, limit=_BATCH)))
            answers.writelines(_answered(held, result.settled))
            claims.writelines(f"{lease.envelope.id} {lease.token}\n" for lease in result.leases)
            common.add(len(result.leases))
            assert common.done.value <= crew.jobs * CLAIMS_PER_JOB, (
                "jobs are claimed more often than they were put back"
            )
            held = result.leases
            if not held and not left:
                if not any(queue.live for queue in backend.queues()):
                    return
                backend.wait(_QUEUE, 0.05)


def _answered(leases: Iterable[Lease], answers: Iterable[Settled]) -> list[str]:
    pairs = zip(leases, answers, strict=True)
    return [f"{lease.envelope.id} {lease.token} {answer.answer}\n" for lease, answer in pairs]


def _ledger(name: str, crew: Crew, backend: Any, errors: list[str], seconds: float) -> Ledger:
    claims = _lines(crew.records, "*.claims")
    answers = _lines(crew.records, "*.answers")
    applied = [line for line in answers if line.endswith(" applied")]
    right = sum(_as_it_should_be(job) for job in _all_jobs(backend))
    return Ledger(
        name,
        {
            "jobs": crew.jobs,
            "claims": len(claims),
            "processes": crew.processes,
            "threads in each": crew.threads,
            "claims/s": round(len(claims) / seconds),
            "seconds": seconds,
        },
        {
            "lost": crew.jobs - right,
            "claimed twice": len(claims) - len(set(claims)),
            "settled twice": len(applied) - len(set(applied)),
            "refused": len(answers) - len(applied),
        },
        errors,
    )


def _as_it_should_be(job: StoredJob) -> bool:
    """Every move was applied exactly once."""
    seen = (job.state, job.delivery, job.attempts, job.interruptions, job.crashes, len(job.runs))
    return seen == (State.COMPLETED, CLAIMS_PER_JOB, 2, 1, 0, 1)


def _all_jobs(backend: Any) -> Iterable[StoredJob]:
    page = backend.list(Query(limit=1_000))
    while page:
        yield from page
        page = backend.list(Query(limit=1_000, after=page[-1].id))


def _lines(folder: Path, pattern: str) -> list[str]:
    return [line for file in folder.glob(pattern) for line in file.read_text().splitlines()]
