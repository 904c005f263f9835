"""What a program may use: each limit ends a real program that exceeds it, and the error names it."""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from onward.errors import OptionError
from onward.handlers import build
from onward.handlers.shell import CommandFailed, Shell
from tests.handlers.test_shell import PYTHON, SH, a_context, run
from tests.waiting import eventually

MIB = 2**20
SPIN = "while True: pass"
WRITE = """
import sys
with open(sys.argv[1], "wb", buffering=0) as file:
    for _ in range(100):
        file.write(bytes(2000))
sys.exit("wrote it all")
"""
# Python looks the other way when a file may not grow; other programs do not.
DIE_OF_SIZE = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n{WRITE}"
OPEN = "files = [open('/dev/null') for _ in range(100)]"
ALLOCATE = "import mmap; mmap.mmap(-1, 900 * 2**20)"
DEAF = f"import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n{SPIN}"


def python(code, *arguments, **limits):
    return run(PYTHON, "-I", "-S", "-c", code, *arguments, shell=Shell(allow=[PYTHON], limits=limits))


@pytest.mark.parametrize(
    ("code", "limits", "how"),
    [
        (SPIN, {"cpu_seconds": 1}, f"was killed by signal {signal.SIGXCPU:d}, at its limit cpu_seconds=1:"),
        (DEAF, {"cpu_seconds": 1}, "was killed by signal 9, with the limits cpu_seconds=1:"),
        (
            ALLOCATE,
            {"address_space": 800 * MIB},
            "ended with code 1, at its limit address_space=838860800:.*Cannot allocate memory",
        ),
        (OPEN, {"open_files": 32}, "ended with code 1, at its limit open_files=32:.*Too many open files"),
        (DIE_OF_SIZE, {"file_size": 5000}, f"was killed by signal {signal.SIGXFSZ:d}, at its limit file_size=5000:"),
        (
            "1/0",
            {"open_files": 32, "cpu_seconds": 9},
            "ended with code 1, with the limits open_files=32, cpu_seconds=9:",
        ),
    ],
)
def test_a_program_that_exceeds_a_limit_fails_and_the_error_names_it(tmp_path, code, limits, how):
    with pytest.raises(CommandFailed, match=rf"^{PYTHON} {how}"):
        python(code, str(tmp_path / "file"), **limits)


def test_a_file_does_not_grow_past_its_limit(tmp_path):
    with pytest.raises(CommandFailed):
        python(WRITE, str(tmp_path / "file"), file_size=5000)

    assert (tmp_path / "file").stat().st_size == 5000


def test_without_limits_all_of_it_is_allowed_so_the_tests_can_fail(tmp_path):
    python(f"{OPEN}\n{ALLOCATE}")
    with pytest.raises(CommandFailed, match="ended with code 1: wrote it all"):
        python(WRITE, str(tmp_path / "file"))


def test_limits_change_nothing_else(tmp_path):
    """The program, its name, its arguments, its environment, its signals and its group are what they would be without."""
    face = tmp_path / "python3"
    face.symlink_to(PYTHON)
    code = (
        "import os, signal, sys\n"
        "signals = [str(signal.getsignal(each)) for each in signal.valid_signals()]\n"
        "ignored = [line for line in open('/proc/self/status') if line.startswith(('SigIgn', 'SigBlk', 'SigCgt'))]\n"
        "print(sys.orig_argv, sorted(os.environ.items()), signals, ignored, os.getcwd(), os.getpid() == os.getpgid(0))\n"
        "print(sorted(os.listdir('/dev/fd')))"
    )
    argv = (str(face), "-I", "-S", "-c", code, "a b", "--c", "ü", "")
    env = {"LANG": "C", "EMPTY": "", "ODD": "\udcfe=;\n"}

    plain, limited = (
        run(*argv, shell=Shell(allow=[str(face)], env=env, cwd=str(tmp_path), limits=limits))
        for limits in (None, {"open_files": 100})
    )

    assert limited == plain


def test_a_program_cannot_raise_its_limit():
    code = (
        "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE))"
    )

    assert python(code, open_files=32)["stdout"] == "(32, 32) (0, 0)\n"


def test_more_than_the_worker_itself_has_is_what_it_has():
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[1])"
    mine = run(PYTHON, "-I", "-S", "-c", code)["stdout"]

    assert python(code, open_files=2**40)["stdout"] == mine


def test_a_program_that_is_not_there_is_a_failure_with_limits_too(tmp_path):
    gone = str(tmp_path / "gone")
    with pytest.raises(CommandFailed, match=r"ended with code 127, with the limits open_files=9: .*FileNotFoundError"):
        run(gone, shell=Shell(allow=[gone], limits={"open_files": 9}))


@pytest.mark.skipif(sys.platform != "linux", reason="only there can it be set from outside")
def test_no_program_leaves_a_core(tmp_path):
    """It is set when the program runs already: wait for that, and let it tell what it sees then."""
    go = tmp_path / "go"
    ctx = a_context([SH, "-c", 'while ! [ -e "$0" ]; do :; done; ulimit -c', str(go)], 60)
    pids, said = [], []
    ctx.attend(pids.append)
    thread = threading.Thread(target=lambda: said.append(Shell(allow=[SH]).run(ctx)))
    thread.start()
    eventually(lambda: pids and "Max core file size        0                    0" in limits_of(pids[0]))
    go.touch()
    thread.join(60)

    assert said[0]["stdout"] == "0\n"


def limits_of(pid):
    return Path(f"/proc/{pid}/limits").read_text("ascii")


@pytest.mark.parametrize(
    ("limits", "complaint"),
    [
        ({"cpu": 5}, "there is no limit 'cpu'"),
        ({"open_file": 5}, "there is no limit 'open_file': did you mean 'open_files'"),
        ({"cpu_seconds": 0}, "cpu_seconds is a whole number from 1 on, not 0"),
        ({"cpu_seconds": 1.5}, "cpu_seconds is a whole number from 1 on"),
        ({"cpu_seconds": True}, "cpu_seconds is a whole number from 1 on"),
        ({"cpu_seconds": "5"}, "cpu_seconds is a whole number from 1 on"),
        ({"file_size": 2**70}, "file_size is a whole number from 1 on"),
        (["cpu_seconds"], "limits are a mapping"),
    ],
)
def test_limits_that_make_no_sense_are_refused(limits, complaint):
    with pytest.raises(OptionError, match=complaint):
        build({"shell": {"allow": [os.path.realpath(SH)], "limits": limits}})
