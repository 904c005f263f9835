"""Samples that come with renewals: each minute and process has one row, until the rows of a stretch become one."""

from __future__ import annotations

from typing import Any

import pytest

from onward.backend import SAMPLER, Look, Sample, SeriesRow
from onward.contract.samples import LARGEST_SAMPLE, MINUTE, TEN_MINUTES
from onward.errors import OptionError
from onward.testing.contract.builders import a_claim, a_lease, a_session, an_envelope
from onward.testing.contract.capabilities import needs

__all__ = ["MergingContract", "SamplesContract"]

EVERYTHING = (0, 1 << 52)
HOUR = 3600  # seconds
DAY = 24 * HOUR


@needs("inspection")
class SamplesContract:
    def test_a_sample_is_stored_with_the_renewal(self, backend, clock):
        backend.open_session(a_session("me"))

        renewal = backend.extend("me", sample=Sample("host-1", _minute(clock), b"numbers"))

        assert (renewal.alive, renewal.now) == (True, clock.micros())
        assert _rows(backend) == [(_minute(clock), 0, SAMPLER, b""), (_minute(clock), 0, "host-1", b"numbers")]

    def test_a_sample_renews_the_session(self, backend, clock):
        a_lease(backend, lease_for=30)
        clock.advance(20)
        backend.extend("worker", sample=_sample(clock))
        clock.advance(20)

        assert backend.reap() == []

    def test_a_sample_is_stored_without_a_session(self, backend, clock):
        renewal = backend.extend("nobody", sample=_sample(clock))

        assert (renewal.alive, renewal.now) == (False, clock.micros())
        assert len(_rows(backend)) == 2

    def test_a_renewal_with_a_sample_names_the_jobs_that_are_to_be_cancelled(self, backend, clock):
        lease = a_lease(backend)
        backend.cancel([lease.envelope.id], "no")

        renewal = backend.extend("worker", sample=_sample(clock))

        assert renewal.cancel_requested == ((lease.envelope.id, lease.token),)

    def test_a_renewal_without_a_sample_stores_nothing(self, backend):
        backend.open_session(a_session("me"))

        renewal = backend.extend("me")

        assert (renewal.now, renewal.sampler) == (None, False)
        assert _rows(backend) == []

    @pytest.mark.promise("S121")
    def test_a_sample_that_is_repeated_changes_nothing(self, backend, clock):
        backend.extend("me", sample=_sample(clock))
        before = _rows(backend)

        backend.extend("me", sample=_sample(clock))

        assert _rows(backend) == before

    @pytest.mark.promise("S121")
    def test_a_later_sample_of_the_minute_replaces_the_one_before(self, backend, clock):
        backend.extend("me", sample=_sample(clock, b"one"))
        clock.advance(10)
        backend.extend("me", sample=_sample(clock, b"two"))

        assert _rows(backend, reporter="host-1") == [(_minute(clock), 0, "host-1", b"two")]

    def test_each_minute_and_each_reporter_has_a_row(self, backend, clock):
        first = _minute(clock)
        for _ in range(2):
            for reporter in ("host-2", "host-1"):
                backend.extend("me", sample=_sample(clock, reporter=reporter))
            clock.advance(60)

        assert [(at, reporter) for at, _, reporter, _ in _rows(backend)] == [
            (first + minute * MINUTE, reporter) for minute in (0, 1) for reporter in (SAMPLER, "host-1", "host-2")
        ]

    def test_any_bytes_are_stored(self, backend, clock):
        data = bytes(range(256)) * 100
        backend.extend("me", sample=_sample(clock, data, reporter="Zürich, 'q\" \\ %s"))

        assert _rows(backend)[-1][2:] == ("Zürich, 'q\" \\ %s", data)

    def test_a_large_sample_is_stored(self, backend, clock):
        backend.extend("me", sample=_sample(clock, bytes(LARGEST_SAMPLE)))

        assert len(_rows(backend)[-1][3]) == LARGEST_SAMPLE

    @pytest.mark.promise("S122")
    def test_a_sample_that_is_too_large_is_refused_with_the_limit(self, clock):
        with pytest.raises(OptionError, match="at most 1,048,576 bytes, not 1,048,577"):
            _sample(clock, bytes(LARGEST_SAMPLE + 1))

    @pytest.mark.parametrize("reporter", ["", "x" * 65], ids=["empty", "long"])
    def test_a_reporter_has_a_short_name(self, clock, reporter):
        with pytest.raises(OptionError, match="1 to 64 characters"):
            _sample(clock, reporter=reporter)

    def test_a_sample_is_of_a_whole_minute(self, clock):
        with pytest.raises(OptionError, match="whole minute"):
            Sample("host-1", _minute(clock) + 1, b"")

    def test_one_caller_of_a_minute_is_the_sampler(self, backend, clock):
        told = []
        for _ in range(3):
            told += [backend.extend("me", sample=_sample(clock, reporter=name)).sampler for name in ("a", "b", "a")]
            clock.advance(60)

        assert told == [True, False, False] * 3

    def test_the_sampler_replaces_the_row_of_its_minute(self, backend, clock):
        backend.extend("me", sample=_sample(clock))

        renewal = backend.extend("me", sample=_sample(clock, b"depths", reporter=SAMPLER))

        assert not renewal.sampler
        assert _rows(backend, reporter=SAMPLER) == [(_minute(clock), 0, SAMPLER, b"depths")]

    @pytest.mark.promise("S121")
    def test_a_sample_of_a_closed_minute_is_ignored(self, backend, clock):
        sample = _sample(clock)
        clock.advance(150 - 0.000001)
        assert backend.extend("me", sample=sample).sampler
        clock.advance(0.000001)

        renewal = backend.extend("me", sample=_sample(clock, b"late", minute=sample.minute))

        assert (renewal.now, renewal.sampler) == (clock.micros(), False)
        assert _rows(backend, reporter="host-1") == [(sample.minute, 0, "host-1", b"numbers")]

    def test_a_sample_of_a_distant_future_is_ignored(self, backend, clock):
        backend.extend("me", sample=_sample(clock, minute=_minute(clock) + MINUTE))
        backend.extend("me", sample=_sample(clock, minute=_minute(clock) + 2 * MINUTE))

        assert [at for at, *_ in _rows(backend, reporter="host-1")] == [_minute(clock) + MINUTE]

    def test_a_look_finds_the_rows_of_a_span(self, backend, clock):
        first = _minute(clock)
        for _ in range(4):
            backend.extend("me", sample=_sample(clock))
            clock.advance(60)

        found = backend.look(Look(series=(first + MINUTE, first + 3 * MINUTE)))

        assert found.now == clock.micros()
        assert {row.at for row in found.series} == {first + MINUTE, first + 2 * MINUTE}
        assert found.series[0] == SeriesRow(at=first + MINUTE, width=0, reporter=SAMPLER, data=b"")

    def test_a_span_ends_at_its_very_microsecond(self, backend, clock):
        backend.extend("me", sample=_sample(clock))
        minute = _minute(clock)

        assert len(backend.look(Look(series=(minute, minute + 1))).series) == 2
        assert backend.look(Look(series=(minute - 1, minute))).series == ()
        assert backend.look(Look(series=(minute + 1, minute + 2))).series == ()

    def test_a_look_finds_no_more_rows_than_it_asks_for(self, backend, clock):
        for number in range(5):
            backend.extend("me", sample=_sample(clock, reporter=f"host-{number}"))

        found = backend.look(Look(series=EVERYTHING, at_most=3)).series

        assert [row.reporter for row in found] == [SAMPLER, "host-0", "host-1"]

    def test_a_look_that_does_not_ask_for_rows_gets_none(self, backend, clock):
        backend.extend("me", sample=_sample(clock))

        assert backend.look(Look(counts=True)).series == ()

    def test_samples_are_no_jobs(self, backend, clock):
        backend.extend("me", sample=_sample(clock))
        backend.enqueue([an_envelope()])

        assert len(backend.claim(a_claim(limit=10))) == 1
        assert [queue.name for queue in backend.queues()] == ["default"]

    @needs("emptying")
    def test_a_store_that_was_emptied_has_no_samples(self, backend, clock):
        backend.extend("me", sample=_sample(clock))

        backend.empty()

        assert _rows(backend) == []


