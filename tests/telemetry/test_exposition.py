"""Metrics as text: valid whatever queues and jobs are called."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.telemetry import families
from onward.telemetry.counters import COUNTERS, SERIES, CounterTable
from onward.telemetry.exposition import BOUNDS, MetricValue, build_info, exposition, of_numbers
from onward.version import build

LINE = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*)?\})? [0-9.e+-]+')
HOSTILE = ['"', "\\", "\n", '\\"', '"} 1\nonward_store_up 0\n#', "{a}", "\r", "\0", "☃", "", " ", "\ud800", "é" * 300]


def text_of(*pairs):
    table = CounterTable.anonymous()
    for pair in pairs:
        table.add("jobs_fetched", pair)
        table.add_successes(pair, [3])
    return exposition(of_numbers(table.numbers()))


def test_a_counter_and_a_histogram_are_written_as_prometheus_reads_them():
    lines = text_of(("mail", "send"), ("mail", "check")).splitlines()

    assert "# TYPE onward_jobs_fetched_total counter" in lines
    assert 'onward_jobs_fetched_total{queue="mail",job="send"} 1' in lines
    assert 'onward_jobs_failed_total{queue="mail",job="send"} 0' in lines  # so that its first step is seen
    start = lines.index("# TYPE onward_job_run_seconds histogram")
    assert lines[start + 1 : start + 5] == [
        'onward_job_run_seconds_bucket{queue="mail",le="0.001"} 0',
        'onward_job_run_seconds_bucket{queue="mail",le="0.002"} 0',
        'onward_job_run_seconds_bucket{queue="mail",le="0.004"} 2',
        'onward_job_run_seconds_bucket{queue="mail",le="0.008"} 2',
    ]
    assert 'onward_job_run_seconds_bucket{queue="mail",le="+Inf"} 2' in lines
    assert 'onward_job_run_seconds_sum{queue="mail"} 0.006' in lines
    assert 'onward_job_run_seconds_count{queue="mail"} 2' in lines
    assert len(BOUNDS) == 24
    assert BOUNDS[-2] == "4194.304"


def test_a_summary_has_a_sum_and_a_count_and_a_family_without_samples_is_left_out():
    parts = [(families.TURN_SECONDS, [MetricValue((), (4, 0.5))]), (families.QUEUE_PAUSED, [])]

    assert exposition(parts).splitlines()[1:] == [
        "# TYPE onward_turn_seconds summary",
        "onward_turn_seconds_sum 0.5",
        "onward_turn_seconds_count 4",
    ]


@pytest.mark.promise("S152")
@given(st.lists(st.tuples(st.sampled_from(HOSTILE) | st.text(), st.sampled_from(HOSTILE) | st.text()), max_size=10))
def test_no_name_ends_its_quotes_or_its_line(pairs):
    for line in text_of(*pairs).split("\n")[:-1]:
        assert line.startswith("# ") or LINE.fullmatch(line), line


@pytest.mark.promise("S124", "S152")
def test_made_up_names_cost_a_bounded_text():
    lines = text_of(*((f"q{number}", f"j{number}") for number in range(5000))).splitlines()
    samples = [line for line in lines if not line.startswith("#")]

    assert len(samples) == SERIES * (len(COUNTERS) + 2 * 26)


def test_the_build_is_what_the_environment_says(monkeypatch):
    monkeypatch.setenv("ONWARD_BUILD", "2026-11-17")
    assert 'build="2026-11-17"' in exposition([build_info()])
    monkeypatch.setenv("ONWARD_BUILD", "x" * 101)
    assert f'build="{build()}"' in exposition([build_info()]), "as series and descriptions of workers name it"
    monkeypatch.delenv("ONWARD_BUILD")
    assert 'build="0.' in exposition([build_info()])


def test_every_family_has_a_name_a_meaning_and_a_place():
    everything = [family for group in families.FAMILIES.values() for family in group]

    assert len({family.name for family in everything}) == len(everything)
    assert all(family.name.startswith("onward_") and family.help.endswith(".") for family in everything)
    assert all(family.name.endswith("_total") == (family.kind == "counter") for family in everything)
