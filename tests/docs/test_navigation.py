"""Every page can be found: it is in the navigation, and every decision in the list of decisions."""

import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"


def _pages(entry):
    """The files that a part of the navigation names."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for below in entry.values():
            yield from _pages(below)
    else:
        for below in entry:
            yield from _pages(below)


def test_every_page_is_in_the_navigation():
    settings = tomllib.loads((_ROOT / "zensical.toml").read_text())
    written = {str(page.relative_to(_DOCS)) for page in _DOCS.rglob("*.md")}

    assert set(_pages(settings["project"]["nav"])) == written


def test_every_decision_is_in_the_list_of_decisions():
    listed = (_DOCS / "decisions/index.md").read_text()

    assert [page.name for page in sorted((_DOCS / "decisions").glob("0*.md")) if f"({page.name})" not in listed] == []
