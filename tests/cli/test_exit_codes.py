"""Every way to fail has its exit code and one line that names the fix."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess

import pytest

from onward import Onward
from onward.cli.exits import EXIT_CODES, MEANINGS, Exit
from onward.errors import OnwardError


@contextlib.contextmanager
def closed_port():
    """A port of this host that nothing listens at, and that no other program gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def one_line(ran):
    """The error, which is all that was said."""
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (["job", "list", "--qeue", "mail"], "did you mean --queue?"),
        (["job", "list", "--bogus"], "see `onward job list --help`"),
        (["--bogus"], "see `onward --help`"),
        (["xyzzy"], "`onward --help` lists them"),
        (["job", "lst"], "did you mean `onward job list`?"),
        (["job", "list", "--limit", "0"], "at least 1"),
        (["job", "list", "--limit"], "expected one argument"),
        (["job", "show"], "required: ID"),
        (["enqueue"], "required: NAME; see"),
        (["job", "list", "--state", "dead"], "did you mean 'discarded'?"),
        (["job", "list", "--state", "Running"], "did you mean 'executing'?"),
        (["job", "list", "--state", "discarted"], "did you mean 'discarded'?"),
        (["job", "show", "a" * 32, "b" * 32], "one word too many"),
        (["health", "now"], "one word too many; see `onward health --help`"),
        (["dead", "edit", "a" * 32, "to=ann"], "one word too many: write --set to=ann"),
        (["completion", "tcsh"], "choose from 'bash', 'zsh', 'fish'"),
        (["prune", "--older-than", "2030-01-01"], "no time zone"),
        (["--app", "shop", "job", "list"], "write module:attribute"),
        (["worker"], "name the application: `onward worker shop.jobs:jobs`"),
        (["worker", "shop"], "write module:attribute, as in shop.jobs:jobs"),
        (["worker", "lsit"], "did you mean `onward worker list`?"),
        (["worker", "list", "--processes", "2"], "`onward worker list` takes no --processes"),
        (["worker", "list", "--import", "shop"], "`onward worker list` takes no --import"),
        (["worker", "--limit", "mail"], "is not QUEUE=NUMBER"),
        (["worker", "--queues", "mail=3,web"], "gives a weight to some queues only"),
        (["worker", "--max-rss", "much"], "write it as 512M or 2G"),
        (["top", "--interval", "1ms"], "too short: at least 0.1s"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_2(onward, jobs, words, fix):
    ran = onward(*words)

    assert ran.code == 2
    assert fix in one_line(ran)


@pytest.mark.parametrize("words", [[], ["job"], ["dead", "--json"]])
def test_a_noun_without_a_verb_is_2_and_shows_what_there_is(onward, words):
    ran = onward(*words)

    assert (ran.code, ran.out) == (2, "")
    assert "commands:" in ran.err


@pytest.mark.parametrize(
    ("words", "environ", "fix"),
    [
        (["--url", "carrier-pigeon://x", "job", "list"], {}, "there is no backend for 'carrier-pigeon' URLs"),
        (["--url", "sqlite://jobs.db", "job", "list"], {}, "sqlite:///relative.db"),
        (["--url", "sqlite:////no/such/folder/x.db", "enqueue", "x"], {}, "create it"),
        (["--url", "memory://", "enqueue", "x"], {}, "name a store that others see"),
        (["--url", "sync://", "job", "list"], {}, "name a store that others see"),
        (["--namespace", "Not This", "job", "list"], {}, "lower-case letters"),
        (["--namespace", "Not This", "config"], {}, "lower-case letters"),
        (["job", "list"], {"ONWARD_MAX_CRASHES": "many"}, "ONWARD_MAX_CRASHES must be a whole number"),
        (["config"], {"ONWARD_LEASE_FOR": "long"}, "lease_for"),
        (["--app", "no_such_module:jobs", "job", "list"], {}, "No module named 'no_such_module'"),
    ],
)
def test_a_configuration_that_has_to_be_changed_is_3(onward, jobs, monkeypatch, words, environ, fix):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    ran = onward(*words)

    assert ran.code == 3
    assert fix in one_line(ran)


def test_so_is_a_configuration_file_with_a_slip(onward, jobs, tmp_path):
    (tmp_path / "onward.toml").write_text("max_crash = 5\n")

    ran = onward("job", "list")

    assert ran.code == 3
    assert "did you mean 'max_crashes'?" in one_line(ran)


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("from onward import Onward\nJobs = Onward({url!r})", "did you mean 'Jobs'?"),
        ("jobs = 'not an application'", "jobs is a str and no application"),
        ("from onward import Onward\njobs = Onward({url!r}, max_crash=3)", "did you mean 'max_crashes'?"),
        (
            "from onward import Onward\njobs = Onward({url!r})\n@jobs.job\ndef f(*args): ...",
            "take a list instead",
        ),
    ],
)
def test_an_application_that_cannot_be_loaded_is_3(onward, url, shop, source, fix):
    ran = onward("--app", shop(url, source), "job", "list")

    assert ran.code == 3
    assert fix in one_line(ran)


