"""Samples: a sorted set that names the rows by time and reporter, and a hash that has them (`scripts/sample.lua`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from onward.backend import Renewal, Sample, SeriesRow
from onward.backends.damage import set_aside_and_repeat
from onward.backends.redis.showing import shown_name
from onward.contract.samples import kept_since, merged_between, open_between, with_sample

__all__ = ["RedisSamples", "series_rows"]

_INSTANT = 8  # bytes before a name, and before a value


class RedisSamples:
    """Renews sessions, and keeps the samples that come with that, in a script of their own."""

    @abstractmethod
    def _run(self, name: str, *arguments: Any, beside: Sequence[bytes] = ()) -> Any: ...

    @abstractmethod
    def _now(self) -> int | None: ...

    @abstractmethod
    def _renew(self, owner: str) -> Renewal:
        """Renew a session."""

    def extend(self, owner: str, *, sample: Sample | None = None) -> Renewal:
        renewal = self._renew(owner)
        return renewal if sample is None else with_sample(renewal, lambda: self._keep_sample(sample))

    @set_aside_and_repeat
    def _keep_sample(self, sample: Sample) -> tuple[int, bool]:
        merged = [(start, width, *merged_between(start, width)) for start, width, _ in sample.merged]
        given = (sample.reporter, sample.minute, *open_between(sample.minute), merged, -kept_since(0))
        beside = [sample.data, *(data for _, _, data in sample.merged)]
        now, is_sampler = self._run("sample", self._now(), *given, beside=beside)
        return int(now), bool(is_sampler)


def series_rows(found: Sequence[Any]) -> Iterator[SeriesRow]:
    """Return rows from their names and values, one after the other; what no script wrote is left out."""
    for name, value in zip(found[::2], found[1::2], strict=True):
        if value is not None and len(name) > _INSTANT <= len(value):
            yield SeriesRow(
                at=int.from_bytes(name[:_INSTANT], "big"),
                width=int.from_bytes(value[:_INSTANT], "big"),
                reporter=shown_name(name[_INSTANT:]),
                data=value[_INSTANT:],
            )
