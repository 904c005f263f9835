"""The seeded bugs still fit the code, and the tool that plants them tells noticed, unnoticed and unfair apart."""

import re
from pathlib import Path

import pytest

from tools import mutants
from tools.seeded_bugs import MUTANTS, Edit, Mutant

ROOT = Path(__file__).parents[2]
TESTS = "".join(
    path.read_text() for folder in ("tests", "src/onward/testing") for path in sorted((ROOT / folder).rglob("*.py"))
)

every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{each.number} {each.breaks}" for each in MUTANTS])


@every_mutant
def test_a_mutant_matches_the_code(mutant):
    for file, text in mutants.mutated(mutant, ROOT).items():
        assert text != (ROOT / file).read_text()


@every_mutant
def test_the_tests_that_should_notice_a_mutant_exist(mutant):
    for test in (mutants.ORDINARY, *mutant.noticed_by):
        path, *_, name = test.split("::")
        assert (ROOT / path).exists()
        function = name.partition("[")[0]
        assert re.search(rf"def {function}\(", TESTS), test


def test_every_bug_that_should_be_seeded_is():
    seeded = {mutant.number for mutant in MUTANTS}

    assert seeded >= {f"M{number}" for number in (1, 3, 4, 5, 6, 8, 9, 11, 16, 17, 18, 19)}


CODE = "GREETING = 'hello'\n"
ORDINARY_TEST = """\
def test_an_ordinary_job_succeeds():
    import greeting
    assert greeting.GREETING
"""
OTHER_TEST = """\
import greeting

def test_politeness():
    assert greeting.GREETING.startswith("h")
"""


@pytest.fixture
def root(tmp_path):
    """A program of one line, with an ordinary test and one that looks closer."""
    for path, text in {
        "src/greeting.py": CODE,
        "tests/proof/test_programs.py": ORDINARY_TEST,
        "tests/test_greeting.py": OTHER_TEST,
        "tools/__init__.py": "",
        "pyproject.toml": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def a_mutant(old, new, noticed_by="tests/test_greeting.py::test_politeness"):
    return Mutant("M1", "the greeting", (Edit("src/greeting.py", old, new),), (noticed_by,))


def test_a_bug_that_a_test_notices_is_good_news_and_leaves_the_tree_alone(root, capsys):
    assert mutants.main([], root, [a_mutant("'hello'", "'go away'")]) == 0

    assert "noticed by test_politeness\n1 of 1 mutants were noticed" in capsys.readouterr().out
    assert (root / "src/greeting.py").read_text() == CODE


def test_a_bug_that_no_test_notices_is_bad_news(root, capsys):
    assert mutants.main([], root, [a_mutant("'hello'", "'hush'")]) == 1

    assert "UNNOTICED: nothing failed" in capsys.readouterr().out


def test_tests_that_fail_without_any_bug_judge_nothing(root, capsys):
    (root / "src/greeting.py").write_text("GREETING = 'ahoy'\n")

    assert mutants.main([], root, [a_mutant("'ahoy'", "'hello'")]) == 1

    assert capsys.readouterr().out.startswith("without a mutant: test_politeness")


@pytest.mark.parametrize(
    ("mutant", "said_of_it"),
    [
        (a_mutant("'good morning'", "'go away'"), "does not match: src/greeting.py has this text 0 times"),
        (a_mutant("'hello'", "''"), "not even an ordinary job gets through"),
        (a_mutant("'hello'", "1"), "test_politeness broke down instead of failing"),
        (a_mutant("'hello'", "'hush'", "tests/test_greeting.py::test_rudeness"), "the tests could not run"),
    ],
)
def test_a_bug_that_cannot_be_judged_is_bad_news(root, mutant, said_of_it):
    verdict = mutants.try_out(mutant, root)

    assert not verdict.noticed
    assert verdict.words.startswith(said_of_it)


def test_tests_that_do_not_end_judge_nothing(root):
    (root / "tests/test_greeting.py").write_text("import time\ndef test_patience():\n    time.sleep(60)\n")

    verdict = mutants.judge(root, ["tests/test_greeting.py::test_patience"], seconds=1)

    assert verdict[:2] == ("no end after 1 s", False)


def test_the_list_names_the_chosen_ones(capsys):
    assert mutants.main(["--list", "--only", "M17"]) == 0
    assert capsys.readouterr().out == "M17  a commit is not synced (sqlite)\n"
