"""Concurrent enqueues share a commit: no thread pays for another's bad job, and nothing is stored twice."""

import signal
import threading
import time

import pytest

from onward import BackendUnavailable
from onward.client import group_commit
from onward.errors import BackendRefused, StoreFull
from onward.telemetry import JobDeduplicated, JobEnqueued


class Watched:
    """A real backend whose enqueues can be counted, held up, refused and cut short by a test."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = []
        self.before = lambda envelopes: None
        self.after = lambda envelopes: None

    def enqueue(self, envelopes, *, retried=False):
        self.calls.append((len(envelopes), retried))
        self.before(envelopes)
        answers = super().enqueue(envelopes, retried=retried)
        self.after(envelopes)
        return answers


@pytest.fixture
def jobs(open_app_on):
    return open_app_on(Watched)


@pytest.fixture
def work(jobs):
    @jobs.job
    def work(n: int = 0) -> int:
        return n

    return work


def holds(envelopes, text):
    return any(text in envelope.data for envelope in envelopes)


@pytest.fixture
def together(jobs, work, eventually):
    """Let several threads enqueue in one commit: hold up a first one until all the others wait behind it.

    ``together(calls, meanwhile)`` returns, for each call, its handle or its error; `meanwhile` is run when all of them wait.
    """

    def together(calls, meanwhile=lambda: None):
        entered, gate, outcomes = threading.Event(), threading.Event(), {}
        before, jobs.backend.before = jobs.backend.before, lambda envelopes: (entered.set(), gate.wait(20))

        def body(number, call):
            try:
                outcomes[number] = call()
            except BaseException as error:  # noqa: BLE001  looked at by the test
                outcomes[number] = error

        leader = threading.Thread(target=work.enqueue, daemon=True)
        leader.start()
        assert entered.wait(20)
        threads = []
        for number, call in enumerate(calls):
            threads.append(threading.Thread(target=body, args=(number, call), daemon=True))
            threads[-1].start()
            eventually(lambda number=number: len(jobs.client._commit._tickets) == number + 1)
        jobs.backend.before = before
        jobs.backend.calls.clear()
        meanwhile()
        gate.set()
        for thread in (leader, *threads):
            thread.join(20)
            assert not thread.is_alive(), "a caller hangs"
        return [outcomes[number] for number in range(len(calls))]

    return together


def test_sixteen_threads_need_far_fewer_commits_than_they_enqueue_jobs(jobs, work, in_threads, report):
    jobs.backend.before = lambda envelopes: time.sleep(0.002)  # what a disk takes to be sure

    in_threads(16, lambda _: [work.enqueue() for _ in range(25)])

    report(
        f"group commit: 16 threads x 25 enqueues = {len(jobs.backend.calls)} commits on {type(jobs.backend).__name__}"
    )
    assert jobs.counts()["available"] == 400
    assert len(jobs.backend.calls) < 150


def test_every_caller_gets_the_handle_of_its_own_job(jobs, work, in_threads):
    handles = in_threads(16, lambda n: [work.enqueue(100 * n + m) for m in range(10)])

    for n, mine in enumerate(handles):
        assert [jobs.get(handle.id).payload["n"] for handle in mine] == [100 * n + m for m in range(10)]


def test_a_caller_returns_only_when_its_job_is_stored(jobs, work, in_threads):
    in_threads(16, lambda n: [jobs.get(work.enqueue(n).id).state for _ in range(10)])


def test_callers_that_wait_together_share_one_commit(jobs, work, together):
    handles = together([work.enqueue] * 8)

    assert jobs.backend.calls == [(8, False)]
    assert len({handle.id for handle in handles}) == 8


def test_a_commit_is_not_made_larger_than_the_store_should_be_held_up_for(jobs, work, together):
    together([lambda: work.enqueue_many([()] * 600)] * 4)

    assert jobs.backend.calls == [(600, False)] * 4
    assert jobs.counts()["available"] == 2_401


def test_a_refused_job_is_the_error_of_its_own_caller_only(jobs, work, together):
    def refuse(envelopes):
        if holds(envelopes, b'"n":666'):
            raise BackendRefused("no such number")

    jobs.backend.before = refuse
    outcomes = together([lambda n=n: work.enqueue(n) for n in (1, 2, 666, 4, 5)])

    assert [type(outcome).__name__ for outcome in outcomes] == [
        "JobHandle",
        "JobHandle",
        "BackendRefused",
        "JobHandle",
        "JobHandle",
    ]
    assert sorted(record.payload.get("n", 0) for record in jobs.list()) == [0, 1, 2, 4, 5]


def test_a_caller_whose_job_was_stored_is_not_told_of_the_outage_that_came_after(jobs, work, together):
    """It would enqueue the job again."""

    def refuse(envelopes):
        if len(envelopes) > 1:
            raise BackendRefused("not these two together")
        if holds(envelopes, b'"n":666'):
            raise StoreFull("no space left")

    jobs.backend.before = refuse
    stored, failed = together([lambda: work.enqueue(1), lambda: work.enqueue(666)])

    assert stored.state() == "available"
    assert isinstance(failed, StoreFull)


@pytest.mark.promise("S34")
def test_of_equal_unique_keys_in_one_commit_the_first_in_line_wins(jobs, work, together):
    unique = work.using(unique_key="k")
    handles = together([lambda n=n: unique.enqueue(n) for n in range(6)])

    assert jobs.backend.calls == [(6, False)]
    assert {handle.id for handle in handles} == {handles[0].id}
    assert [handle.created for handle in handles] == [True] + [False] * 5


@pytest.mark.promise("F71")
def test_a_unique_key_is_not_lost_to_a_winner_that_was_refused(jobs, work, together):
    def refuse(envelopes):
        if holds(envelopes, b'"n":666'):
            raise BackendRefused("no such number")

    jobs.backend.before = refuse
    unique = work.using(unique_key="k")
    refused, second, third = together([lambda n=n: unique.enqueue(n) for n in (666, 2, 3)])

    assert isinstance(refused, BackendRefused)
    assert (second.created, third.created) == (True, False)
    assert third.id == second.id


@pytest.mark.parametrize("moment", ["before", "after"])
def test_the_jobs_behind_an_interrupted_leader_are_stored_once(jobs, work, together, moment):
    """Ctrl-C strikes the thread that leads, before or after its commit; the others neither hang nor are stored twice."""
    struck = []

    def strike(envelopes):
        if len(envelopes) > 1 and not struck:
            struck.append(1)
            raise KeyboardInterrupt

    outcomes = together(
        [lambda n=n: work.enqueue(n) for n in range(1, 7)], meanwhile=lambda: setattr(jobs.backend, moment, strike)
    )

    interrupted = [outcome for outcome in outcomes if isinstance(outcome, KeyboardInterrupt)]
    handles = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    numbers = [record.payload.get("n", 0) for record in jobs.list()]
    assert (len(interrupted), len(handles)) == (1, 5)
    assert all(handle.created for handle in handles)
    assert len(numbers) == len(set(numbers)) == (6 if moment == "before" else 7)


def test_a_caller_interrupted_while_it_waits_leaves_nothing_behind(jobs, work, eventually, ctrl_c):
    """Ctrl-C reaches the main thread, which waits behind another thread's commit."""
    entered, gate = threading.Event(), threading.Event()
    jobs.backend.before = lambda envelopes: (entered.set(), gate.wait(20))
    leader = threading.Thread(target=work.enqueue, args=(1,))
    leader.start()
    assert entered.wait(20)

    def interrupt():
        eventually(lambda: jobs.client._commit._tickets)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        work.enqueue(2)
    gate.set()
    leader.join()

    assert work.enqueue(3).state() == "available"
    assert [record.payload["n"] for record in jobs.list()] == [1, 3]


