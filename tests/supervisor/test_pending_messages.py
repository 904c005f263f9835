"""Messages that one process must act on: if it dies before, another process gets them."""

from types import SimpleNamespace

import pytest

from onward.supervisor.messages import AdoptSession, Rescued
from onward.supervisor.pending_messages import PendingMessages, SessionHandovers


class Process(SimpleNamespace):
    """Hears what it is told."""

    def __init__(self):
        super().__init__(heard=[])
        self.tell = self.heard.append

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_each_message_is_sent_to_one_process_once():
    pending, first, second = PendingMessages(), Process(), Process()
    news = [Rescued(number=number, reaped=[]) for number in range(3)]
    pending.add(0, news[0])
    pending.add(1, news[1])
    pending.assign(first)
    pending.assign(second)
    pending.add(2, news[2])
    pending.assign(second)

    assert (first.heard, second.heard) == (news[:2], news[2:])


@pytest.mark.promise("F05")
def test_a_message_whose_receiver_died_is_given_to_the_next_and_one_that_is_done_is_not():
    pending, first, second = PendingMessages(), Process(), Process()
    for number in range(3):
        pending.add(number, Rescued(number=number, reaped=[]))
    pending.assign(first)
    pending.done(1)
    pending.died(first)
    pending.assign(second)
    pending.done(0)

    assert [message.number for message in second.heard] == [0, 2]
    assert pending.open() == [2]
    pending.done(99)


@pytest.mark.promise("F83")
def test_a_handover_is_kept_until_a_process_reports_the_adoption():
    handovers, first, second = SessionHandovers(), Process(), Process()
    handovers.hand_over(["old", "new"], [("late", 1)], [("innocent", 2)])
    handovers.assign(first)
    handovers.done("old")
    handovers.died(first)
    handovers.assign(second)

    adopt = [
        AdoptSession(owner=owner, overdue=[("late", 1)], interrupted=[("innocent", 2)]) for owner in ("old", "new")
    ]
    assert first.heard == adopt
    assert second.heard == adopt[1:]
    assert handovers.open() == ["new"]
    assert handovers.give_up() == ["new"]
    assert handovers.open() == []
