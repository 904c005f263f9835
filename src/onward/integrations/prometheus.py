"""Metrics of a program, for Prometheus: what its process has counted, and what its store holds.

Workers that ``onward worker`` runs have ``--listen`` instead.  Neither needs a package: `Collector` is for programs with
`prometheus-client` and its registry.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from onward.app import Onward
from onward.operate.store_metrics import StoreMetrics
from onward.telemetry import families
from onward.telemetry.exposition import CONTENT_TYPE, FamilyValues, MetricValue, build_info, exposition, of_numbers

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["CONTENT_TYPE", "Collector", "text"]

_stores: weakref.WeakKeyDictionary[Onward, StoreMetrics] = weakref.WeakKeyDictionary()


def text(jobs: Onward) -> str:
    """Return the metrics of this process and of its store as text, to be served as `CONTENT_TYPE`.

    It looks at the store at most every 15 seconds.  If the store does not answer, its part is missing and
    ``onward_store_up`` is 0; this function does not raise for that.
    """
    return exposition(_values(jobs))


class Collector:
    """Adds the same metrics to a registry of `prometheus-client`: ``REGISTRY.register(Collector(jobs))``."""

    def __init__(self, jobs: Onward) -> None:
        self._jobs = jobs

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a registry that asks for names must not look at the store."""
        return ()

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import Metric

        for family, values in _values(self._jobs):
            if not values:
                continue
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for value in values:
                named = dict(zip(family.labels, value.labels, strict=True))
                for suffix, more, number in value.numbers():
                    metric.add_sample(f"{family.name}{suffix}", {**named, **dict(more)}, number)
            yield metric


def _values(jobs: Onward) -> Iterator[FamilyValues]:
    store = _stores.setdefault(jobs, StoreMetrics(jobs.backend))
    held = store.samples()
    yield from of_numbers(jobs.metrics.numbers())
    yield families.STORE_UP, [MetricValue((), int(store.is_up))]
    yield families.EVENTS_DROPPED, [MetricValue((), jobs.telemetry.dropped)]
    yield build_info()
    yield from held
