"""Completion scripts are made from the tree of commands, and shells accept them."""

import shutil
import subprocess

import pytest

from onward.cli.command import Group
from onward.cli.commands import GLOBALS, TREE
from onward.cli.completion import script
from tools import cli_reference

LOOKING = "enqueue worker top web job why dead queue schedule limit flow audit"
MAINTENANCE = "reap prune health forget migrate check-deploy move"
CHECKS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-f", "-n"], "fish": ["fish", "--no-config", "-n"]}


def every_command():
    for each in TREE:
        yield from each.commands if isinstance(each, Group) else [each, *each.others]


@pytest.mark.parametrize("shell", CHECKS)
def test_the_shell_can_read_its_script(onward, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(onward("completion", shell).out)

    subprocess.run([*CHECKS[shell], tmp_path / "script"], check=True)


@pytest.mark.parametrize("shell", CHECKS)
def test_every_command_and_every_option_is_in_it(onward, shell):
    words = onward("completion", shell).out.replace("'", " ").replace('"', " ").replace(":", " ").split()

    for command in every_command():
        assert command.name in words
        for each in (*command.arguments, *GLOBALS):
            if each.is_option:
                assert each.name.removeprefix("--" if shell == "fish" else "") in words


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (
            "onward ",
            f"{LOOKING} {MAINTENANCE} keys config version demo completion",
        ),
        ("onward job ", "list show stack retry signal cancel purge signatures"),
        ("onward worker ", "list"),
        ("onward worker --pro", "--processes"),
        ("onward worker list --", "--url --store --namespace --app --json --quiet --debug"),
        ("onward job list --a", "--after --all --app"),
        ("onward job list --state re", "retryable"),
        ("onward --url job d", "dead demo"),
        ("onward --json queue p", "pause"),
        ("onward job list --queue ", ""),
        ("onward completion ", "bash zsh fish"),
        ("onward enqueue --many ja", "jam.ndjson"),
    ],
)
def test_bash_offers_what_may_stand_there(tmp_path, typed, offered):
    (tmp_path / "jam.ndjson").touch()
    *before, current = typed.split(" ")
    ask = f'COMP_WORDS=({" ".join(before)} "{current}"); COMP_CWORD={len(before)}; _onward; echo "${{COMPREPLY[*]}}"'

    ran = subprocess.run(
        ["bash", "-c", f"{script('bash', TREE, GLOBALS)}\n{ask}"], capture_output=True, text=True, check=True
    )

    assert (ran.stdout.strip(), ran.stderr) == (offered, "")


def test_an_option_takes_a_value_everywhere_or_nowhere():
    arity = {}
    for command in every_command():
        for each in (*command.arguments, *GLOBALS):
            assert arity.setdefault(each.name, each.takes_value) == each.takes_value


def test_the_reference_in_the_documentation_is_up_to_date(request, capsys):
    assert cli_reference.main(["check"], request.config.rootpath) == 0, capsys.readouterr().err


def test_a_reference_that_is_out_of_date_is_told_and_written(tmp_path, capsys):
    (tmp_path / "docs/reference").mkdir(parents=True)

    assert cli_reference.main(["check"], tmp_path) == 1
    assert "cli_reference write" in capsys.readouterr().err
    assert cli_reference.main(["write"], tmp_path) == 0
    assert cli_reference.main(["check"], tmp_path) == 0
    page = (tmp_path / cli_reference.PAGE).read_text()
    assert all(f" {command.name}\n" in page for command in every_command())
