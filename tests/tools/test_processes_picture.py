"""The picture of processes and threads: what the code has is on it, and what it does not have is told."""

import pytest

from tools import processes_picture
from tools.processes_picture import CHANNELS, Facts, Message


@pytest.fixture(scope="module")
def facts():
    return processes_picture.read(processes_picture.SOURCE)


def test_threads_messages_and_locks_are_found_in_the_code(facts):
    assert ("worker/worker.py", "onward-pump") in facts.threads
    assert {message.channel for message in facts.messages} == set(CHANNELS)
    assert facts.locks["worker/inflight.py"] == ("_lock",)


def test_every_message_is_on_the_picture(facts):
    drawn = processes_picture.picture(facts)

    for message in facts.messages:
        assert f">{message.name}</text>" in drawn


def test_a_thread_or_a_lock_without_a_sentence_and_a_sentence_without_either_are_told(facts):
    threads = facts.threads - {("worker/worker.py", "onward-pump")} | {("worker/pump.py", "onward-new")}
    locks = {file: names for file, names in facts.locks.items() if file != "base/ids.py"} | {
        "job/registry.py": ("_lock",)
    }
    messages = (Message(CHANNELS[0], "Renewed", ""),)

    assert processes_picture.find_complaints(facts) == []
    assert processes_picture.find_complaints(Facts(threads, messages, locks)) == [
        "tools/processes_picture.py: no sentence for the thread onward-new of worker/pump.py",
        "tools/processes_picture.py: worker/worker.py has no thread onward-pump",
        "tools/processes_picture.py: no sentence for the locks of job/registry.py",
        "supervisor/messages.py: Renewed has no docstring",
        "tools/processes_picture.py: base/ids.py has no locks",
    ]


def test_a_page_or_a_picture_that_is_out_of_date_is_told(tmp_path, capsys):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/onward").symlink_to(processes_picture.SOURCE.absolute())
    page = tmp_path / processes_picture.PAGE
    page.parent.mkdir()
    page.write_text(processes_picture.PAGE.read_text().replace("`onward-pump`", "`onward-old`"))

    assert processes_picture.main(["check"], root=tmp_path) == 1
    assert capsys.readouterr().err.count("out of date") == 2
    assert processes_picture.main(["write"], root=tmp_path) == 0
    assert processes_picture.main(["check"], root=tmp_path) == 0
    assert page.read_text() == processes_picture.PAGE.read_text()
