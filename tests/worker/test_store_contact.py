"""Who may judge that others are dead."""

import pytest

from onward.worker.store_contact import StoreContact


class Clocks:
    """The boot-time clock and the wall clock, moved by the test."""

    def __init__(self):
        self.boot, self.wall = 100.0, 5000.0

    def pass_(self, seconds, wall=None):
        self.boot += seconds
        self.wall += seconds if wall is None else wall


@pytest.fixture
def clocks():
    return Clocks()


@pytest.fixture
def contact(clocks):
    return StoreContact(30.0, clock=lambda: clocks.boot, wall=lambda: clocks.wall)


def keep_in_contact(contact, clocks, seconds):
    for _ in range(seconds // 10):
        contact.answered(clocks.boot)
        clocks.pass_(10)
    contact.answered(clocks.boot)


@pytest.mark.promise("F25")
class TestMayJudge:
    def test_not_without_contact_for_a_whole_lease(self, contact, clocks):
        assert not contact.may_reap()
        keep_in_contact(contact, clocks, 20)
        assert not contact.may_reap()
        keep_in_contact(contact, clocks, 10)
        assert contact.may_reap()

    def test_not_after_a_call_that_failed(self, contact, clocks):
        keep_in_contact(contact, clocks, 60)
        contact.failed()
        assert not contact.may_reap()
        keep_in_contact(contact, clocks, 20)
        assert not contact.may_reap()
        keep_in_contact(contact, clocks, 10)
        assert contact.may_reap()

    def test_not_after_a_pause_before_or_after_the_last_call(self, contact, clocks):
        keep_in_contact(contact, clocks, 60)
        clocks.pass_(31)
        assert not contact.may_reap()
        contact.answered(clocks.boot)
        assert not contact.may_reap()
        keep_in_contact(contact, clocks, 30)
        assert contact.may_reap()

    @pytest.mark.parametrize("step", [-6, 6])
    def test_not_after_the_clock_of_the_machine_was_set(self, contact, clocks, step):
        keep_in_contact(contact, clocks, 60)
        clocks.pass_(10, wall=10 + step)
        contact.answered(clocks.boot)
        assert not contact.may_reap()
        keep_in_contact(contact, clocks, 30)
        assert contact.may_reap()

    def test_not_after_an_answer_that_took_a_whole_lease(self, contact, clocks):
        keep_in_contact(contact, clocks, 60)
        asked = clocks.boot
        clocks.pass_(40)
        contact.answered(asked)
        assert not contact.may_reap()
        contact.answered(clocks.boot)
        assert not contact.may_reap()

    def test_a_small_difference_between_the_clocks_says_nothing(self, contact, clocks):
        keep_in_contact(contact, clocks, 60)
        clocks.pass_(10, wall=12)
        contact.answered(clocks.boot)
        assert contact.may_reap()
