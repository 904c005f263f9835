"""Processes that all want the write lock at once: every enqueue gets it in time, and a unique key goes to one."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from onward.backend import Query
from onward.backends.sqlite import SqliteBackend
from onward.testing.contract.builders import an_envelope
from tests.proof.crowd import Common, Tell, in_processes
from tests.proof.ledger import Ledger, integrity_of

__all__ = ["of_one_key_each_round", "one_by_one"]


def one_by_one(file: Path, *, seconds: float, processes: int = 16, tell: Tell) -> Ledger:
    """Every process enqueues single jobs for so long; each job it was told is stored, is."""
    records = file.parent / "records"
    records.mkdir()
    with closing(SqliteBackend.open(file)) as backend:
        errors = in_processes(processes, _enqueue_for, file, records, seconds, tell=tell)
        stored = _stored_ids(backend)
    told = [line.split() for record in records.iterdir() for line in record.read_text().splitlines()]
    accepted = {job_id for job_id, _ in told}
    waits = sorted(float(wait) for _, wait in told)
    return Ledger(
        "enqueueing one by one, sqlite",
        {
            "jobs": len(told),
            "processes": processes,
            "enqueues/s": round(len(told) / seconds),
            "median ms": 1000 * waits[len(waits) // 2] if waits else 0.0,
            "slowest ms": 1000 * waits[-1] if waits else 0.0,
            "seconds": seconds,
        },
        {
            "lost": len(accepted - stored),
            "stored twice": len(told) - len(accepted),
            "never answered": len(stored - accepted),
        },
        errors + integrity_of(file),
    )


def of_one_key_each_round(file: Path, *, rounds: int, processes: int, tell: Tell) -> Ledger:
    """In every round all processes enqueue a job with the same unique key, at the same moment."""
    with closing(SqliteBackend.open(file)) as backend:
        errors = in_processes(processes, _enqueue_rivals, file, rounds, tell=tell)
        stored = len(_stored_ids(backend))
    return Ledger(
        "one key, many rivals, sqlite",
        {"keys": rounds, "rivals for each": processes},
        {"keys held twice": max(0, stored - rounds), "keys not given": max(0, rounds - stored)},
        errors,
    )


def _enqueue_for(number: int, file: Path, records: Path, seconds: float, common: Common) -> None:
    deadline = time.monotonic() + seconds
    with closing(SqliteBackend.open(file)) as backend, (records / str(number)).open("w") as record:
        while (begun := time.monotonic()) < deadline and not common.stop.is_set():
            (answer,) = backend.enqueue([an_envelope()])
            record.write(f"{answer.id} {time.monotonic() - begun:.6f}\n")
            common.add()


def _enqueue_rivals(number: int, file: Path, rounds: int, common: Common) -> None:
    with closing(SqliteBackend.open(file)) as backend:
        for key in range(rounds):
            common.meet()
            backend.enqueue([an_envelope(unique_key=f"key-{key}")])


def _stored_ids(backend: SqliteBackend) -> set[str]:
    ids: set[str] = set()
    page = backend.list(Query(limit=1_000))
    while page:
        ids.update(job.id for job in page)
        page = backend.list(Query(limit=1_000, after=page[-1].id))
    return ids
