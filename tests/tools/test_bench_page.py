"""The page of the bench tells of every part what it reached, and of what it missed what was tried."""

import json
from types import SimpleNamespace

import pytest

from bench import page
from bench.__main__ import ENGINES, HERE
from bench.tried import TRIED

RESULTS = {
    "date": "2026-11-19",
    "commit": "0123456789ab",
    "machine": "2 cores",
    "engine": "a file",
    "versions": {"Python": "3.11"},
    "rounds": 3,
    "configurations": {},
    "jobs": {},
    "measures": {},
}


def part(title, *figures):
    return SimpleNamespace(
        TITLE=title, PACKAGES=(), fairness=lambda results: "All commits are durable.", figures=lambda results: figures
    )


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "TRIED", {"A file, twice": {"Slow": "threads.", "Quick": "nothing."}})
    engines = {
        "twice": part("A file, twice", ("Slow", 0.5, 1.0), ("Quick", 2.0, 1.0)),
        "once": part("Once", ("Untried", 0.1, 0.2)),
        "not measured": part("Never"),
    }
    page.write(engines, {"twice": RESULTS, "once": RESULTS}, tmp_path)
    return (tmp_path / page.PAGE).read_text()


def test_the_summary_counts_what_each_part_reached_and_missed(written):
    assert "| [A file, twice](#a-file-twice) | 2026-11-19 | 1 | 1 |" in written
    assert "| [Once](#once) | 2026-11-19 | 0 | 1 |" in written
    assert "Never" not in written


def test_what_was_tried_is_told_of_what_was_missed_alone(written):
    assert "- *Slow*: threads." in written
    assert "nothing." not in written
    assert written.count("What was tried for what was missed:") == 1


def test_each_part_names_the_commit_that_was_measured(written):
    assert "2026-11-19, at `0123456789ab`, 2 cores" in written


def test_the_figures_of_a_page_are_read_again_as_they_were_written(written, tmp_path):
    assert page.read(tmp_path) == {"twice": RESULTS, "once": RESULTS} == json.loads((tmp_path / page.DATA).read_text())


def test_what_was_tried_is_told_of_figures_that_there_are():
    results = page.read(HERE / "docs")
    told = {
        (engine.TITLE, title)
        for name, engine in ENGINES.items()
        if name in results
        for title, _, _ in engine.figures(results[name])
    }

    assert {(part, figure) for part, figures in TRIED.items() for figure in figures} <= told
