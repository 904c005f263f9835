"""Write docs/llms.txt: what each page of the documentation is about, for programs that read it instead of people.

    python -m tools.llms check    exit 1 and say why, if the file is not what the pages say
    python -m tools.llms write    bring it up to date

The groups and the names are those of the navigation in zensical.toml; the words are the first sentence of each page.
Decisions are named by their list alone.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

FILE = Path("docs/llms.txt")
_SETTINGS = Path("zensical.toml")
_LINK = re.compile(r"\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])")
_SENTENCE = re.compile(r"(?<=[.?!])\s")
_LONGEST = 300


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.llms", description="Check or write docs/llms.txt.")
    parser.add_argument("command", choices=["check", "write"])
    path, text = root / FILE, told(root)
    if parser.parse_args(arguments).command == "write":
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        print(f"{FILE}: out of date, run `python -m tools.llms write`", file=sys.stderr)
        return 1
    return 0


def told(root: Path) -> str:
    """The file: a heading for each group of the navigation, a line for each of its pages."""
    project = tomllib.loads((root / _SETTINGS).read_text(encoding="utf-8"))["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    for group in project["nav"]:
        for name, pages in group.items():
            lines += ["", f"## {name}", "", *(_line(root / "docs", *page) for page in _pages(pages))]
    return "\n".join(lines) + "\n"


def _pages(entry: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The pages of a part of the navigation: their names and files."""
    if isinstance(entry, str):
        if not re.search(r"decisions/\d", entry):
            yield name or "Decisions", entry
    elif isinstance(entry, dict):
        for below, pages in entry.items():
            yield from _pages(pages, below)
    else:
        for each in entry:
            yield from _pages(each)


def _line(docs: Path, name: str, page: str) -> str:
    place = re.sub(r"(index)?\.md$", "", page)  # on the site each page is a folder
    folder = f"{place.rstrip('/')}/" if place else "./"
    return f"- [{name}]({folder}): {first_sentence((docs / page).read_text(encoding='utf-8'))}"


def first_sentence(page: str) -> str:
    """Return the first sentence below the title of a page, as plain words."""
    paragraphs = page.split("\n\n")
    prose = next(each for each in paragraphs[1:] if each[0] not in "#|<!-" and not each.startswith("```"))
    plain = _LINK.sub(r"\1", " ".join(prose.split()))
    return _SENTENCE.split(plain)[0].rstrip(":")[:_LONGEST]


if __name__ == "__main__":
    sys.exit(main())
