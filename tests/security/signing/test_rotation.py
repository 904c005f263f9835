"""Keys are changed while jobs are enqueued and run: nothing is refused until a key is revoked, then all that it signed."""

import threading
from contextlib import ExitStack

import pytest

from onward import Onward
from onward.security.key_ring import Key, KeyRing
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("quiet")


class Fleet:
    """Workers and a program that enqueues, on one store; each is restarted with other keys while the rest goes on."""

    def __init__(self, url, ring):
        self.url = url
        self.ran = []
        self._stack = ExitStack()
        self._apps = []
        self.workers(ring)
        self.producer(ring)
        self._stop = threading.Event()
        self._sent = 0
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self._thread.start()

    def _open(self, ring):
        jobs = self._stack.enter_context(Onward(self.url, signing_keys=ring, signing="require"))
        self._apps.append(jobs)

        @jobs.job
        def work(n: int):
            self.ran.append(n)

        return jobs, work

    def workers(self, ring):
        """New ones start before the old ones stop, as in any deploy."""
        old = getattr(self, "_worker", None)
        self._worker = self._open(ring)[0].worker(concurrency=2).start()
        if old is not None:
            assert old.stop(60) == []

    def producer(self, ring):
        self._enqueue = self._open(ring)[1].enqueue

    def _produce(self):
        while not self._stop.is_set():
            self._enqueue(self._sent)
            self._sent += 1

    def works_on(self, jobs=30):
        """So many more are enqueued, and so many more run."""
        sent, ran = self._sent, len(self.ran)
        eventually(lambda: self._sent >= sent + jobs and len(self.ran) >= ran + jobs)

    def end(self):
        self._stop.set()
        self._thread.join(60)
        eventually(lambda: len(self.ran) >= self._sent)
        rejected = sum(jobs.metrics.count("jobs_rejected_signature") for jobs in self._apps)
        self._stack.close()
        return self._sent, rejected


@pytest.mark.promise("S37")
@pytest.mark.parametrize("store", ["sqlite"])
def test_a_rotation_under_load_refuses_nothing(url, store, report):
    first = KeyRing([Key.new("k1")])
    fleet = Fleet(url, first)
    fleet.works_on()
    ring = first
    for number in (2, 3):
        ring = ring.adding(Key.new(f"k{number}"))
        fleet.workers(ring)
        fleet.works_on()
        fleet.producer(ring)
        ring = ring.promoting()
        fleet.producer(ring)  # the workers do not know yet that this key signs
        fleet.works_on()
        fleet.workers(ring)
        fleet.works_on()
    sent, rejected = fleet.end()

    assert (sorted(fleet.ran), rejected) == (list(range(sent)), 0)
    report(f"signing: {sent:,} jobs while the key was changed twice: none refused")


@pytest.mark.promise("S37")
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_a_revoked_key_signs_nothing_any_more(url, store):
    old = KeyRing([Key.new("k1")])
    new = old.adding(Key.new("k2")).promoting()
    with (
        Onward(url, signing_keys=old) as producer,
        Onward(url, signing_keys=new.revoking("k1"), signing="require") as jobs,
    ):
        ran = []

        @jobs.job
        def work(n: int):
            ran.append(n)

        producer.enqueue_many("work", [{"n": n} for n in range(200)])
        jobs.enqueue("work", {"n": 1000})
        jobs.drain()

        assert ran == [1000]
        assert jobs.metrics.count("jobs_rejected_signature") == 200
        assert {job.reason for job in jobs.list(state="discarded", limit=500)} == {
            "it was signed with key k1, which is revoked"
        }
