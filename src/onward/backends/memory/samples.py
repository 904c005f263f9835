"""Samples in memory: rows by minute and reporter."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager

from onward.backend import SAMPLER, Renewal, Sample, SeriesRow
from onward.backends.memory.store import MemoryStore
from onward.contract.samples import is_within, kept_since, merged_between, open_between, with_sample

__all__ = ["MemorySamples", "series_between"]


class MemorySamples:
    """Renews sessions, and keeps the samples that come with that."""

    _store: MemoryStore

    @abstractmethod
    def _writing(self) -> AbstractContextManager[int]: ...

    @abstractmethod
    def _renew(self, owner: str) -> Renewal:
        """Renew a session."""

    def extend(self, owner: str, *, sample: Sample | None = None) -> Renewal:
        renewal = self._renew(owner)
        return renewal if sample is None else with_sample(renewal, lambda: self._keep_sample(sample))

    def _keep_sample(self, sample: Sample) -> tuple[int, bool]:
        with self._writing() as now:
            return now, _keep(self._store, sample, now)


def _keep(store: MemoryStore, sample: Sample, now: int) -> bool:
    """Store a sample and what is merged with it; return whether its sender is the sampler of the minute."""
    rows = store.series
    is_sampler = False
    if is_within(now, open_between(sample.minute)):
        if sample.reporter != SAMPLER and (sample.minute, SAMPLER) not in rows:
            rows[sample.minute, SAMPLER] = SeriesRow(at=sample.minute, width=0, reporter=SAMPLER, data=b"")
            is_sampler = True
        rows[sample.minute, sample.reporter] = SeriesRow(
            at=sample.minute, width=0, reporter=sample.reporter, data=sample.data
        )
    for start, width, data in sample.merged:
        if is_within(now, merged_between(start, width)):
            for key in [key for key in rows if start <= key[0] < start + width]:
                del rows[key]
            rows[start, SAMPLER] = SeriesRow(at=start, width=width, reporter=SAMPLER, data=data)
    if sample.reporter == SAMPLER:
        for key in [key for key in rows if key[0] < kept_since(now)]:
            del rows[key]
    return is_sampler


def series_between(store: MemoryStore, span: tuple[int, int] | None, at_most: int) -> tuple[SeriesRow, ...]:
    """Return the rows that began in this span of time."""
    if span is None:
        return ()
    first, last = span
    keys = sorted(key for key in store.series if first <= key[0] < last)
    return tuple(store.series[key] for key in keys[:at_most])
