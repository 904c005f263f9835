"""Jobs of many queues are found by one statement where all of them are plain, and queue by queue where one is not."""

import sqlite3
from contextlib import closing

import pytest

from onward.backends.sqlite import claiming
from tests.backends.turn_stories import a_story, told


def contents(file):
    with closing(sqlite3.connect(file)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'onward%'"
        ).fetchall()
        return {
            name: sorted(map(repr, connection.execute(f"SELECT * FROM {name}")))
            for (name,) in names
            if name != "onward_migrations"
        }


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_to_find_jobs_find_the_same(tmp_path, open_backend, clock, monkeypatch, seed):
    def noted(*given):
        found.append(at_once(*given))
        return found[-1]

    def told_on(name, find):
        clock.set(start)
        monkeypatch.setattr(claiming, "_all_at_once", find)
        backend, wakes = open_backend(tmp_path / name), []
        monkeypatch.setattr(backend._transactions, "_wake", lambda: wakes.append(clock.micros()))
        return told(backend, clock, story), contents(tmp_path / name), wakes

    story, start, found, at_once = a_story(seed, clock.micros()), clock.now(), [], claiming._all_at_once

    assert told_on("at_once.db", noted) == told_on("by_queue.db", lambda *_: None)
    assert any(found)
