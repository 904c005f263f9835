"""One watch for all people in a process: it looks when asked, and no more often than is due."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import pytest

from onward import Onward
from onward.errors import BackendUnavailable, Unsupported
from onward.operate import pacing, watching
from onward.operate.shared_watch import SharedWatch
from tests.waiting import eventually


class FakeTime:
    """Stands still until it is told to go on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time(monkeypatch):
    """What a look costs goes by it, too: here it costs nothing."""
    fake = FakeTime()
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=fake))
    return fake


@pytest.fixture
def jobs():
    with Onward("memory://") as app:
        yield app


@pytest.fixture
def looks(jobs, monkeypatch):
    """Counts the looks that are made; ``looks.act`` may hold one up, or fail."""
    return Looks(jobs, monkeypatch)


class Looks:
    def __init__(self, app, monkeypatch):
        self.made = 0
        self.act = lambda: None
        self._overview = app.overview
        monkeypatch.setattr(app, "overview", self)

    def __call__(self, at_most):
        self.made += 1
        self.act()
        return self._overview(at_most)


def test_a_watch_that_is_not_asked_does_not_look(jobs, looks):
    SharedWatch(jobs)

    assert looks.made == 0


def test_fifty_people_cost_one_look_in_two_seconds(jobs, looks, time):
    watch = SharedWatch(jobs, clock=time)

    for _ in range(10):
        with ThreadPoolExecutor(50) as people:
            seen = list(people.map(lambda _: watch.look(), range(50)))
        assert {look.number for look in seen} <= {
            looks.made - 1,
            looks.made,
        }  # who asks during a look gets the one before
        time.now += 1.0

    assert looks.made == 5


def test_a_look_sees_what_has_changed_since(jobs, time):
    watch = SharedWatch(jobs, clock=time)
    assert watch.look().seen.overview.queues == []
    jobs.enqueue("x", queue="mail")

    time.now += 1.9
    assert watch.look().seen.overview.queues == []
    time.now += 0.1
    assert [queue.name for queue in watch.look().seen.overview.queues] == ["mail"]
    assert watch.look().number == 2


def test_a_reader_does_not_wait_for_a_look_of_another(jobs, looks, time):
    watch = SharedWatch(jobs, clock=time)
    first = watch.look()
    looks.act = (go_on := threading.Event()).wait
    time.now += 2.0

    with ThreadPoolExecutor(1) as slow:
        new = slow.submit(watch.look)
        eventually(lambda: looks.made == 2)
        assert watch.look() is first
        go_on.set()
        assert new.result().number == 2


def test_those_who_ask_first_wait_for_the_one_look(jobs, looks, time):
    watch = SharedWatch(jobs, clock=time)
    go_on = threading.Event()
    looks.act = go_on.wait

    with ThreadPoolExecutor(8) as people:
        asked = [people.submit(watch.look) for _ in range(8)]
        eventually(lambda: looks.made == 1)
        go_on.set()
        assert {each.result().number for each in asked} == {1}

    assert looks.made == 1


def test_a_store_that_goes_away_leaves_the_last_picture_and_says_why(jobs, looks, time):
    watch = SharedWatch(jobs, clock=time)
    before = watch.look()

    def fail():
        raise BackendUnavailable("the server is gone")

    looks.act = fail
    time.now += 2.0
    during = [watch.look() for _ in range(5)]
    looks.act = lambda: None
    time.now += 2.0
    after = watch.look()

    assert {str(look.error) for look in during} == {"the server is gone"}
    assert all(look.seen is before.seen and look.number == 1 for look in during)
    assert (after.number, after.error) == (2, None)
    assert looks.made == 3


def test_after_an_act_the_next_person_sees_what_it_has_changed(jobs, looks, time):
    watch = SharedWatch(jobs, clock=time)
    watch.look()
    jobs.pause("mail")

    watch.forget()

    assert [(queue.name, queue.paused) for queue in watch.look().seen.overview.queues] == [("mail", True)]
    watch.look()
    assert looks.made == 2


def test_a_broker_that_shows_nothing_is_told_as_that(time):
    with Onward("beanstalk://127.0.0.1:1") as jobs:
        look = SharedWatch(jobs, clock=time).look()

    assert isinstance(look.error, Unsupported)


def test_a_store_that_never_answered_shows_nothing_but_the_reason(jobs, looks, time):
    def fail():
        raise BackendUnavailable("the server is gone")

    looks.act = fail

    look = SharedWatch(jobs, clock=time).look()

    assert (look.seen, look.number, str(look.error)) == (None, 0, "the server is gone")


@pytest.mark.parametrize("fails", [False, True])
def test_looks_and_checks_take_at_most_five_of_a_hundred_seconds(jobs, looks, time, monkeypatch, fails):
    """A look takes half a second here, and the checks a whole one."""
    spent = 0.0

    def take(seconds):
        nonlocal spent
        time.now += seconds
        spent += seconds

    def slow_look():
        take(0.5)
        if fails:
            raise BackendUnavailable("the server is gone")

    def slow_checks(*, store=True, fleet=True):
        take(1.0)
        return []

    looks.act = slow_look
    monkeypatch.setattr(jobs, "health", slow_checks)
    watch = SharedWatch(jobs, clock=time)
    begun = time.now
    while time.now < begun + 3600:
        watch.look()
        time.now += 0.01

    assert 0.035 < spent / (time.now - begun) <= 0.05


def test_looks_go_on_as_often_while_the_checks_of_the_store_take_long(jobs, looks, time, monkeypatch):
    checked = []

    def health(*, store=True, fleet=True):
        if store:
            time.now += 5.0  # a file on a slow disk
            checked.append(time.now)
        return []

    monkeypatch.setattr(jobs, "health", health)
    watch = SharedWatch(jobs, clock=time)
    for _ in range(1200):
        watch.look()
        time.now += 1.0

    assert [round(after - before) for before, after in pairwise(checked)] == [505, 505]
    assert looks.made >= 590


def test_what_an_act_changes_is_no_rate_of_arrivals(jobs, time, monkeypatch):
    compared = []
    monkeypatch.setattr(
        pacing, "paces", lambda measures, overview, before, seconds, at_most: compared.append(seconds) or {}
    )
    watch = SharedWatch(jobs, clock=time)
    for passes, acted in ((0.0, False), (0.5, True), (10.0, False)):
        time.now += passes
        if acted:
            watch.forget()
        watch.look()

    assert compared == [0.0, 10.5]


def test_the_child_of_a_fork_looks_although_its_parent_was_looking(tmp_path, time, monkeypatch):
    with Onward(f"sqlite:///{tmp_path}/jobs.db") as jobs:
        looks = Looks(jobs, monkeypatch)
        watch = SharedWatch(jobs, clock=time)
        watch.look()
        looks.act = (go_on := threading.Event()).wait
        time.now += 2.0

        with ThreadPoolExecutor(1) as slow:
            looking = slow.submit(watch.look)
            eventually(lambda: looks.made == 2)
            looks.act = lambda: None
            child = os.fork()
            if not child:
                os._exit(0 if watch.look().number == 2 else 1)
            _, status = os.waitpid(child, 0)
            go_on.set()
            looking.result()

    assert status == 0
