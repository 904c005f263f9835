"""What handlers have left in their thread is put away by that thread when it ends."""

import threading

from tests.waiting import eventually


def test_each_handler_thread_calls_the_list_once_when_the_worker_stops(jobs):
    ran, ended = set(), []

    @jobs.job
    def note():
        ran.add(threading.get_ident())

    jobs.client.letters.registry.at_thread_end.append(lambda: ended.append(threading.get_ident()))
    with jobs.worker(concurrency=2):
        note.enqueue().result(timeout=30)
        assert ended == []

    eventually(lambda: ran <= set(ended))
    assert len(ended) == len(set(ended))


def test_a_function_that_raises_keeps_the_next_from_nothing(jobs, caplog):
    ended = []

    def broken():
        raise OSError("the connection is gone")

    @jobs.job
    def note(): ...

    jobs.client.letters.registry.at_thread_end += [broken, lambda: ended.append(1)]
    with jobs.worker(concurrency=1):
        note.enqueue().result(timeout=30)

    eventually(lambda: ended)
    assert "the connection is gone" in caplog.text
