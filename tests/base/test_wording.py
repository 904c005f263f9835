"""What users read is plain English: phrases that were corrected stay away, and one thing is not counted as several."""

import ast
import functools
import re
from pathlib import Path

import pytest

import onward
from onward.base.wording import a, counted

SOURCE = Path(onward.__file__).parent
# The suite for backends and the stand-in server speak to those who write backends, and use such words as names.
WITH_USERS = [
    path
    for path in SOURCE.rglob("*.py")
    if path.relative_to(SOURCE).parts[:2] not in {("testing", part) for part in ("contract", "machine", "servicebus")}
]

PHRASES = [
    r"leave .{1,20} away\b",
    r"\bmend(s|ed)?\b",
    r"for others' sake",
    r"said by hand",
    r"complained of",
    r"lost to us",
    r"\b(some|no|any|every)(body|one)\b(?! of)",
    r"\bwho(ever|ever's)\b",
    r"\bbelong into\b",
    r"\bcrashed .{1,30} times\b",
]
ONE_AS_SEVERAL = r"%d (jobs|times|queues|runs|processes)\b"


@functools.cache
def texts_of(path):
    """Every text of a module that is no docstring, with its line; what is filled in is left out as …"""
    tree = ast.parse(path.read_text())
    left_out = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    left_out |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            texts.append((node.lineno, "".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            texts.append((node.lineno, node.value))
    return texts


def found(pattern, paths):
    compiled = re.compile(pattern, re.IGNORECASE)
    return [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in paths
        for line, text in texts_of(path)
        if " " in text and compiled.search(text)
    ]


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_message_has_this_phrase(phrase):
    assert found(phrase, WITH_USERS) == []


def test_no_log_line_counts_one_as_several():
    assert found(ONE_AS_SEVERAL, WITH_USERS) == []


def test_nor_has_a_text_that_a_store_makes():
    scripts = [*SOURCE.rglob("*.sql"), *SOURCE.rglob("*.lua")]

    assert len(scripts) > 10
    assert [path.name for path in scripts if re.search(r"crashed %\w times", path.read_text())] == []


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (-1, "-1 jobs"), (12_345, "12,345 jobs")]
)
def test_a_number_goes_with_its_noun(number, told):
    assert counted(number, "job") == told


def test_a_noun_may_have_a_plural_of_its_own():
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]


@pytest.mark.parametrize(
    ("noun", "told"),
    [
        ("async_generator", "an async_generator"),
        ("coroutine", "a coroutine"),
        ("Onward", "an Onward"),
        ("int", "an int"),
    ],
)
def test_a_noun_goes_with_its_article(noun, told):
    assert a(noun) == told
