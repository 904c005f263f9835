"""Lead the links of the built site that leave it, into the repository, to where the repository is.

python -m tools.site_links [FOLDER]    build/site unless it is named; PROJECT_URL has the address

Without an address the links lose their targets and keep their words, as those of the wheel's README do.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

_LINK = re.compile(r'(?P<start><a\b[^>]*?) href="(?P<path>\.\./[^"#?]*)(?P<rest>[^"]*)"')


def main(arguments: Sequence[str] = ()) -> int:
    site = Path(arguments[0] if arguments else "build/site").absolute()
    address = os.environ.get("PROJECT_URL", "").rstrip("/")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if (new := _led(text, page, site, address)) != text:
            page.write_text(new, encoding="utf-8")
    return 0


def _led(text: str, page: Path, site: Path, address: str) -> str:
    def lead(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link["path"]))
        if target.is_relative_to(site):
            return link[0]
        if not address:
            return link["start"]
        path = target.relative_to(site.parent).as_posix()  # as the folder of the pages stands in the repository
        kind = "tree" if link["path"].endswith("/") else "blob"
        return f'{link["start"]} href="{address}/{kind}/main/{path}{link["rest"]}"'

    return _LINK.sub(lead, text)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
