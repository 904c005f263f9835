"""Waking without notifications: looks, at random and not too many; a bell within the process."""

import itertools
import threading
import time

import pytest

from onward.backends.mysql import wake
from onward.testing.contract.builders import a_claim, an_envelope

PATIENCE = 30


@pytest.fixture
def in_thread():
    def start(wait):
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        return thread

    return start


def test_looks_become_rarer_and_keep_no_step():
    pauses = wake.pauses()
    first, *later = [next(pauses) for _ in range(150)]

    assert first < 0.003
    assert all(0.29 < pause < 0.51 for pause in later[110:])
    assert len(set(later)) == len(later)


def test_a_pause_is_a_small_part_of_the_time_for_which_the_worker_was_idle():
    idle = 0.0
    for pause in itertools.islice(wake.pauses(), 110):
        assert pause <= max(0.003, 0.1 * idle)  # 6 % of what was meant, and a quarter more or less by chance
        idle += pause


@pytest.mark.promise("F39")
def test_a_sleeper_is_woken_at_once_by_its_own_process(backend, in_thread, monkeypatch):
    monkeypatch.setattr(wake, "_FIRST", 1_000.0)
    monkeypatch.setattr(wake, "_LONGEST", 1_000.0)
    sleeping = in_thread(lambda: backend.wait(["default"], 10 * PATIENCE))

    backend.enqueue([an_envelope()])

    sleeping.join(PATIENCE)
    assert not sleeping.is_alive()


@pytest.mark.promise("F39", "F42")
def test_a_job_that_falls_due_is_not_slept_through(open_backend, monkeypatch):
    monkeypatch.setattr(wake, "_FIRST", 1_000.0)
    backend = open_backend(clock=None)
    backend.enqueue([an_envelope(delay=0.3)])

    backend.wait(["default"], PATIENCE)

    assert len(backend.claim(a_claim())) == 1


def test_who_closes_lets_the_sleepers_go(backend, in_thread, monkeypatch):
    monkeypatch.setattr(wake, "_FIRST", 1_000.0)
    sleeping = in_thread(lambda: backend.wait(["default"], 10 * PATIENCE))

    backend.close()

    sleeping.join(PATIENCE)
    assert not sleeping.is_alive()


def test_who_is_sent_in_vain_rests(backend, other_session):
    """Work that another session has locked can be seen and not claimed."""
    backend.enqueue([an_envelope()])
    with other_session() as other:
        other.execute("SELECT 1 FROM onward_jobs FOR UPDATE")
        looks = 0
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            backend.wait(["default"], 5)
            assert backend.claim(a_claim()) == []
            looks += 1

    assert looks < 50


@pytest.mark.promise("F40")
def test_of_many_idle_workers_few_come_for_one_job(backend, open_backend, in_thread, monkeypatch):
    monkeypatch.setattr(wake, "_FIRST", 0.05)  # as after half a second without work
    idle = [open_backend() for _ in range(12)]
    came = []

    def work(client):
        client.wait(["default"], PATIENCE)
        came.append(client.claim(a_claim(owner=str(id(client)))))

    threads = [in_thread(lambda client=client: work(client)) for client in idle]
    backend.enqueue([an_envelope()])
    deadline = time.monotonic() + PATIENCE
    while not any(came) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert sum(map(len, came)) == 1
    assert len(came) <= 8  # how few depends on how long the machine lets a look take
    backend.enqueue([an_envelope() for _ in idle])
    for thread in threads:
        thread.join(PATIENCE)
