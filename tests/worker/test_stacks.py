"""Asking a process for the stack of a job: who is answered, who is not, and what cannot disturb it."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading

import pytest

from onward.worker.diagnostics import private_socket
from onward.worker.diagnostics.frames import InProcess, InThread
from onward.worker.diagnostics.stacks import NoStack, Silence, Stacks, ask

NO_SUCH_PID = 2**22 + 1  # more than Linux gives


@pytest.fixture(params=[False, True], ids=["without a file", "in a file"])
def in_files(request, tmp_path, monkeypatch):
    """Both kinds of sockets; files in a folder of this test."""
    if not request.param and sys.platform != "linux":
        pytest.skip("only Linux has sockets without a file")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return request.param


@pytest.fixture
def handler():
    """A thread that stands in a function; gives where it is."""
    standing, go_on = threading.Event(), threading.Event()

    def stand():
        standing.set()
        go_on.wait(60)

    thread = threading.Thread(target=stand, name="the-handler")
    thread.start()
    standing.wait(60)
    yield InThread(thread.ident)
    go_on.set()
    thread.join()


@pytest.fixture
def answering(in_files, handler):
    """This process answers for jobs: for `a`, which runs, unless the test says otherwise."""
    jobs = {"a": handler}
    with Stacks(jobs.get, in_files=in_files):
        yield jobs


def why_not(pid, in_files, **options):
    with pytest.raises(NoStack) as raised:
        ask(pid, "a", in_files=in_files, **options)
    assert str(pid) in str(raised.value)
    return raised.value.silence


def test_the_process_answers(answering, in_files):
    stack = ask(os.getpid(), "a", in_files=in_files)

    assert (stack.pid, stack.where) == (os.getpid(), "thread the-handler")
    assert "stand" in [frame.function for frame in stack.frames]


def test_a_job_that_does_not_run_there_is_told(answering, in_files):
    answering.clear()

    assert why_not(os.getpid(), in_files) is Silence.NOT_THERE


def test_a_job_that_ends_while_its_stack_is_taken_is_not_mistaken_for_the_next(in_files, handler):
    places = iter([handler, None])

    with Stacks(lambda job_id: next(places), in_files=in_files):
        assert why_not(os.getpid(), in_files) is Silence.NOT_THERE


def test_without_a_listener_there_is_no_wait(in_files):
    assert why_not(NO_SUCH_PID, in_files, timeout=60) is Silence.NOT_LISTENING


def test_a_job_in_a_process_of_its_own_is_asked_there_and_that_process_is_named(answering, in_files):
    answering["a"] = InProcess(NO_SUCH_PID)

    with pytest.raises(NoStack) as raised:
        ask(os.getpid(), "a", in_files=in_files)

    assert (raised.value.silence, raised.value.pid) == (Silence.NOT_LISTENING, NO_SUCH_PID)


def test_a_process_that_ended_leaves_its_name_to_the_next(in_files, tmp_path):
    """Also if it was killed, and left a file behind."""
    program = f"""
import os, tempfile
from onward.worker.diagnostics import private_socket
tempfile.tempdir, os.getpid = {str(tmp_path)!r}, lambda: {NO_SUCH_PID}
private_socket.listen(in_files={in_files})
print("listens", flush=True)
os._exit(0)
"""

    heard = [subprocess.run([sys.executable, "-c", program], check=True, stdout=-1).stdout for _ in range(2)]

    assert heard == [b"listens\n"] * 2
    assert why_not(NO_SUCH_PID, in_files) is Silence.NOT_LISTENING


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has sockets without a file")
def test_a_process_under_the_name_of_another_is_not_believed():
    taker = (
        "import socket, sys; from onward.worker.diagnostics import private_socket; "
        "name = private_socket._address(int(sys.argv[1]), in_files=False); end = socket.socket(socket.AF_UNIX); "
        "end.bind(name); end.listen(); print('taken', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", taker, str(NO_SUCH_PID)], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout.readline() == "taken\n"

        assert why_not(NO_SUCH_PID, in_files=False) is Silence.NOT_LISTENING
        process.stdin.close()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_answered(handler):
    with Stacks({"a": handler}.get, in_files=False):
        asking = os.fork()
        if asking == 0:  # with everything imported already: another user may not be able to
            os.setgid(65_534)
            os.setuid(65_534)
            try:
                ask(os.getppid(), "a", in_files=False)
            except NoStack as refused:
                os._exit(list(Silence).index(refused.silence))
            finally:
                os._exit(99)
        code = os.waitstatus_to_exitcode(os.waitpid(asking, 0)[1])

    assert list(Silence)[code] is Silence.OTHER_USER


@pytest.mark.promise("CVE-2022-38170")
def test_files_are_for_the_user_alone(answering, in_files, tmp_path):
    if not in_files:
        pytest.skip("there is no file")
    folder = tmp_path / f"onward-{os.geteuid()}"
    (file,) = folder.iterdir()

    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_folder_that_others_can_enter_is_not_used(in_files, tmp_path, caplog):
    if not in_files:
        pytest.skip("there is no folder")
    (tmp_path / f"onward-{os.geteuid()}").mkdir(mode=0o755)

    with caplog.at_level(logging.WARNING, "onward.worker"), Stacks({}.get, in_files=True):
        assert why_not(os.getpid(), in_files) is Silence.OTHER_USER

    assert "only its owner can enter" in caplog.text


def test_nothing_is_left_of_it(in_files, tmp_path):
    before = set(threading.enumerate())  # of other tests, some of which may be about to end

    with Stacks({}.get, in_files=in_files):
        (listener,) = set(threading.enumerate()) - before

    listener.join(60)
    assert not listener.is_alive()
    assert list(tmp_path.rglob("*.sock")) == []


@pytest.mark.parametrize("said", [b"", b"\xff\xff\xff\xff", b"\x03\x00\x00\x00\xc1\xc1\xc1", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_client_that_sends_nonsense_or_nothing_disturbs_no_other(answering, in_files, said):
    with socket.socket(socket.AF_UNIX) as visitor:
        private_socket.connect(visitor, os.getpid(), in_files=in_files)
        visitor.sendall(said)
        with contextlib.suppress(OSError):
            visitor.shutdown(socket.SHUT_WR)

        assert ask(os.getpid(), "a", in_files=in_files, timeout=60).frames


def test_a_process_that_does_not_come_to_answer_is_not_waited_for_long(in_files):
    with contextlib.closing(private_socket.listen(in_files=in_files)):
        assert why_not(os.getpid(), in_files, timeout=0.1) is Silence.NO_ANSWER


def test_nor_one_whose_line_of_visitors_is_full(in_files):
    with contextlib.closing(private_socket.listen(in_files=in_files)), contextlib.ExitStack() as visitors:
        with contextlib.suppress(BlockingIOError):
            while True:
                visitor = visitors.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX)))
                visitor.setblocking(False)
                private_socket.connect(visitor, os.getpid(), in_files=in_files)

        assert why_not(os.getpid(), in_files, timeout=0.1) is Silence.NO_ANSWER