class TestCallersThatWakeEachOther:
    @pytest.fixture(autouse=True)
    def no_look_around(self, monkeypatch):
        """A caller that is not woken stays blocked."""
        monkeypatch.setattr(group_commit, "_LOOK_AROUND", 60.0)

    def test_each_caller_of_a_commit_is_woken(self, work, together):
        assert len({handle.id for handle in together([work.enqueue] * 8)}) == 8

    def test_each_caller_is_woken_whose_commit_is_refused(self, jobs, work, together):
        def refuse(envelopes):
            raise BackendRefused("none of these")

        outcomes = together([work.enqueue] * 5, meanwhile=lambda: setattr(jobs.backend, "before", refuse))

        assert [type(outcome) for outcome in outcomes] == [BackendRefused] * 5

    @pytest.fixture
    def commits(self, jobs):
        """How many jobs each commit had; the first two are held up until `gates` open."""
        commits = []

        def hold_up(envelopes):
            commits.append(len(envelopes))
            if len(commits) <= len(self.gates):
                self.gates[len(commits) - 1].wait(20)

        self.gates = [threading.Event(), threading.Event()]
        jobs.backend.before = hold_up
        return commits

    @pytest.fixture
    def enqueue_behind(self, jobs, work, eventually):
        """Enqueue in a thread, as the caller that waits in this place; in place 0, it commits."""

        def enqueue_behind(place):
            thread = threading.Thread(target=work.enqueue, daemon=True)
            thread.start()
            eventually(lambda: jobs.backend.calls and len(jobs.client._commit._tickets) == place)
            return thread

        return enqueue_behind

    def test_those_that_came_during_a_commit_are_woken_after_it(self, commits, enqueue_behind, eventually):
        threads = [enqueue_behind(place) for place in range(3)]
        self.gates[0].set()
        eventually(lambda: len(commits) == 2)
        threads += [enqueue_behind(place) for place in (1, 2)]
        self.gates[1].set()

        self.all_return(threads)
        assert commits == [1, 2, 2]

    def test_those_behind_a_caller_that_was_interrupted_are_woken(
        self, jobs, work, commits, enqueue_behind, eventually, ctrl_c
    ):
        """The main thread waits in the middle of a batch when Ctrl-C reaches it, and wakes nobody any more."""
        threads = [enqueue_behind(place) for place in range(3)]

        def interrupt():
            eventually(lambda: len(jobs.client._commit._tickets) == 3)
            threads.extend(enqueue_behind(place) for place in (4, 5))
            # The next commit begins while the main thread is in the middle, whichever of the others leads.
            self.gates[0].set()
            eventually(lambda: len(commits) == 2)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        helper = threading.Thread(target=interrupt)
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            work.enqueue()
        helper.join(20)
        self.gates[1].set()

        self.all_return(threads)
        assert commits[1] == 5

    def all_return(self, threads):
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), "a caller was not woken"


