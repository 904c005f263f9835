"""Who is told of a fork, and in which order."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import pytest

from onward.base import forks


class Subject:
    """Notes what it is told; holds its lock over the fork, as a store's connection does."""

    def __init__(self, notes, name="subject"):
        self.notes = notes
        self.name = name
        self.lock = threading.Lock()

    def before_fork(self):
        self.lock.acquire()
        self.notes.append(f"before {self.name}")

    def after_fork(self, *, in_child):
        self.notes.append(f"after {self.name} in {'child' if in_child else 'parent'}")
        self.lock.release()


def fork_and_ask(question):
    """Fork, and return what the child answers."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, str(question()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def test_a_watched_subject_is_told_before_and_after_in_both_processes():
    notes = []
    subject = Subject(notes)
    forks.watch(subject)

    theirs = fork_and_ask(lambda: notes)

    assert notes == ["before subject", "after subject in parent"]
    assert theirs == str(["before subject", "after subject in child"])


class BeginsAnew:
    def __init__(self, notes):
        self.notes = notes

    def begin_anew(self):
        self.notes.append("anew")


def test_what_the_child_begins_anew_is_called_there_and_nowhere_else():
    notes = []
    subject = BeginsAnew(notes)
    forks.call_in_child(subject.begin_anew)

    theirs = fork_and_ask(lambda: notes)

    assert notes == []
    assert theirs == str(["anew"])


def test_what_is_gone_begins_nothing_anew():
    notes = []
    subject = BeginsAnew(notes)
    forks.call_in_child(subject.begin_anew)
    watched = len(forks._watched)
    del subject
    gc.collect()

    assert fork_and_ask(lambda: notes) == "[]"
    assert len(forks._watched) < watched


def test_an_object_that_lives_until_the_process_ends_leaves_no_text_on_stderr():
    program = """
from onward.base import forks

class Subject:
    def begin_anew(self): ...

subject = Subject()
forks.call_in_child(subject.begin_anew)
"""

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stderr == ""


def test_what_was_done_first_is_undone_last():
    notes = []
    subjects = [Subject(notes, name) for name in "abc"]
    for subject in subjects:
        forks.watch(subject)

    fork_and_ask(lambda: None)

    before = [note.split()[1] for note in notes[:3]]
    after = [note.split()[1] for note in notes[3:]]
    assert after == before[::-1]


def test_watching_keeps_no_object_alive():
    subject = Subject([])
    forks.watch(subject)
    gone = weakref.ref(subject)

    del subject
    gc.collect()

    assert gone() is None
    fork_and_ask(lambda: None)


def test_threads_that_fork_at_once_each_undo_what_they_did():
    subject = Subject([])
    forks.watch(subject)
    start = threading.Barrier(4)

    def fork_often():
        start.wait()
        for _ in range(25):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)

    threads = [threading.Thread(target=fork_often, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert not any(thread.is_alive() for thread in threads)
    assert len(subject.notes) == 200
    assert not subject.lock.locked()


def test_a_subject_that_comes_while_another_thread_forks_is_told_of_the_next_fork():
    class Slow(Subject):
        def before_fork(self):
            super().before_fork()
            newcomer = threading.Thread(target=forks.watch, args=(late,))
            newcomer.start()
            newcomer.join()

    notes = []
    late, slow = Subject(notes, "late"), Slow(notes, "slow")
    forks.watch(slow)

    fork_and_ask(lambda: None)

    assert notes == ["before slow", "after slow in parent"]
    del slow
    fork_and_ask(lambda: None)
    assert notes[2:] == ["before late", "after late in parent"]


def test_a_subject_that_cannot_prepare_does_not_keep_the_others_from_it(caplog):
    class Unable(Subject):
        def before_fork(self):
            raise RuntimeError("not now")

    notes = []
    subjects = [Subject(notes, "first"), Unable(notes, "unable"), Subject(notes, "last")]
    for subject in subjects:
        forks.watch(subject)

    fork_and_ask(lambda: None)

    assert notes == ["before first", "before last", "after last in parent", "after first in parent"]
    assert "could not prepare for a fork" in caplog.text
    forks._watched.pop(id(subjects[1]))  # the log holds its error: let it meet no other test


@pytest.mark.parametrize("where", ["parent", "child"])
def test_a_process_can_fork_again_and_again(where):
    notes = []
    subject = Subject(notes)
    forks.watch(subject)

    def again():
        fork_and_ask(lambda: None)
        return len(notes)

    assert (int(fork_and_ask(again)) if where == "child" else again() * 2) == 4
