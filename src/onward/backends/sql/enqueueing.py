"""Storing envelopes, the part that all SQL stores share: which of a batch may go together, and the answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from onward.backend import Enqueued
from onward.base.clock import SECOND
from onward.job.envelope import Envelope

__all__ = ["StartOver", "due_queues", "existing", "first_of_each", "is_simple"]

_SOON = SECOND  # idle workers are woken for jobs that are due within this time


class StartOver(Exception):
    """Another transaction changed what this one relies on: roll it back, and run it again."""


def is_simple(envelopes: Sequence[Envelope], *, retried: bool) -> bool:
    """Return whether only a taken id can keep any of them from being stored: then one statement stores all."""
    if len(envelopes) == 1:
        return not retried and envelopes[0].unique_key is None and envelopes[0].flow is None
    return (
        not retried
        and all(envelope.unique_key is None and envelope.flow is None for envelope in envelopes)
        and len({envelope.id for envelope in envelopes}) == len(envelopes)
    )


def existing(job_id: str) -> Enqueued:
    """Return the answer for a job that is live already."""
    return Enqueued(job_id, created=False, existing_id=job_id)


def due_queues(envelopes: Iterable[Envelope]) -> set[str]:
    """Return the queues that have work now, or soon: by this host's clock, because it is only a hint."""
    soon = time.time_ns() // 1000 + _SOON
    return {
        each.queue for each in envelopes if each.delay <= _SOON and (each.not_before is None or each.not_before <= soon)
    }


def first_of_each(waiting: Mapping[int, Envelope]) -> list[int]:
    """Return the first of every id and key, in the order of the keys: so two batches with the same keys cannot deadlock."""
    ids: set[str] = set()
    keys: set[str] = set()
    first = []
    for at, envelope in waiting.items():
        if envelope.id not in ids and envelope.unique_key not in keys:
            first.append(at)
        ids.add(envelope.id)
        if envelope.unique_key is not None:
            keys.add(envelope.unique_key)
    return sorted(first, key=lambda at: waiting[at].unique_key or "")
