"""Applications that are attacked, and what has become of it."""

from collections import Counter
from contextlib import contextmanager

from onward import Onward
from onward.backend import DeadLettering, Inspection
from onward.telemetry import JobCancelled, JobCompleted, JobDiscarded, JobParked
from tests.security.signing.attacks import OTHER_QUEUE, QUEUE
from tests.waiting import eventually


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

    def meets(self, forged, into=None):
        """An attacker stores these; the worker claims all of them."""
        for start in range(0, len(forged), 500):
            answers = (into or self.jobs.backend).enqueue([each.envelope for each in forged[start : start + 500]])
            assert all(answer.created for answer in answers)
        self.works_until_ended(each.id for each in forged)

    def works_until_ended(self, ids):
        with self.jobs.worker(queues=[QUEUE, OTHER_QUEUE], concurrency=4):
            self.has_ended(ids)

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


def assert_refused_and_kept(shop, forged):
    """Nothing ran, everything is there, with its bytes and the reason, and is counted."""
    assert shop.ran == []
    ends = Counter(type(shop.ends[each.id]).__name__ for each in forged)
    newer = [each for each in forged if isinstance(shop.ends[each.id], JobParked)]
    assert ends.keys() <= {"JobDiscarded", "JobParked"}
    assert all(each.data[7:8] in b"3579" for each in newer)  # a newer version, not readable here
    assert len(newer) <= 4
    count = shop.jobs.metrics.count
    assert count("jobs_rejected_signature") == ends["JobDiscarded"]
    assert all(shop.ends[each.id].reason for each in forged)
    assert (count("jobs_failed"), count("jobs_succeeded")) == (0, 0)
    kept = Counter(shop.jobs.counts()) - shop.before
    assert (kept["discarded"], kept.total()) == (ends["JobDiscarded"], len(forged))
    look_up = looking_up(shop.jobs, len(forged))
    for each in forged[:: max(1, len(forged) // 50)] if look_up else ():
        record = look_up(each.id)
        if record is None and each in newer and not isinstance(shop.jobs.backend, Inspection):
            continue  # it waits, and cannot be looked at
        assert (record.raw, record.attempts) == (each.data, 0)
        assert each in newer or record.reason == record.errors[-1].message


def looking_up(jobs, how_many):
    """How a store can be asked about a job that was refused; None if it cannot."""
    if isinstance(jobs.backend, Inspection):
        return jobs.get
    if isinstance(jobs.backend, DeadLettering):
        return {job.id: job for job in jobs.dead_letters.list(limit=how_many)}.get
    return None
