"""The hand by itself: two lines, shared slots, and the last free slot for whoever came first."""

import threading
from types import SimpleNamespace

import pytest

from onward.worker.inflight import Hand, Work


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
def hand(fresh, calls):
    hand = Hand(2, lambda: fresh[0])
    hand.calls.call = lambda count: calls.append(("calls", count))
    hand.coroutines.call = lambda count: calls.append(("coroutines", count))
    return hand


def test_works_begin_in_order(hand):
    first, second = work(1), work(2)
    hand.add([first, second])

    assert [hand.begin(hand.calls), hand.begin(hand.calls)] == [first, second]
    assert list(hand.running.values()) == [first, second]


def test_no_more_begin_than_may(hand):
    hand.add([work(n) for n in range(3)])
    hand.begin(hand.calls)
    running = hand.begin(hand.calls)

    assert hand.begin(hand.calls) is None
    hand.end(running, hand.calls)
    assert hand.begin(hand.calls) is not None


def test_the_last_slot_is_for_whoever_came_first(hand):
    coroutine = work(1, is_async=True)
    hand.add([work(0), coroutine, work(2)])
    hand.begin(hand.calls)

    assert hand.begin(hand.calls) is None
    assert hand.begin(hand.coroutines) is coroutine


def test_whoever_must_not_tells_whoever_may(hand, calls):
    hand.add([work(0), work(1, is_async=True), work(2)])
    hand.begin(hand.calls)
    calls.clear()

    hand.begin(hand.calls)

    assert calls == [("coroutines", 1)]


def test_with_room_for_both_nobody_waits_for_the_other(hand):
    call = work(2)
    hand.add([work(1, is_async=True), call])

    assert hand.begin(hand.calls) is call


def test_an_end_calls_the_other_line_if_it_was_first(hand, calls):
    hand.add([work(0), work(1), work(2, is_async=True), work(3)])
    running = [hand.begin(hand.calls), hand.begin(hand.calls)]
    calls.clear()

    hand.end(running[0], hand.calls)

    assert calls == [("coroutines", 1)]


def test_an_end_leaves_the_other_line_alone_if_ours_was_first(hand, calls):
    hand.add([work(0), work(1), work(2), work(3, is_async=True)])
    running = [hand.begin(hand.calls), hand.begin(hand.calls)]
    calls.clear()

    hand.end(running[0], hand.calls)

    assert calls == []


def test_nothing_begins_on_a_stale_session(hand, fresh):
    hand.add([work(0)])
    fresh[0] = False

    assert hand.begin(hand.calls) is None
    assert not hand.may_begin(hand.calls)
    fresh[0] = True
    assert hand.may_begin(hand.calls)


def test_nothing_begins_in_a_closed_hand(hand):
    hand.add([work(0)])
    hand.close()

    assert hand.begin(hand.calls) is None


def test_what_has_waited_is_withdrawn_oldest_first(hand):
    old, older, new = work(1, claimed=2.0), work(0, claimed=1.0, is_async=True), work(2, claimed=9.0)
    hand.add([older, old, new])

    assert set(hand.withdraw(older_than=5.0)) == {old, older}
    assert hand.begin(hand.calls) is new


def test_withdrawing_everything_leaves_what_runs(hand):
    hand.add([work(0), work(1), work(2)])
    running = hand.begin(hand.calls)

    assert len(hand.withdraw()) == 2
    assert hand.everything() == [running]


def test_withdrawing_the_first_of_one_line_lets_the_other_go(hand, calls):
    hand.add([work(0), work(1, is_async=True, claimed=1.0), work(2, claimed=5.0)])
    hand.begin(hand.calls)
    assert hand.begin(hand.calls) is None
    calls.clear()

    hand.withdraw(older_than=2.0)

    assert ("calls", 1) in calls
    assert hand.begin(hand.calls) is not None


def test_what_was_dropped_never_begins(hand):
    doomed = work(0)
    hand.add([doomed])

    assert hand.drop(doomed)
    assert hand.begin(hand.calls) is None


def test_what_has_begun_cannot_be_dropped(hand):
    hand.add([work(0)])
    running = hand.begin(hand.calls)

    assert not hand.drop(running)


def test_a_work_is_found_wherever_it_is(hand):
    running, waiting = work(0), work(1, is_async=True)
    hand.add([running, waiting])
    hand.begin(hand.calls)

    assert hand.find(running.key) is running
    assert hand.find(waiting.key) is waiting
    assert hand.find(("nobody", 1)) is None


def test_a_crowd_begins_everything_once_and_never_too_much_at_once():
    hand = Hand(3, lambda: True)
    begun, most, lock = [], [0], threading.Lock()
    hand.add([work(n, is_async=n % 3 == 0) for n in range(3_000)])

    def serve(line):
        while line.works:
            taken = hand.begin(line)
            if taken is None:
                continue
            with lock:
                begun.append(taken.key)
                most[0] = max(most[0], len(hand.running))
            hand.end(taken, line)

    threads = [
        threading.Thread(target=serve, args=(line,)) for line in (hand.calls, hand.calls, hand.calls, hand.coroutines)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(begun) == len(set(begun)) == 3_000
    assert most[0] <= 3
