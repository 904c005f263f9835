"""Waking: one job wakes one worker, at once and across processes; sleeping costs next to nothing."""

import threading
import time

import pytest

from onward.backend import Settlement
from onward.backends.sqlite import backend as module
from onward.backends.sqlite.wake import WakePipe
from onward.flow.limits import Bounds
from onward.testing.contract.builders import a_claim, a_lease, a_turn, an_envelope, some_envelopes
from onward.testing.contract.lanes import a_limit, declare

NEVER = 3600


@pytest.fixture
def pipes(tmp_path):
    """The pipes of two processes to one FIFO."""
    ends = [WakePipe(tmp_path / "wake"), WakePipe(tmp_path / "wake")]
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def rings(backend, file):
    """Whether a byte was written since the last time this was asked."""
    pipe = WakePipe(file.parent / f"{file.name}-wake")
    yield lambda: pipe.sleep(0)
    pipe.close()


@pytest.fixture
def no_looking(monkeypatch):
    """Let only the pipe wake sleepers."""
    monkeypatch.setattr(module, "_LOOK_EVERY", NEVER)


class TestTheWakePipe:
    def test_one_ring_is_heard_by_one(self, pipes):
        pipes[0].wake()

        assert [pipe.sleep(0) for pipe in pipes] == [True, False]

    def test_many_rings_are_one_until_it_is_heard(self, pipes):
        for _ in range(100):
            pipes[0].wake()

        assert [pipes[1].sleep(0) for _ in range(2)] == [True, False]

    def test_it_wakes_who_is_asleep(self, pipes):
        heard = []
        sleeper = threading.Thread(target=lambda: heard.append(pipes[1].sleep(60)))
        sleeper.start()

        pipes[0].wake()

        sleeper.join(60)
        assert heard == [True]

    def test_where_it_cannot_be_made_no_worker_is_woken(self, tmp_path):
        (tmp_path / "wake").write_text("a plain file is in its place")
        pipe = WakePipe(tmp_path / "wake")

        pipe.wake()

        assert not pipe.sleep(0)
        assert (tmp_path / "wake").read_text() == "a plain file is in its place"

    def test_closing_it_while_a_worker_listens_is_harmless(self, pipes):
        sleeper = threading.Thread(target=pipes[0].sleep, args=(0.2,))
        sleeper.start()

        pipes[0].close()

        sleeper.join(60)
        pipes[0].wake()
        assert not pipes[0].sleep(0)


class TestRinging:
    def test_a_job_that_is_due_rings(self, backend, rings):
        backend.enqueue([an_envelope()])

        assert rings()

    def test_a_job_for_later_does_not(self, backend, rings):
        backend.enqueue([an_envelope(delay=60)])

        assert not rings()

    def test_who_took_all_it_wanted_passes_it_on(self, backend, rings):
        backend.enqueue(some_envelopes(3))
        assert rings()

        backend.claim(a_claim(limit=2))
        assert rings()

        backend.claim(a_claim(limit=2))
        assert not rings()

    def test_who_stopped_before_a_suspect_passes_it_on(self, backend, rings):
        lease = a_lease(backend)
        backend.reap(owner=lease.owner)
        rings()

        backend.claim(a_claim(limit=10))

        assert rings()

    @pytest.mark.parametrize(
        "act",
        [
            pytest.param(lambda backend, lease: backend.release(lease), id="release"),
            pytest.param(lambda backend, lease: backend.nack(lease), id="nack"),
            pytest.param(lambda backend, lease: backend.reap(owner=lease.owner), id="reap"),
            pytest.param(lambda backend, lease: backend.pause("default", paused=False), id="resume"),
        ],
    )
    def test_what_comes_back_at_once_rings(self, backend, rings, act):
        lease = a_lease(backend)
        rings()

        act(backend, lease)

        assert rings()

    def test_the_end_of_a_hold_rings_for_who_waits(self, backend, rings):
        backend.enqueue(some_envelopes(2, single_instance=True))
        held, busy = backend.claim(a_claim(limit=2))
        backend.turn(a_turn(Settlement.snooze(busy, 60, waits=1)))
        rings()

        backend.ack(held)

        assert rings()

    def test_a_wake_for_another_queue_is_passed_on(self, backend, rings):
        backend.enqueue([an_envelope(queue="mail")])

        backend.wait(["video"], 0.01)

        assert rings()

    def test_a_wake_that_no_worker_wants_is_not_repeated(self, backend, rings):
        backend.enqueue([an_envelope(queue="mail")])

        backend.wait(["video"], 0.2)

        assert not rings()


