"""What the build writes into the package's metadata: a README whose links work outside of the repository, and addresses.

    PROJECT_URL=https://forge.example/team/onward python -m build

The build reads the address of the repository from ``PROJECT_URL``: a fork links to itself.  Without it the README
keeps the words of its links and loses their targets: an index shows no dead link.

Hatchling imports this file by its path, in an environment that has nothing else of this repository.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

__all__ = ["Metadata", "for_an_index", "urls"]

_LINK = re.compile(r"\[(?P<words>[^\]]*)\]\((?!https?:|mailto:|#)(?P<target>[^)\s]+)\)")
_PAGES = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}


class Metadata(MetadataHookInterface):
    """Write ``readme`` and ``urls``, which pyproject.toml says are dynamic."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata."""
        home = os.environ.get("PROJECT_URL", "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text, home)}
        metadata["urls"] = urls(home)


def for_an_index(text: str, home: str) -> str:
    """Return the README with links that lead somewhere on any page; without a home, with their words only."""
    return _LINK.sub(rf"[\g<words>]({home}/blob/main/\g<target>)" if home else r"\g<words>", text)


def urls(home: str) -> dict[str, str]:
    """Return the addresses that an index shows beside the package."""
    if not home:
        return {}
    pages = {name: f"{home}/blob/main/{page}" for name, page in _PAGES.items()}
    return {"Source": home, **pages, "Issues": f"{home}/issues"}
