"""Whoever can write to the store, and has no key, runs nothing: on every store, and nothing of theirs is lost.

All that is forged is stored through the backend, past everything that a client checks.  First it is run with verification
off, so that it is seen to be an attack; then a worker that requires signatures has to refuse it.
"""

from collections import Counter
from contextlib import contextmanager

import pytest

from onward import Onward
from onward.telemetry import JobCancelled, JobCompleted, JobDiscarded, JobParked
from tests.signing import attacks
from tests.signing.attacks import ATTACKS, DAMAGE, OTHER_QUEUE, QUEUE, RING, honest
from tests.signing.conftest import STORES
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("quiet")

SHARED_OUT = ("mysql", "beanstalk")  # together they see every bit turned over; of the others each does


class Shop:
    """A worker's application, and what it has run."""

    def __init__(self, url, **settings):
        self.jobs = Onward(url, **settings)
        self.before = Counter(self.jobs.counts())
        self.ran = []
        self.ends = {}  # id -> how it ended
        for kind in (JobCompleted, JobDiscarded, JobCancelled, JobParked):
            self.jobs.on(kind, self._note)

        @self.jobs.job(name="send", queue=QUEUE)
        def send(n: int):
            self.ran.append(("send", n))

        @self.jobs.job(name="pay", queue=OTHER_QUEUE)
        def pay(n: int):
            self.ran.append(("pay", n))

    def _note(self, event):
        self.ends[event.id] = event

    def meets(self, forged):
        """Somebody stores these; the worker claims all of them."""
        for start in range(0, len(forged), 500):
            answers = self.jobs.backend.enqueue([each.envelope for each in forged[start : start + 500]])
            assert all(answer.created for answer in answers)
        with self.jobs.worker(queues=[QUEUE, OTHER_QUEUE], concurrency=4):
            self.has_ended(each.id for each in forged)

    def has_ended(self, ids):
        """What is parked comes back, so it is not enough to count."""
        missing = set(ids)
        eventually(
            lambda: not missing.difference(self.ends), what=lambda: f"{missing.difference(self.ends)} never ended"
        )


@contextmanager
def open_shop(url, **settings):
    shop = Shop(url, **settings)
    with shop.jobs:
        yield shop


@pytest.fixture
def lax(url):
    """A worker with the keys, which does not look."""
    with open_shop(url, signing_keys=RING, signing="off") as shop:
        yield shop


@pytest.fixture
def strict(url):
    with open_shop(url, signing_keys=RING, signing="require") as shop:
        yield shop


def assert_refused_and_kept(shop, forged, store):
    """Nothing ran, everything is there, with its bytes and the reason, and is counted."""
    assert shop.ran == []
    ends = Counter(type(shop.ends[each.id]).__name__ for each in forged)
    newer = [each for each in forged if isinstance(shop.ends[each.id], JobParked)]
    assert ends.keys() <= {"JobDiscarded", "JobParked"}
    assert all(each.data[7:8] in b"3579" for each in newer)  # a newer version: nobody here can read it
    assert len(newer) <= 4
    count = shop.jobs.metrics.count
    assert count("jobs_rejected_signature") == ends["JobDiscarded"]
    assert all(shop.ends[each.id].reason for each in forged)
    assert (count("jobs_failed"), count("jobs_succeeded")) == (0, 0)
    kept = Counter(shop.jobs.counts()) - shop.before
    assert (kept["discarded"], kept.total()) == (ends["JobDiscarded"], len(forged))
    if store != "beanstalk":  # which cannot be asked about single jobs
        for each in forged[:: max(1, len(forged) // 50)]:
            record = shop.jobs.get(each.id)
            assert (record.raw, record.attempts) == (each.data, 0)
            assert each in newer or record.reason == record.errors[-1].message


@pytest.mark.promise("S36")
@pytest.mark.parametrize("store", ["memory"])
def test_a_turned_bit_may_well_run_where_nobody_looks(lax, store):
    flips = list(attacks.bit_flips())
    lax.meets(flips)

    assert len(lax.ran) > 300  # nearly all those of key and signature, and some of the rest
    assert {n for _, n in lax.ran} > {1}  # among them some with other arguments than were signed


@pytest.mark.promise("S36", "CVE-2020-11981", "CVE-2020-11982")
def test_nothing_that_is_forged_runs_on_any_store(url, store, report):
    with open_shop(url, signing_keys=RING, signing="off") as lax:
        by_name = {name: attack() for name, attack in ATTACKS.items()}
        lax.meets(list(by_name.values()))

        # Where nobody looks, every one of them runs.
        assert [name for name, each in by_name.items() if not isinstance(lax.ends[each.id], JobCompleted)] == []
        assert len(lax.ran) == len(ATTACKS)

    with open_shop(url, signing_keys=RING, signing="require") as strict:
        forged = [*attacks.many(ATTACKS, 6), *attacks.many(DAMAGE, 2)]
        strict.meets(forged)

        assert_refused_and_kept(strict, forged, store)
    report(f"signing: {len(forged):,} forged jobs on {store}: none ran")


@pytest.mark.promise("S36")
def test_no_single_bit_can_be_turned_over(strict, store, report):
    share = (SHARED_OUT.index(store), len(SHARED_OUT)) if store in SHARED_OUT else (0, 1)
    forged = [*attacks.bit_flips(*share), *attacks.truncations(share[1])]
    strict.meets(forged)

    assert_refused_and_kept(strict, forged, store)
    report(f"signing: {len(forged):,} turned bits and truncations on {store}: none ran")


def test_the_attacks_are_as_many_as_is_said():
    forged = 6 * len(ATTACKS) + 2 * len(DAMAGE)
    whole, parts = ([*attacks.bit_flips(0, step), *attacks.truncations(step)] for step in (1, len(SHARED_OUT)))

    alone = len(STORES) - len(SHARED_OUT)
    assert len(STORES) * forged + alone * len(whole) + len(SHARED_OUT) * len(parts) >= 10_000


@pytest.mark.promise("S36")
def test_an_honest_job_among_them_runs(strict, store):
    jobs = [honest() for _ in range(20)]
    forged = attacks.many({"not signed": ATTACKS["not signed"]}, 20)
    strict.jobs.backend.enqueue(
        [each for pair in zip(jobs, forged, strict=True) for each in (pair[0], pair[1].envelope)]
    )
    with strict.jobs.worker(queues=[QUEUE]):
        strict.has_ended([*(job.id for job in jobs), *(each.id for each in forged)])

    assert strict.ran == [("send", 1)] * 20
    assert strict.jobs.metrics.count("jobs_rejected_signature") == 20


@pytest.mark.promise("S36")
def test_a_job_that_is_given_back_after_its_expiry_does_not_run(strict, store):
    """The column is the attacker's; the sealed expiry is not."""
    job = honest(expires_at=1)
    late = attacks.Forged(job.id, job.queue, job.data)
    strict.meets([late])

    assert strict.ran == []
    assert (type(strict.ends[job.id]), strict.ends[job.id].reason) == (JobCancelled, "expired")
