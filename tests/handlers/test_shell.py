"""Programs as jobs: only those that were allowed, nothing inherited, nothing left behind."""

import contextlib
import os
import select
import shutil
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onward.errors import ArgumentError, OptionError
from onward.handlers import build
from onward.handlers.program import _Said
from onward.handlers.shell import CommandFailed, Shell
from onward.handlers.time_left import Stopped
from onward.job.context import JobContext
from onward.job.registry import NotAllowed

PYTHON = os.path.realpath(sys.executable)
SH = "/bin/sh"
ECHO = "/bin/echo"


def a_context(argv, timeout=None):
    deadline = None if timeout is None else datetime.now(UTC) + timedelta(seconds=timeout)
    return JobContext(
        id="a",
        job="shell",
        name="shell",
        queue="ops",
        attempt=1,
        max_retries=0,
        payload=msgspec.json.encode(argv),
        meta={},
        delivery=1,
        deadline=deadline,
    )


def run(*argv, timeout=60, shell=None):
    return (shell or Shell(allow=[argv[0]])).run(a_context(argv, timeout))


class Lifeline:
    """A pipe by name, which programs open for writing: its end comes when none of them lives."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path = path
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.writer = os.open(path, os.O_WRONLY)  # an end comes only after a writer was there

    def everybody_is_gone(self):
        """Wait for the end; False if a process lives on."""
        os.close(self.writer)
        while select.select([self.reader], [], [], 10)[0]:
            if not os.read(self.reader, 4096):
                return True
        return False


@pytest.fixture
def lifeline(tmp_path):
    lifeline = Lifeline(tmp_path / "lifeline")
    yield lifeline
    os.close(lifeline.reader)


# What a program says


def test_a_program_s_output_and_exit_code_are_the_result():
    assert run(ECHO, "hello") == {"exit_code": 0, "stdout": "hello\n", "stderr": ""}


def test_what_a_program_says_on_the_side_is_kept_apart():
    result = run(SH, "-c", "echo out; echo err >&2")

    assert (result["stdout"], result["stderr"]) == ("out\n", "err\n")


@pytest.mark.parametrize("code", [1, 2, 127, 255])
def test_another_exit_code_than_zero_is_a_failure(code):
    with pytest.raises(CommandFailed, match=f"{SH} ended with code {code}: what went wrong"):
        run(SH, "-c", f"echo what went wrong >&2; exit {code}")


def test_a_failure_without_words_on_the_side_tells_the_output():
    with pytest.raises(CommandFailed, match="said it here"):
        run(SH, "-c", "echo said it here; exit 1")


def test_a_program_that_was_killed_is_a_failure():
    with pytest.raises(CommandFailed, match="was killed by signal 9"):
        run(SH, "-c", "kill -9 $$")


def test_a_failure_tells_the_end_of_what_was_said_with_nothing_that_could_move_a_cursor():
    noise = "i=0; while [ $i -lt 20000 ]; do echo noise; i=$((i+1)); done"
    program = rf"{noise}; printf '\033[2Jthe\n\rend\342\200\256'; exit 1"

    with pytest.raises(CommandFailed) as failed:
        run(SH, "-c", program)

    assert str(failed.value).endswith(r"noise\n\x1b[2Jthe\n\rend\u202e")
    assert len(str(failed.value)) < 1_000


@pytest.mark.promise("F60")
def test_output_that_is_no_text_becomes_text():
    result = run(SH, "-c", r"printf 'a\000b\377c'")

    assert result["stdout"] == "a\\x00b\N{REPLACEMENT CHARACTER}c"
    assert msgspec.json.encode(result)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_of_output_is_read_to_its_end_and_cut(stream):
    program = f"import sys; sys.{stream}.write('x' * 10_000_000); sys.{stream}.flush()"

    result = run(PYTHON, "-c", program)

    assert result["exit_code"] == 0
    assert len(result[stream]) == 64 * 1024


def test_output_that_must_be_spelled_out_is_cut_as_well():
    assert len(run("/usr/bin/head", "-c", "10000000", "/dev/zero")["stdout"]) <= 64 * 1024


def test_both_streams_may_flood_at_once():
    program = "import os\nfor _ in range(200):\n    os.write(1, b'o' * 65536); os.write(2, b'e' * 65536)"

    result = run(PYTHON, "-c", program)

    assert {len(result["stdout"]), len(result["stderr"])} == {64 * 1024}


def test_a_program_that_closes_its_streams_is_still_waited_for():
    with pytest.raises(CommandFailed, match="ended with code 3"):
        run(SH, "-c", "exec >&- 2>&-; read x </dev/null; exit 3")


# What a program gets


@pytest.mark.promise("S39", "CVE-2021-4041")
def test_nothing_is_interpreted_on_the_way():
    words = [
        "$HOME",
        "`id`",
        "$(id)",
        "; rm -rf /",
        "*",
        "a b",
        "",
        "'",
        '"',
        "\\",
        "\n",
        "&& true",
        "| cat",
        "> x",
        "é",
    ]

    result = run(PYTHON, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words)

    assert msgspec.json.decode(result["stdout"]) == words


def test_the_environment_is_clean(monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter3")

    result = run("/usr/bin/env")

    assert sorted(line.split("=")[0] for line in result["stdout"].splitlines()) == ["LANG", "PATH"]


def test_what_a_program_needs_can_be_configured(tmp_path):
    shell = Shell(allow=[SH], env={"COLOUR": "red", "LANG": "C"}, cwd=str(tmp_path))

    result = run(SH, "-c", "echo $COLOUR $LANG; pwd", shell=shell)

    assert result["stdout"].split() == ["red", "C", os.path.realpath(tmp_path)]


def test_a_program_has_no_input():
    assert run("/bin/cat")["stdout"] == ""


def test_no_open_file_is_inherited(tmp_path):
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)

        result = run(PYTHON, "-c", "import os; print(os.listdir('/proc/self/fd'))")

        assert f"'{secret.fileno()}'" not in result["stdout"]


# What is allowed


@pytest.fixture
def programs(tmp_path):
    """A folder of programs: one that is many, as busybox is, and links to it and to others."""
    many = tmp_path / "many"
    many.write_text('#!/bin/sh\necho "I am ${0##*/}"\n')
    many.chmod(0o755)
    (tmp_path / "list").symlink_to(many)
    (tmp_path / "erase").symlink_to(many)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    return tmp_path


def refused(shell, *argv):
    try:
        shell.run(a_context(argv))
    except NotAllowed as error:
        return "is not allowed" in str(error)
    return False


def test_a_program_that_is_not_named_is_refused():
    assert refused(Shell(allow=[ECHO]), "/bin/cat", "/etc/passwd")


def test_without_an_allowed_program_nothing_runs():
    assert refused(Shell(allow=[]), ECHO, "hi")


@pytest.mark.parametrize("program", ["echo", "./echo", "bin/echo", "../bin/echo", "~/echo", "", " /bin/echo"])
def test_only_an_absolute_path_names_a_program(program):
    assert refused(Shell(allow=[ECHO]), program, "hi")


WAYS = [
    "/bin/../bin/echo",
    "/bin/./echo",
    "/bin//echo",
    "//bin/echo",
    "/bin/echo/",
    "/bin/echo/.",
    "/../bin/echo",
    "/bin/echo/../echo",
    "/bin/Echo",
    "/bin/echo ",
    "/bin/echo\n",
    "/proc/self/root/bin/echo",
    "file:///bin/echo",
    "/bin/echo hi",
    "/bin/{echo,cat}",
    "/bin/ech?",
    "$SHELL",
    "/",
]


@pytest.mark.promise("S39")
@pytest.mark.parametrize("program", WAYS)
def test_another_way_to_say_the_same_program_is_refused(program):
    assert refused(Shell(allow=[ECHO]), program, "hi")


def test_with_the_check_off_many_of_them_run(programs, monkeypatch):
    """So the tests around this one can fail."""
    monkeypatch.setattr(Shell, "check", lambda self, payload: None)
    monkeypatch.setattr(Shell, "_allowed", lambda self, argv: shutil.which(argv[0]) or argv[0])
    (programs / "echo").symlink_to(ECHO)
    ran = []
    for program in (*WAYS, "echo", str(programs / "echo"), str(programs / "erase"), "/bin/cat"):
        with contextlib.suppress(OSError):
            ran.append(run(program, "/dev/null", shell=Shell(allow=[ECHO])))

    assert len(ran) >= 9


@given(st.one_of(st.text(), st.text("/.binecho\n ", max_size=20), st.sampled_from(WAYS)))
@example(ECHO)
def test_of_all_texts_only_two_name_an_allowed_program(text):
    shell = Shell(allow=[ECHO])
    try:
        shell.check([text])
        where = shell._allowed([text])
    except (ArgumentError, NotAllowed):
        return

    assert text in (ECHO, os.path.realpath(ECHO))
    assert where == os.path.realpath(ECHO)


def test_the_resolved_path_of_an_allowed_program_names_it_too():
    resolved = os.path.realpath(ECHO)

    assert run(resolved, "hi", shell=Shell(allow=[ECHO]))["stdout"] == "hi\n"


def test_a_link_to_an_allowed_program_is_refused(programs):
    (programs / "echo").symlink_to(ECHO)

    assert refused(Shell(allow=[ECHO]), str(programs / "echo"), "hi")


def test_a_program_is_not_looked_for_in_the_path(programs, monkeypatch):
    monkeypatch.setenv("PATH", str(programs))

    assert refused(Shell(allow=[str(programs / "many")], env={"PATH": str(programs)}), "many")


def test_options_can_be_declared_and_no_other_is_passed_on():
    shell = Shell(allow={ECHO: ["-n"], "/bin/true": []})

    assert run(ECHO, "-n", "hi", shell=shell)["stdout"] == "hi"
    assert refused(shell, ECHO, "-e", "hi")
    assert refused(shell, ECHO, "-n", "--", "hi")
    assert refused(shell, "/bin/true", "-n")
    assert run("/bin/true", "x", shell=shell)["exit_code"] == 0


@pytest.mark.parametrize("options", ["-n", [5], [None]])
def test_declared_options_are_a_list_of_text(options):
    with pytest.raises(OptionError, match="a list of text"):
        Shell(allow={ECHO: options})


@pytest.mark.promise("S39")
def test_a_link_to_another_program_is_refused(programs):
    (programs / "echo").symlink_to("/bin/cat")

    assert refused(Shell(allow=[ECHO]), str(programs / "echo"), "/etc/passwd")


def test_a_program_under_another_name_is_refused(programs):
    (programs / "sh").symlink_to(ECHO)

    assert refused(Shell(allow=[ECHO]), str(programs / "sh"), "hi")


def test_a_copy_of_an_allowed_program_is_another_program(programs):
    shutil.copy("/bin/cat", programs / "echo")

    assert refused(Shell(allow=[ECHO]), str(programs / "echo"), "/etc/passwd")


def test_a_link_in_place_of_an_allowed_program_is_refused(programs):
    allowed = programs / "report"
    shutil.copy(ECHO, allowed)
    shell = Shell(allow=[str(allowed)])

    allowed.unlink()
    allowed.symlink_to("/bin/cat")

    assert refused(shell, str(allowed), "/etc/passwd")


def test_allowing_one_face_of_a_program_of_many_faces_allows_no_other(programs):
    shell = Shell(allow=[str(programs / "list")])

    assert refused(shell, str(programs / "erase"))
    assert refused(shell, str(programs / "many"))


def test_an_allowed_face_is_the_one_that_runs(programs):
    (programs / "python3").symlink_to(PYTHON)

    result = run(str(programs / "python3"), "-c", "import sys; print(sys.orig_argv[0])")

    assert result["stdout"].strip() == str(programs / "python3")


def test_a_link_that_leads_in_a_circle_is_refused(programs):
    assert refused(Shell(allow=[ECHO]), str(programs / "loop"))


def test_a_link_that_leads_in_a_circle_can_be_named_and_never_runs(programs):
    with pytest.raises(OSError, match="loop"):
        run(str(programs / "loop"))


def test_an_allowed_program_that_is_not_there_is_a_plain_failure(tmp_path):
    with pytest.raises(FileNotFoundError):
        run(str(tmp_path / "gone"))


@pytest.mark.parametrize("allow", [ECHO, ["echo"], ["./echo"], [5], [ECHO, "cat"], [None]])
def test_only_absolute_paths_can_be_allowed(allow):
    with pytest.raises(OptionError, match="absolute paths"):
        Shell(allow=allow)


# Payloads


@pytest.mark.promise("F58")
@pytest.mark.parametrize(
    "payload", [None, [], "/bin/echo hi", {}, [ECHO, 5], [ECHO, None], [5], [[ECHO]], [ECHO, "a\x00b"], ["\x00"]]
)
def test_a_payload_that_is_no_argument_list_is_refused_where_it_is_enqueued(payload):
    with pytest.raises(ArgumentError, match=r"^shell"):
        Shell(allow=[ECHO]).check(payload)


@pytest.mark.parametrize("payload", [None, [], "/bin/echo hi", [ECHO, 5], [ECHO, "a\x00b"]])
def test_a_payload_that_is_no_argument_list_is_refused_for_good_where_it_would_run(payload):
    with pytest.raises(NotAllowed):
        Shell(allow=[ECHO]).run(a_context(payload))


def test_a_payload_may_name_a_program_that_only_the_worker_allows():
    Shell(allow=[]).check([ECHO, "hi"])


# Time


def test_a_program_that_does_not_end_in_time_is_killed(lifeline):
    with pytest.raises(TimeoutError, match=f"{SH} did not end in time and was killed"):
        run(SH, "-c", f"exec 3>{lifeline.path}; exec sleep 100", timeout=0.5)

    assert lifeline.everybody_is_gone()


@pytest.mark.promise("S39")
def test_its_children_are_killed_with_it(lifeline):
    with pytest.raises(TimeoutError):
        run(SH, "-c", f"exec 3>{lifeline.path}; sleep 100 & (sleep 100 & sleep 100); wait", timeout=0.5)

    assert lifeline.everybody_is_gone()


def test_children_are_killed_even_if_the_program_itself_has_ended(lifeline):
    with pytest.raises(TimeoutError):
        run(SH, "-c", f"exec 3>{lifeline.path}; sleep 100 & exit 0", timeout=0.5)

    assert lifeline.everybody_is_gone()


def test_a_program_that_ignores_polite_signals_is_killed(lifeline):
    with pytest.raises(TimeoutError):
        run(SH, "-c", f"exec 3>{lifeline.path}; trap '' TERM INT HUP; while :; do :; done", timeout=0.5)

    assert lifeline.everybody_is_gone()


def test_a_program_that_floods_is_killed_in_time(lifeline):
    with pytest.raises(TimeoutError):
        run(SH, "-c", f"exec 3>{lifeline.path}; exec cat /dev/zero", timeout=0.5)

    assert lifeline.everybody_is_gone()


def test_a_program_that_closed_its_streams_is_killed_in_time(lifeline):
    with pytest.raises(TimeoutError):
        run(SH, "-c", f"exec 3>{lifeline.path} >&- 2>&-; sleep 100", timeout=0.5)

    assert lifeline.everybody_is_gone()


@pytest.mark.parametrize("code", [0, 1])
def test_nothing_stays_behind_when_a_program_ends_by_itself(lifeline, code):
    program = f"exec 3>{lifeline.path}; sleep 100 >/dev/null 2>&1 & exit {code}"

    try:
        run(SH, "-c", program)
    except CommandFailed:
        assert code == 1

    assert lifeline.everybody_is_gone()


def test_nothing_stays_behind_when_the_run_is_interrupted(lifeline, monkeypatch):
    def interrupted(process, *_):
        os.read(process.stdout.fileno(), 1)  # it is up
        raise KeyboardInterrupt

    monkeypatch.setattr("onward.handlers.program._listen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(SH, "-c", f"exec 3>{lifeline.path}; sleep 100 & echo up; wait")

    assert lifeline.everybody_is_gone()


@pytest.mark.parametrize("word", ["ask_to_stop", "lose"])
def test_a_program_is_killed_when_its_job_is_cancelled_or_lost(lifeline, word):
    context = a_context([SH, "-c", f"exec 3>{lifeline.path}; echo up >&3; sleep 100 & (sleep 100 & sleep 100); wait"])

    def stop_when_it_is_up():
        select.select([lifeline.reader], [], [], 60)
        getattr(context, word)()

    stopper = threading.Thread(target=stop_when_it_is_up)
    stopper.start()
    with pytest.raises(Stopped):
        Shell(allow=[SH]).run(context)
    stopper.join()

    assert lifeline.everybody_is_gone()


def test_a_time_that_is_over_kills_at_once():
    with pytest.raises(TimeoutError):
        run(SH, "-c", "sleep 100", timeout=-5)


def test_no_file_stays_open():
    before = open_files()

    run(ECHO, "hi")
    with pytest.raises(TimeoutError):
        run(SH, "-c", "sleep 100", timeout=0.1)

    assert open_files() == before


def open_files():
    return sorted(Path("/proc/self/fd").iterdir())


# Configuration


def test_the_handler_is_built_from_configuration():
    handlers = build({"shell": {"allow": [ECHO]}})

    assert isinstance(handlers["shell"], Shell)


@pytest.mark.parametrize(
    ("configured", "complaint"),
    [
        ({"shel": {}}, "there is no handler 'shel': did you mean 'shell'"),
        ({"shell": {}}, "handler 'shell': .*allow"),
        ({"shell": {"alow": [ECHO]}}, "handler 'shell': .*alow"),
        ({"shell": [ECHO]}, "handler 'shell'"),
        ({"shell": None}, "handler 'shell'"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(configured, complaint):
    with pytest.raises(OptionError, match=complaint):
        build(configured)


def test_of_a_flood_no_more_is_kept_in_memory_than_can_be_told():
    said = _Said()
    for _ in range(100):
        said.add(b"x" * 65_536)
    said.add(b"the end")

    assert len(said.beginning) == 64 * 1024
    assert said.tail(str).endswith("xxxthe end")
