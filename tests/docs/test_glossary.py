"""The glossary: one word for one thing, every class of the tour in it, and none that does not exist."""

import functools
import re
from pathlib import Path

from tools import limits

_ROOT = Path(__file__).parents[2]
_GLOSSARY = (_ROOT / "docs/glossary.md").read_text()
_TOUR = (_ROOT / "docs/tour.md").read_text()
_ENTRY = re.compile(r"^\| (?!word \||---)(?P<word>[^|]+) \| (?P<meaning>.+) \|$", re.MULTILINE)
_CLASS = re.compile(r"`([A-Z]\w+)`")
_NAMED = re.compile(r"`([A-Z]\w+)[`.]")  # a class, or one of its methods
_FILE = re.compile(r"\(`([\w/]+\.py)`\)")


@functools.cache
def _modules():
    return list(limits.read(_ROOT / limits.SOURCE))


def _words():
    return [match["word"] for match in _ENTRY.finditer(_GLOSSARY)]


def test_no_two_public_classes_share_a_name():
    shared = [each for each in limits.shared_names(_modules()) if each.subject not in limits.EXCEPTIONS]

    assert shared == []


def test_every_class_that_the_tour_names_is_explained():
    classes = limits.public_classes(_modules())
    named = {name for name in _NAMED.findall(_TOUR) if name in classes}

    assert named - {name for word in _words() for name in _CLASS.findall(word)} == set()


def test_every_class_that_is_explained_exists_in_the_file_that_is_named():
    classes = limits.public_classes(_modules())

    for match in _ENTRY.finditer(_GLOSSARY):
        for name in _CLASS.findall(match["word"]):
            (file,) = _FILE.findall(match["meaning"])
            assert any(limits._place(file) == home for home in classes.get(name, [])), f"{name} is not in {file}"


def test_every_file_that_is_named_exists():
    assert [file for file in _FILE.findall(_GLOSSARY) if not (_ROOT / limits.SOURCE / file).is_file()] == []


def test_words_are_in_alphabetical_order_and_each_is_there_once():
    words = [(word.strip("`").lower(), word.startswith("`")) for word in _words()]

    assert len(words) > 50
    assert words == sorted(set(words), key=lambda word: (word[0], not word[1]))
