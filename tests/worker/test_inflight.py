"""`Inflight` by itself: two lines, shared slots, and the last free slot for the oldest work."""

import threading
from types import SimpleNamespace

import pytest

from onward.worker.inflight import Inflight, Work


def work(number, *, is_async=False, claimed=0.0):
    ready = SimpleNamespace(entry=SimpleNamespace(is_async=is_async), lease=None)
    return Work(ready, (f"job {number}", 1), order=number, claimed=claimed)


@pytest.fixture
def fresh():
    return [True]


@pytest.fixture
def calls():
    return []


@pytest.fixture
def inflight(fresh, calls):
    inflight = Inflight(2, lambda: fresh[0])
    inflight.calls.wake = lambda count: calls.append(("calls", count))
    inflight.coroutines.wake = lambda count: calls.append(("coroutines", count))
    return inflight


def test_works_begin_in_order(inflight):
    first, second = work(1), work(2)
    inflight.add([first, second])

    assert [inflight.begin(inflight.calls), inflight.begin(inflight.calls)] == [first, second]
    assert list(inflight.running.values()) == [first, second]


def test_no_more_begin_than_may(inflight):
    inflight.add([work(n) for n in range(3)])
    inflight.begin(inflight.calls)
    running = inflight.begin(inflight.calls)

    assert inflight.begin(inflight.calls) is None
    inflight.end(running, inflight.calls)
    assert inflight.begin(inflight.calls) is not None


def test_the_last_slot_is_for_the_first_that_asked(inflight):
    coroutine = work(1, is_async=True)
    inflight.add([work(0), coroutine, work(2)])
    inflight.begin(inflight.calls)

    assert inflight.begin(inflight.calls) is None
    assert inflight.begin(inflight.coroutines) is coroutine


def test_a_thread_that_must_not_begin_calls_one_that_may(inflight, calls):
    inflight.add([work(0), work(1, is_async=True), work(2)])
    inflight.begin(inflight.calls)
    calls.clear()

    inflight.begin(inflight.calls)

    assert calls == [("coroutines", 1)]


def test_with_room_for_both_neither_waits_for_the_other(inflight):
    call = work(2)
    inflight.add([work(1, is_async=True), call])

    assert inflight.begin(inflight.calls) is call


def test_an_end_calls_the_other_line_if_it_was_first(inflight, calls):
    inflight.add([work(0), work(1), work(2, is_async=True), work(3)])
    running = [inflight.begin(inflight.calls), inflight.begin(inflight.calls)]
    calls.clear()

    inflight.end(running[0], inflight.calls)

    assert calls == [("coroutines", 1)]


def test_an_end_leaves_the_other_line_alone_if_ours_was_first(inflight, calls):
    inflight.add([work(0), work(1), work(2), work(3, is_async=True)])
    running = [inflight.begin(inflight.calls), inflight.begin(inflight.calls)]
    calls.clear()

    inflight.end(running[0], inflight.calls)

    assert calls == []


def test_nothing_begins_on_a_stale_session(inflight, fresh):
    inflight.add([work(0)])
    fresh[0] = False

    assert inflight.begin(inflight.calls) is None
    assert not inflight.may_begin(inflight.calls)
    fresh[0] = True
    assert inflight.may_begin(inflight.calls)


def test_nothing_begins_in_a_closed_hand(inflight):
    inflight.add([work(0)])
    inflight.close()

    assert inflight.begin(inflight.calls) is None


def test_what_has_waited_is_withdrawn_oldest_first(inflight):
    old, older, new = work(1, claimed=2.0), work(0, claimed=1.0, is_async=True), work(2, claimed=9.0)
    inflight.add([older, old, new])

    assert set(inflight.withdraw(older_than=5.0)) == {old, older}
    assert inflight.begin(inflight.calls) is new


def test_withdrawing_everything_leaves_what_runs(inflight):
    inflight.add([work(0), work(1), work(2)])
    running = inflight.begin(inflight.calls)

    assert len(inflight.withdraw()) == 2
    assert inflight.everything() == [running]


def test_withdrawing_the_first_of_one_line_lets_the_other_go(inflight, calls):
    inflight.add([work(0), work(1, is_async=True, claimed=1.0), work(2, claimed=5.0)])
    inflight.begin(inflight.calls)
    assert inflight.begin(inflight.calls) is None
    calls.clear()

    inflight.withdraw(older_than=2.0)

    assert ("calls", 1) in calls
    assert inflight.begin(inflight.calls) is not None


def test_what_was_dropped_never_begins(inflight):
    doomed = work(0)
    inflight.add([doomed])

    assert inflight.drop(doomed)
    assert inflight.begin(inflight.calls) is None


def test_what_has_begun_cannot_be_dropped(inflight):
    inflight.add([work(0)])
    running = inflight.begin(inflight.calls)

    assert not inflight.drop(running)


def test_a_work_is_found_wherever_it_is(inflight):
    running, waiting = work(0), work(1, is_async=True)
    inflight.add([running, waiting])
    inflight.begin(inflight.calls)

    assert inflight.find(running.key) is running
    assert inflight.find(waiting.key) is waiting
    assert inflight.find(("unknown", 1)) is None


def test_a_crowd_begins_everything_once_and_never_too_much_at_once():
    inflight = Inflight(3, lambda: True)
    begun, most, lock = [], [0], threading.Lock()
    inflight.add([work(n, is_async=n % 3 == 0) for n in range(3_000)])

    def serve(line):
        while line.works:
            taken = inflight.begin(line)
            if taken is None:
                continue
            with lock:
                begun.append(taken.key)
                most[0] = max(most[0], len(inflight.running))
            inflight.end(taken, line)

    threads = [
        threading.Thread(target=serve, args=(line,))
        for line in (inflight.calls, inflight.calls, inflight.calls, inflight.coroutines)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(begun) == len(set(begun)) == 3_000
    assert most[0] <= 3
