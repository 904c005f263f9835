"""Every page can be found: it is in the navigation, and every decision in the list of decisions."""

import tomllib
from pathlib import Path

from onward.version import __version__

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


def test_the_navigation_has_six_tabs_and_no_page_beside_them():
    settings = tomllib.loads((_ROOT / "zensical.toml").read_text())

    assert [list(group) for group in settings["project"]["nav"]] == [
        [name] for name in ("Start", "Guides", "Running it", "Stores", "Reference", "Inside")
    ]


def test_the_pages_tell_the_version_that_they_are_about():
    settings = tomllib.loads((_ROOT / "zensical.toml").read_text())

    assert settings["project"]["copyright"] == f"Onward {__version__}"


def test_every_decision_is_in_the_list_of_decisions():
    listed = (_DOCS / "decisions/index.md").read_text()

    assert [page.name for page in sorted((_DOCS / "decisions").glob("0*.md")) if f"({page.name})" not in listed] == []


def test_every_claim_of_the_comparison_rests_on_a_link_or_says_that_none_was_found():
    table = (_DOCS / "index.md").read_text().split("## Beside others")[1].split("\n\n")[2]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]

    assert [row[0].split("**")[1] for row in rows] == [
        *("Onward", "Celery", "RQ", "Dramatiq", "Huey", "Procrastinate", "Oban")
    ]
    assert {len(row) for row in rows} == {len(head)}
    assert [
        cell for row in rows for cell in row[1:] if "](" not in cell and "][" not in cell and cell != "none found"
    ] == []