def test_a_file_that_is_no_database_is_3_and_left_alone(shell, tmp_path):
    (tmp_path / "jobs.db").write_text("not a database " * 100)

    ran = shell("--url", "sqlite:///jobs.db", "job", "list")

    assert ran.code == 3
    assert "not a database" in one_line(ran)
    assert (tmp_path / "jobs.db").read_text().startswith("not a database")


def test_a_store_that_is_not_there_is_4_and_is_not_made_by_looking(shell, tmp_path):
    ran = shell("job", "list")

    assert ran.code == 4
    assert f"there is no store at {tmp_path / 'onward.db'} (the default)" in one_line(ran)
    assert list(tmp_path.iterdir()) == []


def test_the_place_that_names_a_missing_store_is_told(onward, tmp_path):
    (tmp_path / "onward.toml").write_text('url = "sqlite:///typo.db"\n')

    ran = onward("dead", "list")

    assert ran.code == 4
    assert f"from {tmp_path / 'onward.toml'}" in one_line(ran)


def test_a_store_to_move_from_that_is_missing_is_told_as_that(onward, tmp_path):
    ran = onward("move", "--from", "sqlite:///typo.db", "--to", "sqlite:///new.db")

    assert ran.code == 4
    assert "(sqlite:///typo.db, from --from): name it with --from;" in one_line(ran)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_stays_busy_is_4(onward, jobs, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        ran = onward("--url", "sqlite:///jobs.db?busy_timeout=0", "queue", "pause", "mail")

    assert ran.code == 4
    assert "another process holds the write lock" in one_line(ran)


@pytest.mark.parametrize(
    "command", [["health"], ["job", "list"], ["why", "a" * 32], ["top"], ["queue", "pause", "mail"]]
)
@pytest.mark.parametrize(("scheme", "database"), [("postgresql", "shop"), ("mysql", "shop"), ("redis", "0")])
def test_a_server_that_is_dead_is_4_and_the_fix_is_named(onward, scheme, database, command):
    with closed_port() as port:
        ran = onward("--url", f"{scheme}://ada:secret@127.0.0.1:{port}/{database}", *command)

    line = one_line(ran)
    assert ran.code == 4
    assert f"127.0.0.1:{port}" in line
    assert "cannot be reached" in line
    assert line.endswith("refused: start the server, or correct the url (`onward config` names its source)")
    assert "secret" not in line


def test_a_broker_that_is_dead_is_4_and_the_fix_is_named(onward):
    with closed_port() as port:
        ran = onward("--url", f"beanstalk://127.0.0.1:{port}", "health")

    assert ran.code == 4
    assert "refused: start the server, or correct the url" in one_line(ran)


@pytest.mark.parametrize("name", ["invalid", "certificate", "unsupported"])
def test_a_host_whose_name_is_a_word_of_an_error_is_away_like_any_other(onward, name):
    ran = onward("--url", f"postgresql://{name}.invalid/shop", "health")

    assert ran.code == 4
    assert "start the server, or correct the url" in one_line(ran)


def test_a_store_of_a_newer_onward_is_5(shell, jobs, sql):
    sql("INSERT INTO onward_migrations VALUES (999, 'from the future', 0)")

    ran = shell("health")

    assert ran.code == 5
    assert "upgrade onward here" in one_line(ran)


def test_an_unknown_id_is_6(shell, jobs):
    ran = shell("job", "show", "0" * 32)

    assert ran.code == 6
    assert "there is no job" in one_line(ran)


class TestABug:
    @pytest.fixture(autouse=True)
    def bug(self, monkeypatch, jobs):
        monkeypatch.setattr(Onward, "counts", lambda self, queue=None: 1 / 0)
        jobs.enqueue("x")

    def test_is_1_in_one_line(self, onward):
        ran = onward("queue", "list")

        assert ran.code == 1
        assert "unexpected ZeroDivisionError: division by zero; --debug" in one_line(ran)

    def test_shows_its_traceback_with_debug(self, onward):
        ran = onward("queue", "list", "--debug")

        assert ran.code == 1
        assert "Traceback (most recent call last)" in ran.err


def test_ctrl_c_is_130_without_a_traceback(program, url):
    with subprocess.Popen(
        [*program, "enqueue", "x", "--queue", "mail", "--wait"], stdout=-1, stderr=-1, env=os.environ, text=True
    ) as waiting:
        assert waiting.stderr.readline().startswith("waiting for ")
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=30)

    assert (waiting.returncode, out, err) == (130, "", "")


def test_every_error_has_an_exit_code():
    def below(kind):
        return {kind}.union(*map(below, kind.__subclasses__()))

    codes = {kind for kind, _ in EXIT_CODES}

    assert all(codes & set(kind.__mro__) for kind in below(OnwardError))
    assert set(MEANINGS) == set(Exit)