@needs("inspection")
class MergingContract:
    @pytest.mark.promise("S121")
    def test_the_rows_of_a_minute_are_replaced_by_one(self, backend, clock):
        first = _filled(backend, clock, minutes=3)
        clock.advance(180)

        _merge(backend, clock, (first + MINUTE, MINUTE, b"sum"))

        kept = [row for row in _rows(backend) if row[0] < first + 3 * MINUTE]
        assert [row for row in kept if row[0] == first + MINUTE] == [(first + MINUTE, MINUTE, SAMPLER, b"sum")]
        assert len(kept) == 1 + 2 * 3

    @pytest.mark.promise("S121")
    def test_a_merge_that_is_repeated_changes_nothing(self, backend, clock):
        first = _filled(backend, clock, minutes=1)
        clock.advance(180)
        _merge(backend, clock, (first, MINUTE, b"sum"))
        before = _rows(backend)

        _merge(backend, clock, (first, MINUTE, b"sum"))

        assert _rows(backend) == before

    @pytest.mark.promise("S121")
    def test_a_minute_is_not_merged_while_samples_of_it_may_come(self, backend, clock):
        first = _filled(backend, clock, minutes=1)
        before = _rows(backend)
        clock.advance(120 - 0.000001)

        _merge(backend, clock, (first, MINUTE, b"too early"))
        assert [row for row in _rows(backend) if row[0] == first] == before

        clock.advance(0.000001)
        _merge(backend, clock, (first, MINUTE, b"in time"))
        assert [row for row in _rows(backend) if row[0] == first] == [(first, MINUTE, SAMPLER, b"in time")]

    @pytest.mark.promise("S121")
    def test_a_minute_that_is_merged_gets_no_further_sample(self, backend, clock):
        first = _filled(backend, clock, minutes=1)
        clock.advance(120)
        _merge(backend, clock, (first, MINUTE, b"sum"))

        assert not backend.extend("me", sample=_sample(clock, minute=first)).sampler

        assert [row for row in _rows(backend) if row[0] == first] == [(first, MINUTE, SAMPLER, b"sum")]

    @pytest.mark.promise("S121")
    def test_ten_minutes_are_replaced_by_one_row(self, backend, clock):
        first = _filled(backend, clock, minutes=11)
        clock.advance(2 * HOUR)

        _merge(backend, clock, (first, TEN_MINUTES, b"sum"))

        assert [row[:3] for row in _rows(backend)][:-1] == [
            (first, TEN_MINUTES, SAMPLER),
            *((first + TEN_MINUTES, 0, reporter) for reporter in (SAMPLER, "host-1", "host-2")),
        ]

    @pytest.mark.promise("S121")
    def test_ten_minutes_are_not_merged_before_they_are_two_hours_old(self, backend, clock):
        first = _filled(backend, clock, minutes=10)
        before = _rows(backend)
        clock.advance(2 * HOUR - 0.000001)

        _merge(backend, clock, (first, TEN_MINUTES, b"sum"))

        assert _rows(backend)[: len(before)] == before

    @pytest.mark.promise("S121")
    def test_a_merge_of_a_minute_that_comes_an_hour_late_is_ignored(self, backend, clock):
        """Ten minutes may have been merged since: the row of one of them would be counted twice."""
        first = _filled(backend, clock, minutes=1)
        before = _rows(backend)
        clock.advance(HOUR - 60)

        _merge(backend, clock, (first, MINUTE, b"late"))

        assert _rows(backend)[: len(before)] == before

    @pytest.mark.parametrize("stretch", [(1, MINUTE), (MINUTE, TEN_MINUTES), (0, 5 * MINUTE), (0, 0), (0, -MINUTE)])
    def test_only_whole_stretches_are_merged(self, backend, clock, stretch):
        first = _filled(backend, clock, minutes=10)
        before = _rows(backend)
        clock.advance(HOUR - 660 if stretch[1] == MINUTE else 3 * HOUR)

        _merge(backend, clock, (first + stretch[0], stretch[1], b"sum"))

        assert _rows(backend)[: len(before)] == before

    def test_several_stretches_are_merged_in_one_call(self, backend, clock):
        first = _filled(backend, clock, minutes=2)
        clock.advance(120)

        _merge(backend, clock, (first, MINUTE, b"one"), (first + MINUTE, MINUTE, b"two"))

        assert [row[3] for row in _rows(backend)][:-1] == [b"one", b"two"]

    def test_stretches_are_merged_even_if_the_minute_of_the_sample_is_closed(self, backend, clock):
        first = _filled(backend, clock, minutes=1)
        clock.advance(120)

        backend.extend("me", sample=Sample(SAMPLER, first, b"", ((first, MINUTE, b"sum"),)))

        assert _rows(backend) == [(first, MINUTE, SAMPLER, b"sum")]

    @pytest.mark.promise("S122")
    def test_the_sampler_removes_what_is_older_than_seven_days(self, backend, clock):
        first = _filled(backend, clock, minutes=2)
        clock.advance(7 * DAY - 2 * 60)
        _merge(backend, clock)
        assert {row[0] for row in _rows(backend)} >= {first, first + MINUTE}

        clock.advance(60)
        backend.extend("me", sample=_sample(clock))
        assert first in {row[0] for row in _rows(backend)}  # no sampler has written since
        _merge(backend, clock)

        assert min(row[0] for row in _rows(backend)) == first + MINUTE


def _minute(clock: Any) -> int:
    now: int = clock.micros()
    return now - now % MINUTE


def _sample(clock: Any, data: bytes = b"numbers", *, reporter: str = "host-1", minute: int | None = None) -> Sample:
    return Sample(reporter, _minute(clock) if minute is None else minute, data)


def _filled(backend: Any, clock: Any, minutes: int) -> int:
    """Store samples of two processes for so many minutes; return when the first of them began."""
    first = _minute(clock)
    for _ in range(minutes):
        for reporter in ("host-1", "host-2"):
            backend.extend("me", sample=_sample(clock, reporter=reporter))
        clock.advance(60)
    return first


def _merge(backend: Any, clock: Any, *stretches: tuple[int, int, bytes]) -> None:
    backend.extend("me", sample=Sample(SAMPLER, _minute(clock), b"", stretches))


def _rows(backend: Any, reporter: str | None = None) -> list[tuple[int, int, str, bytes]]:
    found = backend.look(Look(series=EVERYTHING)).series
    return [
        (row.at, row.width, row.reporter, row.data) for row in found if reporter is None or row.reporter == reporter
    ]
