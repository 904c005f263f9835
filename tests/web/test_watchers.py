"""Looking is bounded however many watch: one look for all of them in two seconds, and none when nobody does.

`make proof` measures what fifty watchers leave of the throughput (`tests.proof.dashboard_watchers`).
"""

import http.client
import json
import threading
import time
from collections import Counter

import pytest

from onward.backends import sqlite
from tests.web.browser.serving import TOKEN, served
from tools.busy_store import fill

WATCHERS = 50
ROUNDS = 4
EVERY = 2.0


@pytest.fixture
def asked(monkeypatch):
    """What the store is asked, by verb."""
    asked = Counter()

    class Counting(sqlite.SqliteBackend):
        def __getattribute__(self, name):
            found = super().__getattribute__(name)
            if not name.startswith("_") and callable(found):
                asked[name] += 1
            return found

    monkeypatch.setattr(sqlite, "SqliteBackend", Counting)
    return asked


@pytest.fixture
def dashboard(tmp_path, asked):
    url = f"sqlite:///{tmp_path / 'jobs.db'}?durability=relaxed"
    fill(url)
    with served(url, refresh=EVERY) as dashboard:
        yield dashboard


def statuses(dashboard, together, everything):
    """Ask for the picture again and again, at the same moments as all others."""
    connection = http.client.HTTPConnection(dashboard.address.host, dashboard.address.port, timeout=60)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for _ in range(ROUNDS):
        together.wait(60)
        connection.request("GET", "/api/v1/pulse", headers=headers)
        answer = connection.getresponse()
        answer.read()
        headers["If-None-Match"] = answer.headers["ETag"]
        everything.append(answer.status)
    connection.close()


@pytest.mark.promise("S146")
def test_fifty_watchers_are_one_look_in_two_seconds(dashboard, asked, report):
    asked.clear()
    statuses(dashboard, threading.Barrier(1), alone := [])  # one person: the first look is the most expensive one
    one_look = asked.total()
    together, answers = threading.Barrier(WATCHERS), []
    crowd = [threading.Thread(target=statuses, args=(dashboard, together, answers)) for _ in range(WATCHERS)]

    asked.clear()
    began = time.monotonic()
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()
    seconds = time.monotonic() - began

    assert (len(alone), len(answers)) == (ROUNDS, WATCHERS * ROUNDS)
    assert set(answers) <= {200, 304}
    assert 0 < one_look < 50
    report(
        f"watchers: {len(answers)} pictures in {seconds:.1f} s asked the store {asked.total()} times, one look {one_look}"
    )
    assert asked.total() <= (1 + seconds / EVERY) * one_look


@pytest.mark.promise("S146")
def test_nobody_who_watches_costs_nothing(dashboard, asked):
    statuses(dashboard, threading.Barrier(1), [])
    asked.clear()
    threading.Event().wait(EVERY * 1.5)  # longer than a picture is good for: there is no fact to wait for

    assert asked == {}


@pytest.mark.promise("S125")
def test_the_page_of_a_job_asks_the_store_a_few_times_whatever_its_state(dashboard, asked, report):
    connection = http.client.HTTPConnection(dashboard.address.host, dashboard.address.port, timeout=60)

    def answer(path):
        connection.request("GET", f"/api/v1/{path}", headers={"Authorization": f"Bearer {TOKEN}"})
        return json.loads(connection.getresponse().read())

    newest = {job["state"]: job["id"] for job in answer("jobs?limit=200")["jobs"]}
    questions = {}
    for state, job in newest.items():
        asked.clear()
        assert answer(f"jobs/{job}")["job"]["id"] == job
        questions[state] = dict(asked)
    connection.close()

    report(f"the page of a job asks: {questions}")
    assert {"available", "discarded", "completed"} <= set(questions)
    assert {asked["get"] for asked in questions.values()} == {1}
    assert max(sum(asked.values()) for asked in questions.values()) <= 9
    assert max(asked["look"] for asked in questions.values()) <= 4
