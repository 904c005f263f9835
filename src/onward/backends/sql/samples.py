"""Samples in a database: one row for each minute and reporter.

mark_minute       insert the row of a minute's sampler; one row if that was done, none if it is there
store_sample      replace the row of a minute and a reporter
drop_stretch      remove the rows that began in a stretch
store_merged      insert the row of a stretch
series            the rows that began in a span of time, by time and reporter
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from onward.backend import SAMPLER, Renewal, Sample, SeriesRow
from onward.backends.sql.statements import SqlTransaction
from onward.contract.samples import is_within, kept_since, merged_between, open_between, with_sample

__all__ = ["SqlSamples", "series_between"]

Tx = TypeVar("Tx", bound=SqlTransaction)
Result = TypeVar("Result")


class SqlSamples(Generic[Tx]):
    """Renews sessions, and keeps the samples that come with that in a transaction of their own."""

    @abstractmethod
    def _write(self, act: Callable[[Tx], Result]) -> Result: ...

    @abstractmethod
    def _renew(self, owner: str) -> Renewal:
        """Renew a session."""

    def extend(self, owner: str, *, sample: Sample | None = None) -> Renewal:
        renewal = self._renew(owner)
        return renewal if sample is None else with_sample(renewal, lambda: self._write(lambda tx: _keep(tx, sample)))


def _keep(tx: SqlTransaction, sample: Sample) -> tuple[int, bool]:
    """Store a sample and what is merged with it; return the time, and whether its sender is the sampler of the minute."""
    now: int = tx.ask("clock").value()
    marked = None
    if is_within(now, open_between(sample.minute)):
        marked = None if sample.reporter == SAMPLER else tx.ask("mark_minute", at=sample.minute)
        tx.ask("store_sample", at=sample.minute, reporter=sample.reporter, data=sample.data)
    for start, width, data in sample.merged:
        if is_within(now, merged_between(start, width)):
            tx.ask("drop_stretch", first=start, before=start + width)
            tx.ask("store_merged", at=start, width=width, data=data)
    if sample.reporter == SAMPLER:
        tx.ask("drop_stretch", first=0, before=kept_since(now))
    return now, marked is not None and bool(marked.rows())


def series_between(tx: SqlTransaction, span: tuple[int, int] | None, at_most: int) -> tuple[SeriesRow, ...]:
    """Return the rows that began in this span of time."""
    if span is None:
        return ()
    found = tx.ask("series", first=span[0], before=span[1], at_most=at_most).rows()
    return tuple(
        SeriesRow(at=at, width=width, reporter=reporter, data=bytes(data)) for at, width, reporter, data in found
    )
