"""Metrics as text, for Prometheus and all that reads its format (version 0.0.4).

A label may have any value: what would end its quotes or its line is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from onward.telemetry import families
from onward.telemetry.families import Family
from onward.telemetry.numbers import BUCKETS, Histogram, Numbers, Pair
from onward.version import __version__, build

__all__ = ["CONTENT_TYPE", "FamilyValues", "MetricValue", "build_info", "exposition", "of_numbers"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BOUNDS = (*(str(2**power / 1000) for power in range(BUCKETS - 1)), "+Inf")
"""The upper ends of the buckets in seconds, as labels."""

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class MetricValue(NamedTuple):
    """A value of a family, with the values of its labels.  A pair is what a summary has: how many, and their sum."""

    labels: tuple[str, ...]
    value: float | Histogram | tuple[int, float]

    def numbers(self) -> Iterator[tuple[str, tuple[tuple[str, str], ...], float]]:
        """Yield the numbers that it is written as: a suffix of the family's name, a label besides, the number."""
        if isinstance(self.value, Histogram):
            below = 0
            for bound, count in zip(BOUNDS, self.value.buckets, strict=True):
                below += count
                yield "_bucket", (("le", bound),), below
            yield "_sum", (), self.value.total_ms / 1000
            yield "_count", (), below
        elif isinstance(self.value, tuple):
            yield "_sum", (), self.value[1]
            yield "_count", (), self.value[0]
        else:
            yield "", (), self.value


FamilyValues = tuple[Family, Sequence[MetricValue]]


def exposition(parts: Iterable[FamilyValues]) -> str:
    """Return the text of all families that have samples."""
    return "".join(f"{line}\n" for family, samples in parts if samples for line in _lines(family, samples))


def of_numbers(counted: Mapping[Pair, Numbers]) -> Iterator[FamilyValues]:
    """Yield the families of what was counted.  A counter that has not moved is 0, so that its first step is seen."""
    pairs = sorted(counted.items())
    for name, family in families.COUNTED.items():
        yield family, [MetricValue(pair, numbers.counters.get(name, 0)) for pair, numbers in pairs]
    yield families.RUN_SECONDS, _by_queue((queue, numbers.run) for (queue, _), numbers in pairs)
    yield families.WAIT_SECONDS, _by_queue((queue, numbers.wait) for (queue, _), numbers in pairs)


def build_info() -> FamilyValues:
    """Return what runs here: the version of Onward, and the build as series and descriptions of workers name it."""
    return families.BUILD_INFO, [MetricValue((__version__, build()), 1)]


def _by_queue(times: Iterable[tuple[str, Histogram]]) -> list[MetricValue]:
    sums: dict[str, Histogram] = {}
    for queue, histogram in times:
        sums[queue] = sums[queue].added(histogram) if queue in sums else histogram
    return [MetricValue((queue,), histogram) for queue, histogram in sums.items()]


def _lines(family: Family, samples: Iterable[MetricValue]) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"
    for each in samples:
        named = tuple(zip(family.labels, each.labels, strict=True))
        for suffix, more, number in each.numbers():
            yield _line(f"{family.name}{suffix}", (*named, *more), number)


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    text = ",".join(f'{label}="{each.translate(_ESCAPES)}"' for label, each in labels)
    return f"{name}{{{text}}} {value}" if text else f"{name} {value}"