def test_the_jobs_that_an_interrupted_leader_had_taken_are_stored_by_their_callers(jobs, work, together, monkeypatch):
    """Between the moment at which it takes tickets and the one at which it answers for them."""
    commit, interruptions = group_commit.GroupCommit._commit, [KeyboardInterrupt()]

    def interrupted(group, batch):
        if interruptions:
            raise interruptions.pop()
        commit(group, batch)

    monkeypatch.setattr(group_commit.GroupCommit, "_commit", interrupted)
    outcomes = together([work.enqueue] * 4)

    assert sum(isinstance(outcome, KeyboardInterrupt) for outcome in outcomes) == 1
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 3
    assert jobs.counts()["available"] == 1 + 3


def test_a_caller_that_was_interrupted_as_it_got_the_lock_gives_it_back(jobs, work, monkeypatch):
    interruptions = [KeyboardInterrupt()]
    acquire = jobs.client._commit._commit_lock.acquire

    class Interrupted:
        """The lock, and a Ctrl-C that comes when it has been acquired."""

        def __getattr__(self, name):
            return getattr(lock, name)

        def acquire(self, **given):
            got = acquire(**given)
            if interruptions:
                raise interruptions.pop()
            return got

    lock = jobs.client._commit._commit_lock
    jobs.client._commit._commit_lock = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        work.enqueue()
    other = threading.Thread(target=work.enqueue, daemon=True)
    other.start()
    other.join(20)

    assert not other.is_alive()
    assert jobs.counts()["available"] == 1


