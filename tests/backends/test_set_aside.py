"""A verb that fails over a damaged row is called again, whoever sets that row aside."""

import threading

import pytest

from onward.backends.damage import SetsAside, set_aside_and_repeat
from onward.errors import BackendRefused
from tests.waiting import eventually


class Shelf(SetsAside):
    """A store with damaged rows: a verb fails while there is one."""

    def __init__(self, damaged):
        super().__init__()
        self.damaged = damaged
        self.calls = 0
        self.looks_made = 0
        self.before_look = lambda: None

    def _look_for_damage(self):
        self.before_look()
        found, self.damaged = self.damaged, 0
        self.looks_made += 1
        return found

    @set_aside_and_repeat
    def read(self, after=lambda: None):
        self.calls += 1
        if self.damaged:
            after()
            raise ValueError("cannot be decoded")
        return "read"

    @set_aside_and_repeat
    def refuse(self):
        self.calls += 1
        raise ValueError("a value of the caller")


def test_a_row_that_is_set_aside_no_longer_makes_the_verb_fail():
    shelf = Shelf(damaged=1)

    assert shelf.read() == "read"
    assert (shelf.calls, shelf.looks_made) == (2, 1)


def test_a_verb_is_called_again_if_another_process_set_the_row_aside_meanwhile():
    shelf = Shelf(damaged=1)

    def set_aside_elsewhere():
        shelf.damaged = 0

    assert shelf.read(after=set_aside_elsewhere) == "read"


def test_threads_that_fail_over_one_row_are_all_called_again():
    shelf = Shelf(damaged=1)
    failed = threading.Barrier(4)
    answers = []

    def read():
        answers.append(shelf.read(after=lambda: failed.wait(10)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(answers) == 4, what=lambda: answers)
    for thread in threads:
        thread.join()

    assert answers == ["read"] * 4


def test_what_is_refused_for_other_reasons_is_called_again_once_and_looked_for_once():
    shelf = Shelf(damaged=0)

    for _ in range(3):
        with pytest.raises(BackendRefused, match="a value of the caller"):
            shelf.refuse()

    assert (shelf.calls, shelf.looks_made) == (4, 1)


def test_a_search_that_fails_leaves_the_first_error():
    shelf = Shelf(damaged=1)

    def fail():
        raise ValueError("the search fails, too")

    shelf.before_look = fail

    with pytest.raises(BackendRefused, match="cannot be decoded"):
        shelf.read()
    assert shelf.calls == 1
