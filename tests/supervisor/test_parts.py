"""Small parts: quotas, watched files, pruning, calls for another thread, signals."""

import os
import select
import signal
import threading

import pytest

from onward import Onward, State
from onward.base.clock import SECOND
from onward.operate.pruning import cutoffs, prune
from onward.supervisor.mailbox import Mailbox
from onward.supervisor.posix_signals import Signals
from onward.supervisor.reload import Watcher
from onward.worker.inflight import Quota


@pytest.fixture
def reached():
    return []


@pytest.fixture
def quota_of(reached):
    def quota_of(*arguments, **options):
        quota = Quota(*arguments, **options)
        quota.reached = lambda reason, done: reached.append((reason, done))
        return quota

    return quota_of


class TestQuota:
    def test_without_a_number_there_is_no_end(self, quota_of, reached):
        quota = quota_of()
        quota.ran(1_000_000)
        quota.all_begun(1_000)
        quota.found_nothing()

        assert quota.left(1_000) > 1 << 60
        assert reached == []

    def test_of_so_many_jobs_none_is_left_when_they_are_in_hand_or_done(self, quota_of, reached):
        quota = quota_of(10)
        quota.ran(4)
        assert quota.left(5) == 1
        quota.all_begun(6)  # they may yet be given back
        assert reached == []
        quota.ran(6)
        assert (quota.left(0), reached) == (0, [("it has run 10 jobs", True)])

    def test_who_is_to_be_recycled_asks_for_a_replacement(self, quota_of, reached):
        quota = quota_of(recycle_after=3)
        quota.ran(2)
        quota.all_begun(0)
        assert reached == []
        quota.all_begun(1)
        quota.ran(1)
        assert reached == [("it has begun 3 jobs", False), ("it has run 3 jobs", False)]

    def test_the_lower_number_decides_who_goes_on(self, quota_of, reached):
        quota_of(10, recycle_after=3).ran(3)
        quota_of(3, recycle_after=10).ran(3)
        quota_of(3, recycle_after=3).ran(3)
        assert [done for _, done in reached] == [False, True, True]

    def test_nothing_is_left_to_do_for_who_works_until_it_is_empty(self, quota_of, reached):
        quota_of(recycle_after=10, until_empty=True).found_nothing()
        assert reached == [("nothing is left to do", True)]

    def test_the_counter_is_told_what_ran(self, quota_of):
        counted = []
        quota = quota_of(10)
        quota.count = counted.append
        quota.ran(3)
        quota.ran(0)
        assert counted == [3, 0]


def test_a_watcher_sees_a_file_that_changes_comes_or_goes(tmp_path):
    file, another = tmp_path / "a.py", tmp_path / "b.py"
    file.touch()
    watcher = Watcher()
    watcher.watch([str(file), str(another)])
    assert not watcher.changed()
    os.utime(file, (1, 1))
    assert watcher.changed()
    assert not watcher.changed()
    another.touch()
    assert watcher.changed()
    another.unlink()
    assert watcher.changed()
    os.utime(file, (2, 2))
    watcher.watch([str(file)])  # it was imported again: that hides no change
    assert watcher.changed()


@pytest.mark.promise("F62")
def test_what_is_past_its_retention_is_forgotten_in_batches():
    with Onward("memory://", retention={"completed": 60}) as jobs:
        job = jobs.job(name="nothing")(lambda: None)
        job.enqueue_many([()] * 1_200)
        jobs.drain()
        before = cutoffs({State.COMPLETED: 60.0, State.DISCARDED: None}, 1_000 * SECOND)
        none = [sum(batch.removed.values()) for batch in prune(jobs.backend, before)]
        far = cutoffs({State.COMPLETED: -60.0, State.DISCARDED: None}, jobs.backend.clock.micros())
        batches = [sum(batch.removed.values()) for batch in prune(jobs.backend, far)]

    assert before == {State.COMPLETED: 940 * SECOND}
    assert sum(none) == 0
    assert sum(batches) == 1_200
    assert max(batches) <= 500


def test_calls_of_other_threads_wake_the_thread_that_waits():
    called = []
    with Mailbox() as mailbox:
        threads = [threading.Thread(target=lambda n=n: mailbox.post(lambda: called.append(n))) for n in range(50)]
        for thread in threads:
            thread.start()
        while len(called) < 50:
            assert select.select([mailbox], [], [], 20)[0]
            mailbox.deliver()
        assert not mailbox.waiting
        for _ in range(100_000):  # more than the pipe holds
            mailbox.post()
        mailbox.deliver()
    mailbox.post()  # no loop reads it, and nothing is raised

    assert sorted(called) == [*range(50)]


@pytest.mark.promise("F93")
class TestSignals:
    def test_they_are_heard_in_order_and_do_nothing_else(self):
        with Signals((signal.SIGUSR1, signal.SIGUSR2)) as signals:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert select.select([signals], [], [], 20)[0]
            os.kill(os.getpid(), signal.SIGUSR2)
            heard = signals.received()
            while len(heard) < 2:
                assert select.select([signals], [], [], 20)[0]
                heard += signals.received()
            assert signals.received() == []

        assert heard == [signal.SIGUSR1, signal.SIGUSR2]
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL

    def test_a_signal_that_was_ignored_at_the_start_stays_ignored(self):
        before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        try:
            with Signals((), if_heeded=(signal.SIGUSR1, signal.SIGUSR2)) as signals:
                os.kill(os.getpid(), signal.SIGUSR1)
                os.kill(os.getpid(), signal.SIGUSR2)
                assert select.select([signals], [], [], 20)[0]
                assert signals.received() == [signal.SIGUSR2]
        finally:
            signal.signal(signal.SIGUSR1, before)
