"""The guard of a thread: what is sent is raised once, in the handler and nowhere else."""

import threading

import pytest

from onward.base.interruption import Guard, uninterrupted


class Stop(Exception):
    pass


@pytest.fixture
def in_a_thread():
    """Run a function in a thread of its own; gives what it returned."""

    def in_a_thread(function):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(function()))
        thread.start()
        thread.join(20)
        return answers[0]

    return in_a_thread


def send(guard, run, kind=Stop):
    """Send it from another thread, as `Deadlines` does.  Returns whether it was sent."""
    sent = []
    thread = threading.Thread(target=lambda: sent.append(guard.interrupt(run, kind)))
    thread.start()
    thread.join(20)
    return sent[0]


def spin():
    while True:
        pass


def test_it_is_raised_in_the_handler(in_a_thread):
    def thread():
        guard = Guard()
        guard.enter("run")
        threading.Timer(0.01, guard.interrupt, ["run", Stop]).start()
        try:
            spin()
        except Stop:
            guard.leave()
            return "stopped"

    assert in_a_thread(thread) == "stopped"


def test_before_and_after_a_run_nothing_is_sent(in_a_thread):
    def thread():
        guard = Guard()
        before = send(guard, "run")
        guard.enter("run")
        guard.leave()
        return before, send(guard, "run")

    assert in_a_thread(thread) == (False, False)


def test_another_run_is_not_hit(in_a_thread):
    def thread():
        guard = Guard()
        guard.enter("first")
        guard.leave()
        guard.enter("second")
        sent = send(guard, "first")
        guard.leave()
        return sent

    assert in_a_thread(thread) is False


def test_in_an_uninterrupted_block_it_waits(in_a_thread):
    def thread():
        guard = Guard()
        guard.enter("run")
        seen = []
        try:
            with uninterrupted():
                seen.append(send(guard, "run"))
                for number in range(1_000):
                    seen.append(number)  # noqa: PERF402  a thousand chances to be hit
            seen.append("after the block")
        except Stop:
            seen.append("stopped")
        guard.leave()
        return seen

    assert in_a_thread(thread) == [True, *range(1_000), "stopped"]


def test_blocks_within_blocks_are_one(in_a_thread):
    def thread():
        guard = Guard()
        guard.enter("run")
        seen = []
        try:
            with uninterrupted():
                with uninterrupted():
                    send(guard, "run")
                seen.append("between")
        except Stop:
            seen.append("stopped")
        guard.leave()
        return seen

    assert in_a_thread(thread) == ["between", "stopped"]


def test_a_block_after_the_interruption_runs(in_a_thread):
    """A handler that tidies up may enqueue."""

    def thread():
        guard = Guard()
        guard.enter("run")
        seen = []
        try:
            send(guard, "run")
            spin()
        except Stop:
            with uninterrupted():
                seen.append("tidied up")
        guard.leave()
        return seen

    assert in_a_thread(thread) == ["tidied up"]


def test_where_no_handler_runs_there_is_nothing_to_keep_away():
    with uninterrupted() as nothing:
        assert nothing is None


def test_the_next_run_of_the_thread_begins_clean(in_a_thread):
    def thread():
        guard = Guard()
        for run in range(2_000):
            try:
                try:
                    guard.enter(run)
                    guard.interrupt(run, Stop)
                finally:
                    guard.leave()
            except Stop:
                guard.leave()
        for _ in range(1_000):
            len("whatever was left would be raised here")
        return "clean"

    assert in_a_thread(thread) == "clean"