def test_nobody_waits_for_good_where_a_caller_was_interrupted_before_it_woke_the_next(jobs, work):
    jobs.client._commit._waking = True
    thread = threading.Thread(target=work.enqueue, daemon=True)

    thread.start()
    thread.join(20)

    assert not thread.is_alive()
    assert jobs.counts()["available"] == 1


class TestAnEnqueueOfUnknownFate:
    @pytest.fixture(autouse=True)
    def impatient(self, impatient):
        """No pauses between the tries."""

    @pytest.mark.promise("F28")
    def test_a_thousand_enqueues_whose_answers_were_lost_are_a_thousand_jobs(self, jobs, work):
        seen = set()

        def lose(envelopes):
            if not seen.issuperset(envelope.id for envelope in envelopes):
                seen.update(envelope.id for envelope in envelopes)
                raise BackendUnavailable("the answer was lost")

        jobs.backend.after = lose
        handles = [work.enqueue(n) for n in range(1_000)]

        assert len({handle.id for handle in handles}) == 1_000
        assert jobs.counts()["available"] == 1_000
        assert jobs.backend.calls == [(1, False), (1, True)] * 1_000

    @pytest.mark.promise("F28")
    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_the_enqueuer_learns_nothing_of_it(self, jobs, work, moment, listen):
        heard = listen(jobs)
        failures = [BackendUnavailable("away"), BackendUnavailable("away")]

        def lose(envelopes):
            if failures:
                raise failures.pop()

        setattr(jobs.backend, moment, lose)
        handle = work.enqueue(7)

        assert handle.created
        assert [type(event) for event in heard(JobEnqueued, JobDeduplicated)] == [JobEnqueued]
        assert jobs.counts()["available"] == 1

    @pytest.mark.promise("F28")
    def test_a_duplicate_is_still_a_duplicate(self, jobs, work):
        unique = work.using(unique_key="k")
        first = unique.enqueue(1)
        failures = [BackendUnavailable("away")]

        def lose(envelopes):
            if failures:
                raise failures.pop()

        jobs.backend.after = lose
        second = unique.enqueue(2)

        assert (second.created, second.id) == (False, first.id)

    @pytest.mark.promise("F28")
    @pytest.mark.parametrize("kept", [86_400, 0], ids=["kept", "tombstone"])
    def test_a_job_that_has_run_before_its_enqueue_is_repeated_does_not_run_again(self, open_app_on, kept):
        jobs = open_app_on(Watched, retention={"completed": kept})
        ran = []

        @jobs.job
        def work(n: int):
            ran.append(n)

        def run_and_lose(envelopes):
            if not ran:
                jobs.drain()
                raise BackendUnavailable("the answer was lost")

        jobs.backend.after = run_and_lose
        handle = work.enqueue(7)
        jobs.drain()

        assert (ran, handle.state()) == ([7], "completed")

    def test_a_store_that_stays_away_is_told_to_the_caller(self, jobs, work, monkeypatch):
        monkeypatch.setattr(jobs.client._commit, "_timeout", 0.0)

        def away(envelopes):
            raise BackendUnavailable("away")

        jobs.backend.before = away
        with pytest.raises(BackendUnavailable):
            work.enqueue()
        jobs.backend.before = lambda envelopes: None

        assert sum(jobs.counts().values()) == 0
        assert work.enqueue().state() == "available"

    def test_a_full_store_is_told_at_once(self, jobs, work):
        def full(envelopes):
            raise StoreFull("no space left")

        jobs.backend.before = full
        with pytest.raises(StoreFull):
            work.enqueue()

        assert len(jobs.backend.calls) == 1
