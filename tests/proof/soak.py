"""Mixed jobs through a worker that is stopped and started all the time: none is lost, none is settled twice."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onward import JobContext, NoDelay, Onward, Snooze, State
from onward.base.interruption import uninterrupted
from onward.client.bound_job import JobHandle
from tests.proof.crowd import Tell
from tests.proof.ledger import Ledger, damage_of, scheme_of

__all__ = ["of_a_worker"]

_PATIENCE = 60.0
_POOL = 5  # connections that a process opens when they are first needed, which may be late
# Of a hundred jobs, so many of each kind.
_MIX = {
    "fine": 30,
    "coroutine": 20,
    "fails_once": 12,
    "fails": 6,
    "snoozes": 6,
    "cancelled": 6,
    "timed_out": 2,
    "unique": 9,
    "idempotent": 9,
}


class _Labour:
    """The jobs, and what became of them."""

    def __init__(self, jobs: Onward) -> None:
        self._jobs = jobs
        self._lock = threading.Lock()
        self.deliveries: Counter[tuple[str, int]] = Counter()
        self.runs: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()
        self.handles: dict[str, list[JobHandle[Any]]] = {kind: [] for kind in _MIX}
        self._random = random.Random(7)
        self._define(jobs)

    def enqueue(self, count: int) -> None:
        for kind, number in Counter(self._random.choices(list(_MIX), list(_MIX.values()), k=count)).items():
            self.handles[kind] += self._enqueue(kind, number)

    def cancel(self, count: int) -> None:
        """Some of the last, whether they wait, run or have ended."""
        for handle in self.handles["cancelled"][-count:]:
            if self._random.random() < 0.7:
                handle.cancel()

    def created(self) -> int:
        return sum(handle.created for handles in self.handles.values() for handle in handles)

    def _enqueue(self, kind: str, number: int) -> list[JobHandle[Any]]:
        if kind == "unique":
            return [self._unique.using(unique_key=f"key {self._random.randrange(5)}").enqueue() for _ in range(number)]
        if kind == "idempotent":
            handles = []
            for _ in range(number // 2 + 1):
                key = f"{self._random.random()}"
                handles += [self._once.using(idempotency_key=key).enqueue(key) for _ in range(2)]
            return handles
        return list(self._by_kind[kind].enqueue_many([()] * number))

    def _note(self, ctx: JobContext) -> None:
        with self._lock:
            self.deliveries[ctx.id, ctx.delivery] += 1
            self.runs[ctx.id] += 1

    def _define(self, jobs: Onward) -> None:
        self._by_kind: dict[str, Any] = {
            job.name: job for job in (*self._plain(jobs), *self._failing(jobs), *self._delayed(jobs))
        }
        self._unique, self._once = self._keyed(jobs)

    def _plain(self, jobs: Onward) -> Sequence[Any]:
        @jobs.job
        def fine(ctx: JobContext) -> None:
            self._note(ctx)

        @jobs.job
        async def coroutine(ctx: JobContext) -> None:
            await asyncio.sleep(0)
            self._note(ctx)

        @jobs.job
        def cancelled(ctx: JobContext) -> None:
            self._note(ctx)

        return fine, coroutine, cancelled

    def _failing(self, jobs: Onward) -> Sequence[Any]:
        @jobs.job(max_retries=3, retry=NoDelay())
        def fails_once(ctx: JobContext) -> None:
            self._note(ctx)
            if ctx.attempt == 1:
                raise ValueError(ctx.id)

        @jobs.job
        async def fails(ctx: JobContext) -> None:
            self._note(ctx)
            raise ValueError(ctx.id)

        return fails_once, fails

    def _delayed(self, jobs: Onward) -> Sequence[Any]:
        @jobs.job
        def snoozes(ctx: JobContext) -> None:
            self._note(ctx)
            if self.runs[ctx.id] == 1:
                raise Snooze(0.01)

        @jobs.job(timeout=0.002)
        def timed_out(ctx: JobContext) -> None:
            with uninterrupted():
                self._note(ctx)
            while True:
                pass

        return snoozes, timed_out

    def _keyed(self, jobs: Onward) -> tuple[Any, Any]:
        @jobs.job
        def unique(ctx: JobContext) -> None:
            self._note(ctx)

        @jobs.job
        def once(ctx: JobContext, key: str) -> None:
            self._note(ctx)
            with self._lock:
                self.keys[key] += 1

        return unique, once

    def flaws(self) -> dict[str, int]:
        """Everything that ran too often or not often enough."""
        expected = {"fails_once": 2, "snoozes": 2}
        wrong = Counter[str]()
        for kind, handles in self.handles.items():
            for handle in handles:
                runs = self.runs[handle.id]
                if kind in ("cancelled", "idempotent"):
                    wrong["ran more than once"] += runs > 1
                elif handle.created:
                    wrong["ran too often"] += runs > expected.get(kind, 1)
                    wrong["ran too rarely"] += runs < expected.get(kind, 1)
        wrong["keys that ran twice"] = sum(count > 1 for count in self.keys.values())
        wrong["keys that never ran"] = sum(handle.created for handle in self.handles["idempotent"][::2]) - len(
            self.keys
        )
        wrong["deliveries that ran twice"] = sum(count > 1 for count in self.deliveries.values())
        return dict(wrong)


def of_a_worker(url: str, *, jobs: int, restarts: int, tell: Tell) -> Ledger:
    """So many mixed jobs, and so many times the worker is stopped in the middle of them."""
    pool = 0 if scheme_of(url) in ("sqlite", "memory") else _POOL
    begun = time.monotonic()
    with Onward(url, retention={"completed": "1w"}) as app:
        labour = _Labour(app)
        claimed = settled = 0
        at_first: tuple[int, ...] = ()
        for restart in range(restarts):
            labour.enqueue(jobs // restarts)
            worker = app.worker(concurrency=4).start()
            labour.cancel(jobs // restarts // 20)
            last = restart == restarts - 1
            if last:
                _wait(lambda: not _live(app))
            else:
                worker.milestones.wait_for("settled", max(1, jobs // restarts * 2 // 3), timeout=_PATIENCE)
            worker.stop(timeout=0)
            worker.stop()
            claimed += worker.milestones.count("claimed")
            settled += worker.milestones.count("settled")
            del worker
            tell(settled)
            if restart == restarts // 3:
                at_first = _belongings()
        growth = [now - before for now, before in zip(_belongings(), at_first, strict=True)]
        states = {str(state): count for state, count in app.counts().items() if count}
        flaws = {**labour.flaws(), **_imbalance(app, labour, claimed, settled)}
        created = labour.created()
    flaws |= {
        "lost": created - sum(states.values()),
        "more threads": max(0, growth[0]),
        "more files": max(0, growth[1] - pool),
    }
    name = f"a worker on {scheme_of(url)} that is stopped and started"
    figures = {"jobs": created, "restarts": restarts, "settled": settled, **states}
    return Ledger(name, {**figures, "seconds": time.monotonic() - begun}, flaws, damage_of(url))


def _imbalance(app: Onward, labour: _Labour, claimed: int, settled: int) -> dict[str, int]:
    """What the counters say, against each other and against the store."""
    count, stored = app.metrics.count, app.counts()
    released = sum(record.interruptions for record in _all(app))
    ended = sum(
        count(name)
        for name in ("jobs_succeeded", "jobs_failed", "jobs_snoozed", "jobs_skipped_idempotent", "jobs_cancelled")
    )
    return {
        "leases lost": count("leases_lost"),
        "crashes": count("jobs_crashed"),
        "claimed and not settled": claimed - settled,
        "fetched and not claimed": count("jobs_fetched") - claimed,
        # One that was given back and turned out to be cancelled counts as both.
        "fetched and not counted": min(0, ended + released - count("jobs_fetched")),
        "counted too often": max(0, ended + released - count("jobs_fetched") - count("jobs_cancelled")),
        "completed and not counted": stored[State.COMPLETED]
        - count("jobs_succeeded")
        - count("jobs_skipped_idempotent"),
        "discarded and not counted": stored[State.DISCARDED] - count("jobs_failed_permanently"),
        "failed and neither requeued nor discarded": count("jobs_failed")
        - count("jobs_requeued")
        - count("jobs_failed_permanently"),
    }


def _all(app: Onward) -> list[Any]:
    found: list[Any] = []
    after = None
    while page := app.list(limit=1_000, after=after):
        found += page
        after = page[-1].id
    return found


def _live(app: Onward) -> int:
    counts = app.counts()
    return sum(counts[state] for state in (State.SCHEDULED, State.AVAILABLE, State.EXECUTING, State.RETRYABLE))


def _belongings() -> tuple[int, int]:
    """Threads of ours and open files, once what was stopped is gone."""
    _wait(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("onward-wake")])
    gc.collect()
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("onward-")]
    return len(ours), sum(1 for _ in Path("/proc/self/fd").iterdir())


def _wait(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not fact():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)