class TestWaiting:
    def test_a_ring_ends_it_without_looking(self, start, open_backend, no_looking):
        backend = open_backend()
        waiting = start(_WAIT, NEVER)
        assert waiting.stdout.readline() == "waiting\n"

        enqueued = time.monotonic()
        backend.enqueue([an_envelope()])

        assert waiting.stdout.readline() == "woken\n"
        assert time.monotonic() - enqueued < 5

    def test_looking_ends_it_where_there_is_no_wake_pipe(self, start, open_backend, file):
        (file.parent / f"{file.name}-wake").write_text("a plain file is in its place")
        backend = open_backend()
        waiting = start(_WAIT, 0.05)
        assert waiting.stdout.readline() == "waiting\n"

        enqueued = time.monotonic()
        backend.enqueue([an_envelope()])

        assert waiting.stdout.readline() == "woken\n"
        assert time.monotonic() - enqueued < 5

    def test_one_job_wakes_one_worker_and_a_burst_as_many_as_it_needs(self, start, open_backend):
        backend = open_backend()
        workers = [start(_WORK) for _ in range(3)]
        for worker in workers:
            assert worker.stdout.readline() == "waiting\n"

        envelopes = some_envelopes(3)
        backend.enqueue(envelopes)

        # Each takes one job and holds it: only if all three wake are all three taken.
        claimed = [worker.stdout.readline().strip() for worker in workers]
        assert sorted(claimed) == sorted(envelope.id for envelope in envelopes)

    def test_it_never_sleeps_past_the_next_due_job(self, open_backend, no_looking):
        backend = open_backend(clock=None)
        backend.enqueue([an_envelope(delay=0.1, queue="mail"), an_envelope(delay=NEVER, queue="mail")])

        backend.wait(["video", "mail"], NEVER)

        assert backend.claim(a_claim(queues=["mail"]))

    def test_a_clock_that_is_moved_is_noticed(self, backend, clock):
        backend.enqueue([an_envelope(delay=NEVER)])
        mover = threading.Timer(0.01, clock.advance, [NEVER])
        mover.start()

        backend.wait(["default"], 60)

        mover.join()
        assert backend.claim(a_claim())

    def test_work_in_a_paused_queue_wakes_no_worker(self, backend):
        backend.pause("default")
        backend.enqueue([an_envelope()])
        started = time.monotonic()

        backend.wait(["default"], 0.15)

        assert time.monotonic() - started >= 0.15

    def test_sleeping_costs_less_than_a_hundredth_of_a_core(self, open_backend, report):
        backend = open_backend(clock=None)
        backend.wait(["default"], 0.1)
        used = time.thread_time()

        backend.wait(["default", "mail", "video"], 2)

        used = time.thread_time() - used
        report(f"an idle worker's wait on SQLite: {used / 2:.2%} of a core")
        assert used < 0.01 * 2


_WAIT = """
    import sys
    from onward.backends.sqlite import SqliteBackend, backend as module

    module._LOOK_EVERY = float(sys.argv[2])
    backend = SqliteBackend.open(sys.argv[1])
    print("waiting", flush=True)
    backend.wait(["default"], 60)
    print("woken", flush=True)
"""

_WORK = """
    import os, sys
    from onward.backend import Claim
    from onward.backends.sqlite import SqliteBackend

    backend = SqliteBackend.open(sys.argv[1])
    print("waiting", flush=True)
    leases = []
    while not leases:
        backend.wait(["default"], 3600)
        leases = backend.claim(Claim(queues=("default",), owner=str(os.getpid())))
    print(leases[0].envelope.id, flush=True)
"""


class TestLimits:
    """What people change lets jobs start that wait: an idle worker need not find out by itself."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda backend: backend.set_limit("job", "render", Bounds(running=2)),
            lambda backend: backend.set_limit("job", "render", Bounds()),
            lambda backend: backend.shut("render/", opened=True),
        ],
        ids=["set", "clear", "open"],
    )
    def test_a_changed_limit_rings(self, backend, rings, change):
        declare(backend, a_limit(running=1))
        rings()

        change(backend)

        assert rings()

    def test_a_limit_that_does_not_exist_rings_nothing(self, backend, rings):
        assert not backend.set_limit("job", "unknown", Bounds(running=2))

        assert not rings()
