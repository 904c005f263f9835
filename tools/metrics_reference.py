"""Write the page of all metrics from the code that counts them.

python -m tools.metrics_reference check    exit 1 and say so, if the page is out of date
python -m tools.metrics_reference write    bring it up to date
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from onward.supervisor.probes import CAUSES
from onward.telemetry.counters import SERIES, UNREAD
from onward.telemetry.exposition import BOUNDS
from onward.telemetry.families import FAMILIES, Family

PAGE = Path("docs/reference/metrics.md")

INTRODUCTION = f"""\
<!-- written by `python -m tools.metrics_reference write` -->

# Metrics

What `/metrics` of [`onward worker --listen`](../metrics.md) answers, and `onward.integrations.prometheus.text(jobs)`.
Labels are bounded: at most {SERIES} pairs of `queue` and `job`, and all others are counted as `other`. A job that could not
be read is called `{UNREAD}`.
"""

JOBS = f"""\
Counted by the processes that run or enqueue them. A worker adds up its processes, those that have ended too: while it lives,
no number goes back. Always `failed = requeued + failed_permanently`. A counter moves when the store has applied what it
counts. What a handler enqueues in a process of its own is not counted.

The buckets of both histograms end at powers of two of a millisecond: {", ".join(BOUNDS[:4])} … {BOUNDS[-2]} seconds.
"""

STORE = """\
From one look at the store, at most every 15 seconds and only when asked: every worker sees the same numbers, so take their
maximum and not their sum. They are missing while the store does not answer, and on brokers that cannot be inspected. A queue
that holds nothing and is not paused is not listed; at most 100 are.
"""

SECTIONS: Mapping[str, tuple[str, str]] = {
    "jobs": ("Jobs", JOBS),
    "worker": ("The worker", "Of one `onward worker`, with all its processes. A program has the last three.\n"),
    "store": ("The store", STORE),
}


def main(arguments: Sequence[str] | None = None, root: Path = Path()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.metrics_reference", description=f"Check or write {PAGE}.")
    parser.add_argument("command", choices=["check", "write"])
    command = parser.parse_args(arguments).command

    page, current = root / PAGE, "\n".join(_page()) + "\n"
    if command == "write":
        page.write_text(current, encoding="utf-8")
    elif not page.exists() or page.read_text(encoding="utf-8") != current:
        print(f"{PAGE}: out of date, run `python -m tools.metrics_reference write`", file=sys.stderr)
        return 1
    return 0


def _page() -> Iterator[str]:
    yield INTRODUCTION
    for group, (title, text) in SECTIONS.items():
        yield f"## {title}\n\n{text}"
        yield from _table(FAMILIES[group])
        yield ""
    yield "## Why a process was replaced\n\nThe values of the label `cause`.\n"
    yield "| cause | the process was replaced because |\n|---|---|"
    yield from (f"| `{cause}` | {meaning} |" for cause, meaning in CAUSES.items())


def _table(families: Sequence[Family]) -> Iterator[str]:
    yield "| metric | kind | labels | what it tells |\n|---|---|---|---|"
    for family in families:
        labels = ", ".join(f"`{label}`" for label in family.labels) or "–"
        yield f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


if __name__ == "__main__":
    sys.exit(main())
