"""Workers, and the jobs that run."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from onward.base.clock import from_micros
from onward.base.names import serves
from onward.client.record import JobRecord, SessionRecord
from onward.operate.series.points import TimedMeasures, run_percentile
from onward.operate.watching import WatchedStore
from onward.web.asking import WebCall
from onward.web.page_answers import GoneWorkerView, RunningView, WorkersAnswer, WorkerView
from onward.web.pages.overview import workers_summary

__all__ = ["workers"]

_MOST_RUNNING = 50
_PAGE_SIZE = 4096  # bytes, of the kernel's numbers
_SLOW = 10  # times as long as 95 of 100 runs
_AT_LEAST = timedelta(minutes=1)


def workers(asked: WebCall) -> WorkersAnswer:
    look = asked.parts.pictures.picture().look
    running = [record for record in look.running if asked.user.sees(record.queue)]
    measures = asked.parts.pictures.last_hour()
    return WorkersAnswer(
        at=look.at,
        summary=workers_summary(look.workers),
        workers=[_worker(asked, each) for each in sorted(look.workers, key=lambda each: (each.host, each.pid))],
        running=[_running(record, look, measures) for record in running],
        more_running=len(look.running) >= _MOST_RUNNING,
        gone=[
            GoneWorkerView(host=each.worker.host, pid=each.worker.pid, at=each.at, cause=each.cause)
            for each in look.deaths.gone
        ],
    )


def _worker(asked: WebCall, worker: SessionRecord) -> WorkerView:
    told = worker.description
    queues = () if told is None else told.queues
    if asked.user.queues is not None:
        queues = tuple(each for each in queues if serves(asked.user.queues, each))
    return WorkerView(
        owner=worker.owner,
        host=worker.host,
        pid=worker.pid,
        version=worker.version,
        build="" if told is None else told.build,
        alive=worker.alive,
        renewed_at=worker.renewed_at,
        expires_at=worker.expires_at,
        started_at=None if told is None or not told.started else from_micros(told.started),
        busy=worker.leases,
        slots=None if told is None else told.concurrency,
        queues=list(queues),
        strict=told is not None and told.strict,
        jobs=None if told is None or told.jobs is None else len(told.jobs),
        inside=told is not None and not told.supervisor,
        rss=_rss(worker),
    )


def _running(record: JobRecord, look: WatchedStore, measures: Sequence[TimedMeasures]) -> RunningView:
    worker = next((each for each in look.workers if each.owner == record.owner), None)
    p95 = run_percentile(measures, record.job, 0.95)
    ran = timedelta(0) if record.started_at is None else look.at - record.started_at
    return RunningView(
        id=record.id,
        name=record.name,
        queue=record.queue,
        attempt=record.attempts + 1,
        started_at=record.started_at,
        owner=record.owner,
        host="" if worker is None else worker.host,
        pid=None if worker is None else worker.pid,
        progress=None if record.progress is None else record.progress.fraction,
        progress_note="" if record.progress is None else record.progress.note or "",
        p95=p95,
        slow=p95 is not None and ran > _AT_LEAST and ran.total_seconds() > _SLOW * p95,
        stack_here=worker is not None and worker.host == platform.node(),
        command=f"onward job stack {record.id}",
    )


def _rss(worker: SessionRecord) -> int | None:
    """Return how much memory a process of this machine occupies."""
    if worker.host != platform.node() or not worker.alive:
        return None
    try:
        return int(Path(f"/proc/{worker.pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_SIZE
    except (OSError, ValueError, IndexError):
        return None
