"""Links from the documentation into the code lead to files that exist."""

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)")
_PAGES = [
    _ROOT / "README.md",
    _ROOT / "CONTRIBUTING.md",
    _ROOT / "SECURITY.md",
    *sorted((_ROOT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_ROOT)))
def test_every_link_to_a_file_leads_to_one(page):
    links = _LINK.findall(page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []
