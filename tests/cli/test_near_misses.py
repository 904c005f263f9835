"""A command that is not there is answered with the one that was meant."""

import pytest

from onward import __version__


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        # nouns in the plural, or in the singular
        ("jobs list", "onward job list"),
        ("jobs", "onward job"),
        ("jobs list --state available", "onward job list"),
        ("--json jobs list", "onward job list"),
        ("queues pause mail", "onward queue pause"),
        ("workers list", "onward worker list"),
        ("key rotate", "onward keys rotate"),
        ("Job list", "onward job list"),
        # verb and noun in the other order
        ("list jobs", "onward job list"),
        ("list job --all", "onward job list"),
        ("pause queue mail", "onward queue pause"),
        ("list workers", "onward worker list"),
        ("list keys", "onward keys list"),
        ("replay dead --all", "onward dead replay"),
        # a verb alone
        ("replay --all", "onward dead replay"),
        ("pause mail", "onward queue pause` or `onward schedule pause"),
        ("cancel 0123", "onward job cancel` or `onward flow cancel"),
        # typing errors
        ("wroker shop:jobs", "onward worker"),
        ("enqeue welcome", "onward enqueue"),
        ("job lsit", "onward job list"),
        ("jbo list", "onward job list"),
        ("queue puase mail", "onward queue pause"),
        ("joblist", "onward job list"),
        ("healht", "onward health"),
        ("worker lsit", "onward worker list"),
        ("worker lists", "onward worker list"),
        # other words for the same
        ("job ls", "onward job list"),
        ("ls jobs", "onward job list"),
        ("dlq list", "onward dead list"),
        ("dead-letters replay --all", "onward dead replay"),
        ("failed list", "onward dead list"),
        ("dead delete --all", "onward dead purge"),
        ("job delete 0123", "onward job cancel` or `onward job purge"),
        ("run shop:jobs", "onward worker"),
        ("doctor", "onward health"),
        ("monitor", "onward top"),
        ("settings", "onward config"),
        ("help", "onward --help"),
        ("help job", "onward job --help"),
        ("job help", "onward job --help"),
        ("help jobs list", "onward job list --help"),
        ("job 0196a7b2c3d44e5f8a9b0c1d2e3f4a5b", "onward job show"),
        ("dead 0196a7b2", "onward dead show"),
        # a verb of another noun
        ("job replay --all", "onward dead replay"),
        ("job enqueue welcome", "onward enqueue"),
        ("queue purge mail", "onward job purge` or `onward dead purge"),
    ],
)
def test_it_is_named(onward, said, meant):
    ran = onward(*said.split())

    (line,) = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert f"did you mean `{meant}`?" in line


def test_a_verb_of_several_nouns_names_them_all(onward):
    assert (
        "did you mean `onward job show`, `onward dead show`, `onward schedule show` or `onward flow show`?"
        in onward("show", "0123").err
    )
    assert (
        "`onward job list`, `onward dead list`, `onward queue list`, `onward schedule list`, `onward limit list`, "
        "`onward flow list` or `onward keys list`" in onward("list").err
    )


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("xyzzy", "there is no command 'xyzzy': `onward --help` lists them"),
        ("job xyzzy", "there is no command 'job xyzzy': `onward job --help` lists them"),
        ("\x1b[2J", "there is no command '\\x1b[2J'"),
    ],
)
def test_what_is_like_nothing_points_at_the_help(onward, said, told):
    ran = onward(*said.split(" "))

    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


@pytest.mark.parametrize("said", [["--version"], ["-V"], ["--json", "--version"], ["--version", "job"]])
def test_the_version_is_one_line(onward, said):
    ran = onward(*said)

    assert (ran.code, ran.out, ran.err) == (0, f"onward {__version__}\n", "")


@pytest.mark.parametrize(
    ("said", "meant"), [("--verison", "--version"), ("--hlep", "--help"), ("job list --hepl", "--help")]
)
def test_options_that_end_a_command_are_named_too(onward, said, meant):
    assert f"did you mean {meant}?" in onward(*said.split()).err
