"""Waking: who sleeps blocks on a list that carries no jobs, one comes for one job, and none looks all the time."""

import threading
import time

import pytest

from onward.backends.redis import backend as module
from onward.testing.contract.builders import PATIENCE, a_claim, an_envelope, ids, some_envelopes

LONG = 10 * PATIENCE


@pytest.fixture
def sleepers(backend, raw):
    """Start threads that wait for work in a queue; gives the events that say who woke, once all sleep."""
    threads = []

    def start(count, queue="default", clients=None):
        woken = [threading.Event() for _ in range(count)]

        def sleep(number):
            (clients[number] if clients else backend).wait([queue], LONG)
            woken[number].set()

        for number in range(count):
            threads.append(threading.Thread(target=sleep, args=(number,), daemon=True))
            threads[-1].start()
        await_sleepers(raw, count)
        return woken

    yield start
    backend.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def await_sleepers(raw, count):
    deadline = time.monotonic() + PATIENCE
    while sum(client["cmd"] == "blpop" and "b" in client["flags"] for client in raw.client_list()) < count:
        assert time.monotonic() < deadline


def woke(events):
    return sum(event.is_set() for event in events)


def await_woken(events, count=1):
    deadline = time.monotonic() + PATIENCE
    while woke(events) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.promise("F40")
def test_one_job_wakes_one_of_many(monkeypatch, sleepers, open_backend):
    monkeypatch.setattr(module, "_LOOK", LONG)  # no worker looks by itself meanwhile
    woken = sleepers(10)
    other = open_backend()

    other.enqueue([an_envelope()])
    await_woken(woken)
    other.claim(a_claim())  # it is taken, and no other worker is needed
    other.counts()

    assert woke(woken) == 1


@pytest.mark.promise("F40")
def test_who_leaves_work_behind_wakes_the_next(monkeypatch, sleepers, open_backend):
    monkeypatch.setattr(module, "_LOOK", LONG)
    woken = sleepers(3)
    other = open_backend()
    other.enqueue(some_envelopes(3))
    await_woken(woken)

    for left in (2, 1):
        claimed = other.claim(a_claim())
        assert len(claimed) == 1
        await_woken(woken, 4 - left)
        assert woke(woken) == 4 - left


@pytest.mark.promise("F39")
def test_a_lost_token_is_made_up_for_by_a_look(sleepers, raw, open_backend):
    woken = sleepers(1)
    # As if the worker that took the token had died with it: the job is there without a word.
    open_backend().enqueue([an_envelope(queue="other")])
    raw.zunionstore("{onward}:ready:default", ["{onward}:ready:other"])

    assert woken[0].wait(PATIENCE)


@pytest.mark.promise("F39")
def test_a_sleeper_wakes_when_a_job_falls_due(redis, url, open_backend):
    backend = open_backend(clock=None)
    backend.enqueue([envelope := an_envelope(delay=0.3)])

    begun = time.monotonic()
    backend.wait(["default"], LONG)

    assert 0.2 < time.monotonic() - begun < PATIENCE
    assert ids(backend.claim(a_claim())) == [envelope.id]


def test_a_sleeper_hears_of_a_job_that_falls_due_sooner(monkeypatch, open_backend, raw):
    monkeypatch.setattr(module, "_LOOK", LONG)
    backend, other = open_backend(clock=None), open_backend(clock=None)
    waiting = threading.Thread(target=backend.wait, args=(["default"], LONG), daemon=True)
    waiting.start()
    await_sleepers(raw, 1)

    other.enqueue([an_envelope(delay=0.2)])

    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_a_paused_queue_wakes_no_worker_until_it_is_resumed(monkeypatch, sleepers, open_backend):
    monkeypatch.setattr(module, "_LOOK", LONG)
    other = open_backend()
    other.pause("default")
    other.enqueue([an_envelope()])
    other._run("look", 0, ["default"])
    woken = sleepers(1, queue="default")

    other.pause("default", paused=False)

    assert woken[0].wait(PATIENCE)


@pytest.mark.promise("F39")
def test_an_idle_worker_asks_about_once_a_second(sleepers, raw):
    sleepers(1)
    raw.config_resetstat()
    begun = time.monotonic()
    while time.monotonic() - begun < 2:
        time.sleep(0.1)

    calls = raw.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
    assert calls <= 4


def test_closing_it_ends_its_waits(open_backend, raw):
    backend = open_backend()
    waiting = threading.Thread(target=backend.wait, args=(["default"], LONG), daemon=True)
    waiting.start()
    await_sleepers(raw, 1)

    backend.close()

    waiting.join(PATIENCE)
    assert not waiting.is_alive()
