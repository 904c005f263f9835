"""Write the page of Celery's options from the tables by which `onward.compat.celery` reads them.

python -m tools.celery_reference check    exit 1 and say so, if the page is out of date
python -m tools.celery_reference write    bring it up to date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from onward.compat.celery.conf import OF_CELERY, REFUSED_SETTINGS, SAID_ELSEWHERE, SETTINGS
from onward.compat.celery.options import CALL_OPTIONS, REFUSED_CALL_OPTIONS, REFUSED_TASK_OPTIONS, TASK_OPTIONS

PAGE = Path("docs/reference/celery.md")

INTRODUCTION = """\
<!-- written by `python -m tools.celery_reference write` -->

# Celery's options

What [`onward.compat.celery`](../from-celery.md) makes of each option. One that is in no table is refused as well, with the
name that may have been meant.
"""

SECTIONS: Sequence[tuple[str, str, Mapping[str, str]]] = (
    ("Of a task", "it is", TASK_OPTIONS),
    ("Of a task: refused", "instead", REFUSED_TASK_OPTIONS),
    ("Of a call", "it is", CALL_OPTIONS),
    ("Of a call: refused", "instead", REFUSED_CALL_OPTIONS),
    ("Settings", "it is", SETTINGS),
    ("Settings: refused", "instead", REFUSED_SETTINGS),
    ("Settings: a warning, unless tasks are left to Celery", "instead", SAID_ELSEWHERE),
)


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.celery_reference", description=f"Check or write {PAGE}.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    page, current = root / PAGE, "\n".join(_page()) + "\n"
    if command == "write":
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(current, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != current:
        print(f"{PAGE}: out of date, run `python -m tools.celery_reference write`", file=sys.stderr)
        return 1
    return 0


def _page() -> Iterator[str]:
    yield INTRODUCTION
    for title, heading, table in SECTIONS:
        yield f"## {title}\n"
        yield f"| option | {heading} |\n|---|---|"
        for option, told in table.items():
            yield f"| `{option}` | {told.replace('|', chr(92) + '|')} |"
        yield ""
    starts = ", ".join(f"`{start}*`" for start in OF_CELERY)
    yield f"Settings that begin with {starts} are Celery's own: they count for tasks that stay there."


if __name__ == "__main__":
    raise SystemExit(main())
