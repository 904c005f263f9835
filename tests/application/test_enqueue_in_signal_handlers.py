"""A signal handler that enqueues runs between two steps of the main thread, which may be enqueueing itself.

It must never wait for what the thread that it has interrupted holds: that one goes on only when the handler has returned.
"""

import os
import signal
import sys
import threading
from math import inf
from pathlib import Path

import pytest

from onward import BackendUnavailable
from onward.backends.sqlite import connection, enqueueing, transaction, wake
from onward.base import ids
from onward.client import group_commit
from onward.telemetry import JobEnqueued, counters, events, metrics
from onward.testing.contract.builders import an_envelope

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signals"),
    pytest.mark.timeout(60),  # whoever waits for itself does so for ever
]

GROUP_COMMIT = (Path(group_commit.__file__),)
STORE = tuple(Path(module.__file__) for module in (connection, enqueueing, transaction))
BESIDE = tuple(Path(module.__file__) for module in (wake, ids, metrics, counters, events))


def never_wait(pause):
    raise AssertionError("it waits for the store, which waits for it")


@pytest.fixture
def work(jobs, monkeypatch):
    # A caller that waits for the others of a commit, and is the only one, soon looks by itself.
    monkeypatch.setattr(group_commit, "_LOOK_AROUND", 0.0005)
    monkeypatch.setattr(group_commit, "jittered", never_wait)

    @jobs.job
    def work(n: int) -> int:
        return n

    return work


class Interrupted:
    """Calls a function, and sends a signal to its own thread at one of the steps that Python takes in some files.

    ``each_step`` is every byte-code; otherwise, every line.
    """

    def __init__(self, files, *, each_step):
        self._files = frozenset(map(str, files))
        self._event = "opcode" if each_step else "line"
        self._left = 0

    def at(self, step, call):
        """Return what the call returns, and whether it had as many steps."""
        self._left = step + 1
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            answer = call()
        finally:
            sys.settrace(before)
        return answer, self._left <= 0

    def _trace(self, frame, event, arg):
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes = self._event == "opcode"
        if event == self._event:
            self._left -= 1
            if self._left == 0:
                signal.raise_signal(signal.SIGUSR1)
        return self._trace


@pytest.fixture
def handled(work):
    """What came of the enqueues of the signal handler: handles, and errors that it caught."""
    outcomes = []

    def enqueue(number, frame):
        try:
            outcomes.append(work.enqueue(2))
        except BackendUnavailable as error:
            outcomes.append(error)

    before = signal.signal(signal.SIGUSR1, enqueue)
    yield outcomes
    signal.signal(signal.SIGUSR1, before)


def lone(commit):
    """No other caller is there."""
    return []


def late(commit):
    """Callers of the last commit still wake each other."""
    commit._waking = True
    return []


def leading(commit):
    """Two callers wait, whose jobs the next one that comes stores with its own, in a transaction of several statements."""
    tickets = [group_commit._Ticket([an_envelope(unique_key=key)], inf) for key in (None, os.urandom(8).hex())]
    commit._tickets.extend(tickets)
    return tickets


def interrupt_everywhere(jobs, work, handled, interrupted, situation):
    """Enqueue, and be interrupted at each step in turn.  Every caller gets the answer for its own job, stored once."""
    commit, step, struck = jobs.client._commit, 0, True
    while struck:
        others, already = situation(commit), sum(jobs.counts().values())
        handled.clear()
        handle, struck = interrupted.at(step, lambda: work.enqueue(1))

        assert len(handled) == struck
        assert handle.created
        assert all(answer.created for other in others for answer in other.answer)
        nested = [each for each in handled if not isinstance(each, BackendUnavailable)]
        assert all(jobs.get(each.id).payload == {"n": 2} for each in nested)
        assert sum(jobs.counts().values()) == already + 1 + len(others) + len(nested)
        assert not commit._tickets
        assert not commit._is_mine()
        yield from handled
        commit._waking = False  # those who waited here wake nobody
        step += 1
    assert step > 20


@pytest.mark.parametrize("situation", [lone, late, leading])
def test_wherever_it_interrupts_the_group_commit_all_jobs_are_stored(jobs, work, handled, situation):
    interrupted = Interrupted(GROUP_COMMIT, each_step=True)

    for outcome in interrupt_everywhere(jobs, work, handled, interrupted, situation):
        assert outcome.created


@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.parametrize("situation", [lone, leading])
def test_only_a_transaction_that_it_interrupts_is_in_its_way(jobs, work, handled, situation):
    """It is told at once, and of the way out; the callers whose transaction that is notice nothing."""
    interrupted = Interrupted(STORE, each_step=False)

    outcomes = list(interrupt_everywhere(jobs, work, handled, interrupted, situation))

    refusals = [outcome for outcome in outcomes if isinstance(outcome, BackendUnavailable)]
    assert bool(refusals) == (situation is leading)  # a job by itself is a single statement
    assert all("enqueue after the signal handler has returned" in str(refusal) for refusal in refusals)


@pytest.mark.parametrize("store", ["sqlite"])
def test_the_error_that_it_lets_out_is_told_to_the_caller_that_it_interrupted_and_to_no_other(jobs, work):
    commit, interrupted, step, raised, struck = jobs.client._commit, Interrupted(STORE, each_step=False), 0, 0, True
    before = signal.signal(signal.SIGUSR1, lambda *_: work.enqueue(2))
    try:
        while struck:
            others = leading(commit)
            try:
                _, struck = interrupted.at(step, lambda: work.enqueue(1))
            except BackendUnavailable:
                raised += 1
            assert [other.error for other in others] == [None, None]
            assert all(other.answered or other in commit._tickets for other in others)
            assert not commit._is_mine()
            commit._tickets.clear()
            commit._waking = False
            step += 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert raised > 10


@pytest.mark.parametrize("store", ["sqlite"])
def test_nothing_beside_the_store_is_in_its_way(jobs, work, handled):
    """Neither where ids are made, nor where sleepers are woken, nor where jobs are counted and events wait."""
    jobs.on(JobEnqueued, lambda event: None)
    interrupted = Interrupted(BESIDE, each_step=True)

    for outcome in interrupt_everywhere(jobs, work, handled, interrupted, lone):
        assert outcome.created


@pytest.mark.parametrize("store", ["sqlite"])
@pytest.mark.parametrize("lock", ["_tickets_lock", "_commit_lock"])
def test_a_child_does_not_wait_for_a_thread_that_had_a_lock_at_the_fork(jobs, work, lock):
    held, forked = threading.Event(), threading.Event()

    def hold():
        with getattr(jobs.client._commit, lock):
            held.set()
            forked.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # ends a child that hangs
        code = 1
        try:
            late(jobs.client._commit)  # so that it takes both locks
            code = int(not work.enqueue(1).created)
        finally:
            os._exit(code)
    forked.set()
    thread.join()

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert jobs.counts()["available"] == 1
