"""A look at a store as data, for machines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from onward.cli import limits

if TYPE_CHECKING:
    from onward.backend import QueueCounts
    from onward.operate.watching import WatchedStore

__all__ = ["as_data"]


def as_data(look: WatchedStore) -> dict[str, Any]:
    """Return a look for machines."""
    return {
        "at": look.at,
        "ended_per_second": look.rate,
        "counts": look.overview.counts,
        "queues": [_queue(look, each) for each in look.overview.queues],
        "checks": [msgspec.structs.asdict(check) for check in look.checks or () if check.status != "ok"],
        "deaths": look.deaths.as_data(),
        "limits": [limits.as_data(limit) for limit in look.limits],
        "workers": [asdict(worker) for worker in look.workers],
        "running": [
            {
                "id": record.id,
                "name": record.name,
                "queue": record.queue,
                "attempt": record.attempts + 1,
                "owner": record.owner,
                "started_at": record.started_at,
                "progress": record.progress,
            }
            for record in look.running
        ],
    }


def _queue(look: WatchedStore, queue: QueueCounts) -> dict[str, Any]:
    pace = look.pace(queue.name)
    return {
        "queue": queue.name,
        "paused": queue.paused,
        **{str(state): count for state, count in queue.counts.items()},
        "oldest_due": look.age(queue.oldest_due),
        "in_per_second": pace.enters,
        "out_per_second": pace.out,
        "p95": pace.p95,
        "eta": pace.eta,
    }
