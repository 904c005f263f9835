"""What a process must see to: whoever dies before it has, another one gets it."""

from types import SimpleNamespace

import pytest

from onward.supervisor.handovers import Bequests
from onward.supervisor.messages import Inherit, Rescued
from onward.supervisor.pending_messages import Errands


class Process(SimpleNamespace):
    """Hears what it is told."""

    def __init__(self):
        super().__init__(heard=[])
        self.tell = self.heard.append

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def test_each_errand_is_given_to_one_process_once():
    errands, first, second = Errands(), Process(), Process()
    news = [Rescued(number=number, reaped=[]) for number in range(3)]
    errands.add(0, news[0])
    errands.add(1, news[1])
    errands.assign(first)
    errands.assign(second)
    errands.add(2, news[2])
    errands.assign(second)

    assert (first.heard, second.heard) == (news[:2], news[2:])


@pytest.mark.promise("F05")
def test_what_somebody_died_over_is_given_to_the_next_and_what_is_done_is_not():
    errands, first, second = Errands(), Process(), Process()
    for number in range(3):
        errands.add(number, Rescued(number=number, reaped=[]))
    errands.assign(first)
    errands.done(1)
    errands.died(first)
    errands.assign(second)
    errands.done(0)

    assert [message.number for message in second.heard] == [0, 2]
    assert errands.open() == [2]
    errands.done(99)


@pytest.mark.promise("F83")
def test_a_bequest_waits_for_an_heir_that_says_it_has_it():
    bequests, heir, next_heir = Bequests(), Process(), Process()
    bequests.leave(["old", "new"], [("late", 1)], [("innocent", 2)])
    bequests.assign(heir)
    bequests.done("old")
    bequests.died(heir)
    bequests.assign(next_heir)

    inherit = [Inherit(owner=owner, overdue=[("late", 1)], interrupted=[("innocent", 2)]) for owner in ("old", "new")]
    assert heir.heard == inherit
    assert next_heir.heard == inherit[1:]
    assert bequests.open() == ["new"]
    assert bequests.give_up() == ["new"]
    assert bequests.open() == []
